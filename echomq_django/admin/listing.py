"""The jobs that a change list shows: a page of a place by its rank, or what a search finds in a bounded window."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.job import Job, Location
from echomq_django.jobs import Span
from echomq_django.looks import ALWAYS

from . import dates, hollow
from .arguments import Arguments, Redact
from .chosen import Selected, is_id
from .showing import moment, visible, when

MERGED = 2_000
"""How deep the list of several queues goes; one queue has no limit."""

WINDOW = 5_000
"""How many jobs a search looks at."""

BUDGET = 1.0
"""Seconds after which a search stops looking."""

CHUNK = 500
PAYLOADS = 100
"""How many jobs are read at once, without and with their payloads: these may be of any size."""


def shaped(job: Job) -> shapes.Job:
    """Give a job the shape that Django's admin knows."""
    shape = shapes.Job(
        key=f"{job.queue}:{job.id}",
        job_id=visible(job.id),
        queue=job.queue,
        name=visible(job.name),
        location=job.location or "",
        arguments=None,
        at=moment(when(job)),
    )
    shape.job = job
    shape._state.adding = False
    return shape


@dataclass(frozen=True)
class Found:
    """Hold what a search found, and the rank at which a later one goes on."""

    hits: Sequence[Job]
    rank: int
    is_exact: bool = False


