"""Move many jobs: those that were ticked, or all that match, in batches that leave the server time for others."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from echomq_django import jobs
from echomq_django.job import Job, Location

from .base import whole
from .chosen import Selected, is_id
from .listing import Listing
from .moves import Move

SECONDS = 5.0
"""How long one request works before it asks to go on."""

ASIDE = 1_000
"""How many ids that are none may stand before those that are listed without their rows."""


@dataclass
class Report:
    """Hold what a request has done so far."""

    moved: list[str] = field(default_factory=list)
    """The keys of the ticked jobs that were moved."""
    by_queue: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    """How many were no longer there, or are no jobs."""
    resume: str = ""
    """Where to go on, `<queue>:<rank>`; nothing at first, and when all is done."""

    @property
    def done(self) -> int:
        """Count what was moved."""
        return self.by_queue.total()


def selected(move: Move, chosen: Selected, place: Location, using: str, report: Report) -> None:
    """Move jobs by their ids, from the place in which a page showed them."""
    for queue, job_ids in chosen.by_queue().items():
        sound = [job_id for job_id in job_ids if is_id(job_id)]
        words = move.from_place(queue, sound, place, using)
        report.moved += [f"{queue}:{job_id}" for job_id, word in zip(sound, words, strict=True) if word == "ok"]
        report.by_queue[queue] += words.count("ok")
        report.missed += len(job_ids) - words.count("ok")


def matching(move: Move, listing: Listing, cutoff_ms: int, report: Report) -> None:
    """Move all jobs that match, but none that came after the cut-off, until the time of one request is up.

    What was moved has left its place, so the next batch begins where this one did, behind what stays.
    """
    end, within = time.monotonic() + SECONDS, listing.until(cutoff_ms)
    first, _, rank = report.resume.partition(":")
    report.resume = ""
    for queue in listing.queues[listing.queues.index(first) if first in listing.queues else 0 :]:
        stays = whole(rank) if queue == first else 0
        while queue in within.sizes:
            seen, meant = _batch(within, queue, stays, cutoff_ms)
            if not seen:
                break
            words = move.from_place(queue, meant, listing.place, listing.using) if meant else []
            report.by_queue[queue] += words.count("ok")
            report.missed += len(meant) - words.count("ok")
            stays += seen - len(meant)
            if time.monotonic() > end:
                report.resume = f"{queue}:{stays}"
                return


def _batch(listing: Listing, queue: str, start: int, cutoff_ms: int) -> tuple[int, list[str]]:
    """Look at the next jobs: how many there are, and the ids of those that are meant."""
    if listing.place is Location.DEAD and not listing.is_search and start <= ASIDE:
        # All of the span are meant, so that their rows need not be read.
        size = start + listing.chunk
        found = jobs.listed(queue, listing.place, size, span=listing.span, using=listing.using)[start:]
        return len(found), [job_id for job_id, _ in found if is_id(job_id)]
    rows = listing.browse(queue, start, listing.chunk)
    return len(rows), [job.id for job in rows if _is_meant(job, listing, cutoff_ms)]


def _is_meant(job: Job, listing: Listing, cutoff_ms: int) -> bool:
    # On the schedule the time is when a job runs, and what came late is told by its id, or by its last start.
    came = max(job.enqueued_at or 0, job.started_at or 0) if job.location is Location.SCHEDULE else 0
    return came <= cutoff_ms and is_id(job.id) and listing.matches(job)
