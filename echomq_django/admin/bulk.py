"""Move many jobs: those that were ticked, or all that match, in batches that leave the server time for others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from echomq_django import jobs
from echomq_django.job import Job, Location
from echomq_django.jobs import Span

from .listing import Listing

BATCH = 500
"""The most jobs that one call of a script takes."""

SECONDS = 5.0
"""How long one request works before it asks to go on."""

Many = Callable[..., list[str]]


@dataclass(frozen=True)
class Report:
    """Hold how many jobs a request has moved, how many it could not, and whether it was done with all."""

    done: int
    missed: int
    finished: bool


def selected(do: Many, by_queue: dict[str, list[str]], using: str) -> Report:
    """Move jobs by their ids."""
    words = [word for queue, job_ids in by_queue.items() for word in do(queue, job_ids, using=using)]
    return Report(words.count("ok"), len(words) - words.count("ok"), finished=True)


def matching(do: Many, listing: Listing, cutoff_ms: int) -> Report:
    """Move all jobs that match, but none that came after the cut-off, until the time of one request is up.

    What was moved has left its place, so the next page begins where this one did, behind what stays.
    """
    end, done, missed = time.monotonic() + SECONDS, 0, 0
    span = _until(listing, cutoff_ms)
    payloads = bool(listing.text) and listing.payloads
    for queue in listing.queues:
        stays = 0
        while found := jobs.browse(
            queue, listing.place, stays, BATCH, span=span, payloads=payloads, using=listing.using
        ):
            if time.monotonic() > end:
                return Report(done, missed, finished=False)
            meant = [job.id for job in found if listing.matches(job) and not _came_later(job, cutoff_ms)]
            moved = do(queue, meant, using=listing.using).count("ok") if meant else 0
            done, missed, stays = done + moved, missed + len(meant) - moved, stays + len(found) - moved
    return Report(done, missed, finished=True)


def _until(listing: Listing, cutoff_ms: int) -> Span:
    if listing.place is not Location.DEAD:
        return listing.span
    until = listing.span.until_ms
    return Span(listing.span.since_ms, cutoff_ms if until is None else min(until, cutoff_ms))


def _came_later(job: Job, cutoff_ms: int) -> bool:
    # On the schedule the time is when a job runs: when it came is in its id.
    return job.location is Location.SCHEDULE and (job.enqueued_at or 0) > cutoff_ms
