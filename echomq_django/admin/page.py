"""What the page of a job shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import conf, jobs
from echomq_django.job import ErrorRecord, Job, Location

from .arguments import SHOWN_LIMIT, Arguments, indented
from .showing import NOTHING, TIME_WORDS, told, told_place, visible

Facts = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Attempt:
    """Hold a failed attempt, as text."""

    number: int
    error: str
    message: str
    traceback: str
    worker: str
    started: str
    finished: str

    @classmethod
    def of(cls, record: ErrorRecord) -> Attempt:
        """Tell an error record."""
        return cls(
            number=record.attempt,
            error=visible(record.error),
            message=visible(record.message),
            traceback=visible(record.traceback[:SHOWN_LIMIT]),
            worker=visible(record.worker),
            started=told(record.started_at or None),
            finished=told(record.finished_at or None),
        )


@dataclass(frozen=True)
class JobPage:
    """Hold a job and tell about it; everything is text that a template escapes."""

    job: Job
    contents: Arguments
    using: str
    may_see_payload: bool
    """Whether this user may see arguments, and what the task gave and wrote."""

    @property
    def sections(self) -> Sequence[tuple[Any, Facts]]:
        """Give the plain facts: titles, and names with values."""
        return [(_("Identity"), self._identity()), (_("Timing"), self._timing())]

    def _identity(self) -> Facts:
        job = self.job
        most = job.max_attempts or conf.alias(self.using).queue(job.queue).max_attempts
        facts = [
            (_("ID"), job.id),
            (_("Task"), visible(job.name) or NOTHING),
            (_("Queue"), job.queue),
            (_("Place"), told_place(job)),
            (_("Priority"), job.priority),
            (_("Attempts"), gettext("%(made)s of %(most)s") % {"made": job.attempt, "most": most}),
            (_("Fencing token"), job.attempts),
            (_("Lost leases"), job.stalled),
            (_("Worker"), visible(worker_of(job)) or NOTHING),
        ]
        return [*facts, (_("Lane"), visible(job.group))] if job.group else facts

    def _timing(self) -> Facts:
        job = self.job
        facts = [(_("Enqueued"), told(job.enqueued_at)), (_("Last started"), told(job.started_at))]
        if job.location in (Location.ACTIVE, Location.SCHEDULE, Location.DEAD):
            facts.append((capfirst(TIME_WORDS[job.location]), told(job.time)))
        later = [(_("First put off"), job.deferred_at), (_("Finished"), job.finished_at)]
        return [*facts, *((name, told(ms)) for name, ms in later if ms is not None)]

    @cached_property
    def arguments(self) -> tuple[str, bool]:
        """Give the arguments as far as a page shows them, and whether that is not all."""
        text = self.contents.text()
        return visible(text[:SHOWN_LIMIT]), len(text) > SHOWN_LIMIT

    @property
    def result(self) -> str | None:
        """Give the result that is kept; None when there is none."""
        if self.job.result is None:
            return None
        text = self.job.result.decode(errors="backslashreplace")
        with suppress(ValueError, RecursionError):  # another program's result is shown as it is
            text = indented(json.loads(text)) or text
        return visible(text[:SHOWN_LIMIT])

    @property
    def progress(self) -> str:
        """Give what the task said last of its progress."""
        return visible(progress(self.job.progress))

    @cached_property
    def logs(self) -> str:
        """Give the lines that the task logged."""
        lines = jobs.logs(self.job.queue, self.job.id, using=self.using)
        return visible("\n".join(lines)[-SHOWN_LIMIT:])

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Give the failed attempts, the latest first."""
        return [Attempt.of(record) for record in reversed(self.job.errors)]


def worker_of(job: Job) -> str:
    """Name the worker of the latest claim: an owner is a worker and the number of its claim."""
    return job.owner.rpartition(":")[0]


def progress(text: str) -> str:
    """Tell a progress in words; another program's as it is."""
    try:
        found = json.loads(text)
        done, total, note = found["done"], found.get("total"), found.get("note") or ""
        share = f"{done:g} / {total:g} ({100 * done / total:.0f} %)" if total else f"{done:g}"
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return text
    return f"{share} {note}".strip()