@dataclass(frozen=True)
class Listing:
    """Hold what is asked for, and find it; stands where the admin has a query."""

    queues: tuple[str, ...]
    place: Location
    using: str
    span: Span = ALWAYS
    task: str = ""
    error: str = ""
    text: str = ""
    skip: int = 0
    """How many jobs of each queue an earlier search has looked at."""
    with_payloads: bool = False
    """Whether the text is looked for in arguments too."""
    redact: Redact | None = None
    text_search: bool = True
    """Whether any text is looked for, or ids only."""

    ordered = totally_ordered = True

    @property
    def is_search(self) -> bool:
        """Say whether jobs have to be looked at to know which are meant."""
        return bool(self.task or self.error or self.text)

    @property
    def is_refused(self) -> bool:
        """Say whether a text is asked for where only ids are looked for."""
        return bool(self.text) and not self.text_search and not is_id(self.text)

    @property
    def reads_payloads(self) -> bool:
        """Say whether that needs their payloads."""
        return self.with_payloads and bool(self.text)

    @property
    def chunk(self) -> int:
        """Give how many jobs are looked at together."""
        return PAYLOADS if self.reads_payloads else CHUNK

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Count the jobs of the span, by queue; queues without any are left out."""
        if self.is_refused:
            return {}  # nothing is to be found, and nothing is to be looked at
        found = {queue: jobs.count(queue, self.place, self.span, using=self.using) for queue in self.queues}
        return {queue: size for queue, size in found.items() if size}

    @property
    def total(self) -> int:
        """Count the jobs of the span, whatever is searched for."""
        return sum(self.sizes.values())

    def until(self, ms: int) -> Listing:
        """Leave out what died after a time. Other places have no time at which a job came."""
        if self.place is not Location.DEAD:
            return self
        end = ms if self.span.until_ms is None else min(self.span.until_ms, ms)
        return replace(self, span=Span(self.span.since_ms, end))

    # Searching.

    @cached_property
    def found(self) -> Found:
        """Search: an id wherever it is, or anything else in the window."""
        exact = self.exact()
        if exact is not None:
            return Found(exact, 0, is_exact=True)
        end, looked, rank, hits = time.monotonic() + BUDGET, 0, self.skip, list[Job]()
        for chunk, after in self._chunks():
            rank = after
            hits += filter(self.matches, chunk)
            looked += len(chunk)
            if looked >= WINDOW or time.monotonic() > end:
                break
        return Found(sorted(hits, key=self._order) if len(self.sizes) > 1 else hits, rank)

    @property
    def looked(self) -> int:
        """Count the jobs that this search and those before it have looked at."""
        return sum(min(self.found.rank, size) for size in self.sizes.values())

    def exact(self) -> list[Job] | None:
        """Find a job by its id, also one that is completed and kept; None when the text is no id."""
        if not is_id(self.text):
            return None
        hits = []
        for queue in self.queues:
            if job := hollow.read(queue, self.text, self.using):
                hits.append(job)
        return hits

    def _chunks(self) -> Iterator[tuple[list[Job], int]]:
        """Give the jobs from `skip` on, as many of each queue, and the rank at which the next ones begin."""
        rank, size = self.skip, max(1, self.chunk // max(len(self.sizes), 1))
        while found := [job for queue in self.sizes for job in self.browse(queue, rank, size)]:
            rank += size
            yield found, rank

    def browse(self, queue: str, start: int, size: int) -> list[Job]:
        """Read jobs of one queue, with what a search looks at."""
        return jobs.browse(
            queue, self.place, start, size, span=self.span, payloads=self.reads_payloads, using=self.using
        )

    def matches(self, job: Job) -> bool:
        """Say whether a job is one of those that are looked for."""
        if (self.task and job.name != self.task) or (self.error and job.error_head != self.error):
            return False
        if not self.text or self.text == job.id:
            return True
        text = self.text.casefold()
        return any(text in each.casefold() for each in (job.name, job.last_error)) or (
            # What is redacted could be guessed letter by letter, if it could be searched.
            self.reads_payloads and text in Arguments(job, self.redact).searched().casefold()
        )

    # Pages.

    def count(self) -> int:
        """Count what is listed."""
        return len(self.found.hits) if self.is_search else self.total

    __len__ = count

    @property
    def depth(self) -> int:
        """Give how many of them can be paged through."""
        return self.count() if self.is_search or len(self.sizes) <= 1 else min(self.total, MERGED)

    def page(self, start: int, size: int) -> list[shapes.Job]:
        """Give a page of what is listed."""
        if self.is_search:
            found = self.found.hits[start : start + size]
        elif len(self.sizes) > 1:
            found = self._merged(start, min(start + size, MERGED))
        else:
            found = [job for queue in self.sizes for job in self.browse(queue, start, size)]
        return [shaped(job) for job in found]

    def _merged(self, start: int, end: int) -> list[Job]:
        """Merge the heads of several queues."""
        heads = [
            [(queue, job_id, score) for job_id, score in
             jobs.listed(queue, self.place, end, span=self.span, using=self.using)]
            for queue in self.sizes
        ]  # fmt: skip
        wanted = list(heapq.merge(*heads, key=lambda one: self._rank(one[1], one[2])))[start:end]
        by_queue: dict[str, list[tuple[str, float]]] = {}
        for queue, job_id, score in wanted:
            by_queue.setdefault(queue, []).append((job_id, score))
        rows = {
            (queue, job.id): job
            for queue, listed in by_queue.items()
            for job in jobs.rows(queue, self.place, listed, using=self.using)
        }
        return [rows[queue, job_id] for queue, job_id, _ in wanted]

    def _rank(self, job_id: str, score: float) -> tuple[float, str]:
        """Give what the place is ordered by; the dead come backwards, also those of one moment."""
        return (-score, "") if self.place is Location.DEAD else (score, job_id)

    def _order(self, job: Job) -> tuple[float, str]:
        return self._rank(job.id, -job.priority if self.place is Location.PENDING else float(job.time or 0))

    # What the admin asks of a query.

    def filter(self, pk__in: Sequence[str]) -> Selected:
        """Give the jobs that were ticked, but none of a queue that is not listed: a form may be written by hand."""
        return Selected(key for key in dict.fromkeys(pk__in) if key.partition(":")[0] in self.queues)

    @cached_property
    def edges(self) -> tuple[datetime | None, datetime | None]:
        """Give the first and the last time of the place."""
        return dates.edges(list(self.sizes), self.place, self.using)

    def aggregate(self, **_: Any) -> dict[str, datetime | None]:
        """Give the first and the last time, for the date hierarchy."""
        first, last = self.edges
        return {"first": first, "last": last}

    def datetimes(self, field: str, kind: str) -> list[datetime]:
        """Give the years, months or days of the span in which there are jobs, for the date hierarchy."""
        return dates.periods(list(self.sizes), self.place, self.span, kind, self.edges, self.using)
