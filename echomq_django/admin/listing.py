"""The jobs that a change list shows: a page of a place by its rank, or what a search finds in a bounded window."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from django.utils import timezone

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.exceptions import InvalidId, JobGone
from echomq_django.ids import check_job
from echomq_django.job import Job, Location
from echomq_django.jobs import Span

MERGED = 2_000
"""How deep the list of several queues goes; one queue has no limit."""

WINDOW = 5_000
"""How many jobs a search looks at."""

BUDGET = 1.0
"""Seconds after which a search stops looking."""

CHUNK = 500


def shaped(job: Job) -> shapes.Job:
    """Give a job the shape that Django's admin knows."""
    shape = shapes.Job(
        key=f"{job.queue}:{job.id}", job_id=job.id, queue=job.queue, name=job.name,
        location=job.location or "", at=moment(when(job)),
    )  # fmt: skip
    shape.job = job
    shape._state.adding = False
    return shape


def when(job: Job) -> int | None:
    """Give the time that matters in a job's place, unix ms: for a pending job, when it was enqueued."""
    return job.enqueued_at if job.location is Location.PENDING else job.time


def moment(ms: int | None) -> datetime | None:
    """Give a time of the server as templates show it."""
    if ms is None:
        return None
    try:
        at = datetime.fromtimestamp(ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None  # a score that somebody wrote by hand
    return at if timezone.get_current_timezone() is not None else at


@dataclass(frozen=True)
class Listing:
    """Hold what is asked for, and find it; stands where the admin has a query."""

    queues: tuple[str, ...]
    place: Location
    span: Span
    task: str = ""
    error: str = ""
    text: str = ""
    skip: int = 0
    """How many of the jobs an earlier search has looked at."""
    payloads: bool = False
    """Whether the text is looked for in payloads too."""
    using: str = "default"

    ordered = totally_ordered = True

    @property
    def is_search(self) -> bool:
        """Say whether jobs have to be looked at to know which are meant."""
        return bool(self.task or self.error or self.text)

    @cached_property
    def total(self) -> int:
        """Count what the places hold, whatever is searched for."""
        return sum(jobs.count(queue, self.place, self.span, using=self.using) for queue in self.queues)

    @cached_property
    def found(self) -> tuple[list[Job], int]:
        """Search: what was found in the window, and how many jobs were looked at."""
        exact = self._exact()
        if exact is not None:
            return exact, 0
        end, looked, hits = time.monotonic() + BUDGET, 0, []
        for chunk in self._chunks():
            hits += [job for job in chunk if self.matches(job)]
            looked += len(chunk)
            if looked >= WINDOW or time.monotonic() > end:
                break
        return hits, looked

    def _exact(self) -> list[Job] | None:
        """Find a job by its id, wherever it is; None when the text is no id."""
        try:
            job_id = check_job(self.text.strip())
        except InvalidId:
            return None
        hits = []
        for queue in self.queues:
            try:
                hits.append(jobs.get(queue, job_id, using=self.using))
            except JobGone:
                continue
        return hits

    def _chunks(self) -> Iterator[list[Job]]:
        start = self.skip
        while chunk := self._slice(start, CHUNK, payloads=self.payloads and bool(self.text)):
            yield chunk
            start += len(chunk)

    def matches(self, job: Job) -> bool:
        """Say whether a job is one of those that are looked for."""
        if self.task and job.name != self.task:
            return False
        if self.error and job.last_error.partition(":")[0] != self.error:
            return False
        text = self.text.casefold()
        places = [job.name, job.last_error, job.payload.decode(errors="backslashreplace") if self.payloads else ""]
        return not text or any(text in each.casefold() for each in places)

    def count(self) -> int:
        """Count what is listed."""
        if self.is_search:
            return len(self.found[0])
        return self.total if len(self.queues) == 1 else min(self.total, MERGED)

    __len__ = count

    def page(self, start: int, size: int) -> list[shapes.Job]:
        """Give a page of what is listed."""
        found = self.found[0][start : start + size] if self.is_search else self._slice(start, size)
        return [shaped(job) for job in found]

    def _slice(self, start: int, size: int, *, payloads: bool = False) -> list[Job]:
        if len(self.queues) == 1:
            span = self.span
            return jobs.browse(self.queues[0], self.place, start, size, span=span, payloads=payloads, using=self.using)
        return self._merged(start, size, payloads)

    def _merged(self, start: int, size: int, payloads: bool) -> list[Job]:
        """Merge the heads of several queues by their times, down to a bound."""
        end = min(start + size, max(MERGED, WINDOW if self.is_search else 0))
        newest_first = self.place is Location.DEAD
        heads = [
            [(-score if newest_first else score, queue, job_id) for job_id, score in
             jobs.listed(queue, self.place, end, span=self.span, using=self.using)]
            for queue in self.queues
        ]  # fmt: skip
        wanted = list(heapq.merge(*heads))[start:end]
        by_queue: dict[str, list[tuple[str, float]]] = {}
        for score, queue, job_id in wanted:
            by_queue.setdefault(queue, []).append((job_id, -score if newest_first else score))
        rows = {
            (job.queue, job.id): job
            for queue, listed in by_queue.items()
            for job in jobs.rows(queue, self.place, listed, payloads=payloads, using=self.using)
        }
        return [rows[queue, job_id] for _, queue, job_id in wanted if (queue, job_id) in rows]

    # What the admin asks of a query.

    def filter(self, pk__in: Sequence[str]) -> Selected:
        """Give the jobs that were ticked."""
        return Selected([key for key in pk__in if key.partition(":")[0] in self.queues])

    def aggregate(self, **_: Any) -> dict[str, datetime | None]:
        """Give the first and the last time, for the date hierarchy."""
        edges = [edge for queue in self.queues if (edge := jobs.edges(queue, self.place, using=self.using))]
        return {
            "first": moment(min((first for first, _ in edges), default=None)),
            "last": moment(max((last for _, last in edges), default=None)),
        }

    def datetimes(self, field: str, kind: str) -> list[datetime]:
        """Give the years, months or days of the span in which there are jobs, for the date hierarchy."""
        bounds = self.aggregate()
        if bounds["first"] is None or bounds["last"] is None:
            return []
        first = max(filter(None, [bounds["first"], moment(self.span.since_ms)]))
        last = min(filter(None, [bounds["last"], moment(self.span.until_ms)]))
        steps, at = [], truncated(timezone.localtime(first), kind)
        while at <= last and len(steps) < 400:
            after = truncated(
                at + {"year": timedelta(days=370), "month": timedelta(days=32)}.get(kind, timedelta(hours=36)), kind
            )
            span = Span(int(at.timestamp() * 1000), int(after.timestamp() * 1000) - 1)
            if replace(self, span=span).total:
                steps.append(at)
            at = after
        return steps


def truncated(at: datetime, kind: str) -> datetime:
    """Give the start of the year, the month or the day, in the current time zone."""
    naive = datetime(at.year, at.month if kind != "year" else 1, at.day if kind == "day" else 1)
    return timezone.make_aware(naive)


class Selected(list[str]):
    """Hold the keys of the jobs that were ticked."""

    def count(self, *_: Any) -> int:  # type: ignore[override]
        """Count them."""
        return len(self)

    def by_queue(self) -> dict[str, list[str]]:
        """Give their ids, by queue."""
        found: dict[str, list[str]] = {}
        for key in self:
            queue, _, job_id = key.partition(":")
            found.setdefault(queue, []).append(job_id)
        return found
