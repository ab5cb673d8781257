"""What the page of a job shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import conf, jobs
from echomq_django.job import CRASHED, ErrorRecord, Job, Location

from .arguments import SHOWN_LIMIT, Arguments, indented
from .hollow import is_hollow
from .outlook import most, outlook, told_worker
from .showing import NOTHING, TIME_WORDS, lasting, moment, told, told_place, visible

Facts = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Attempt:
    """Hold a failed attempt, as text."""

    number: int
    """0 when the record does not say."""
    facts: Sequence[str]
    """When it failed, after how long, and whose it was, as far as that is known."""
    error: str
    traceback: str

    @classmethod
    def of(cls, record: ErrorRecord) -> Attempt:
        """Tell an error record."""
        facts = [*_times(record), visible(record.worker)]
        return cls(
            number=record.attempt,
            facts=[fact for fact in facts if fact],
            error=visible(_error(record)),
            traceback=visible(record.traceback[:SHOWN_LIMIT]),
        )


def _times(record: ErrorRecord) -> list[str]:
    """Tell when an attempt was; the record of one that the application settled does not know."""
    if moment(record.finished_at or None) is None:
        return [gettext("started %s") % told(record.started_at)] if moment(record.started_at or None) else []
    failed = gettext("failed %s") % told(record.finished_at)
    if not 0 < record.started_at <= record.finished_at:
        return [failed]
    return [failed, gettext("after %s") % lasting((record.finished_at - record.started_at) / 1000)]


def _error(record: ErrorRecord) -> str:
    """Tell an error by its class and its text; most texts begin with the name of the class."""
    module, _dot, name = record.error.rpartition(".")
    if record.error == CRASHED and not record.message:
        return gettext("crashed: its worker was lost while it ran the job")
    if record.error in ("", "error") and record.message:  # a text is all that there was
        return record.message
    if not record.message or record.message == name or record.message.startswith((f"{name}:", f"{name} (")):
        return f"{module}.{record.message or name}" if module else record.message or name
    return f"{record.error}: {record.message}"


@dataclass(frozen=True)
class JobPage:
    """Hold a job and tell about it; everything is text that a template escapes."""

    job: Job
    contents: Arguments
    using: str
    may_see_payload: bool
    """Whether this user may see arguments, and what the task gave and wrote."""

    alike: str
    """The way to the dead jobs that have the same error."""

    @property
    def is_hollow(self) -> bool:
        """Say whether the row is missing."""
        return is_hollow(self.job)

    @property
    def sections(self) -> Sequence[tuple[Any, Facts]]:
        """Give the plain facts: titles, and names with values."""
        return [(_("Identity"), self._identity()), (_("Timing"), self._timing())]

    def _identity(self) -> Facts:
        job = self.job
        known: Facts = [(_("ID"), job.id), (_("Queue"), job.queue), (_("Place"), told_place(job))]
        if self.is_hollow:
            return known
        facts = [
            (_("Task"), visible(job.name) or NOTHING),
            *known,
            (_("Next"), outlook(job, self.using)),
            (_("Last error"), self._last_error()),
            (_("Attempts"), gettext("%(made)s of %(most)s") % {"made": job.attempt, "most": most(job, self.using)}),
            (_("Worker"), told_worker(job, self.using)),
            (_("Lane"), visible(job.group)),
        ]
        always = [(_("Priority"), job.priority), (_("Fencing token"), job.attempts), (_("Lost leases"), job.stalled)]
        return [*((name, value) for name, value in facts if value), *always]

    def _last_error(self) -> str:
        text = visible(self.job.last_error)
        if not text or self.job.location is not Location.DEAD:
            return text
        return format_html('{} (<a href="{}">{}</a>)', text, self.alike, _("dead jobs with this error"))

    def _timing(self) -> Facts:
        job = self.job
        facts = [(_("Enqueued"), job.enqueued_at), (_("Last started"), job.started_at)]
        if job.location in (Location.ACTIVE, Location.SCHEDULE, Location.DEAD):
            facts.append((capfirst(TIME_WORDS[job.location]), job.time))
        if job.location is Location.DEAD and job.time:
            facts.append((_("Forgotten"), job.time + int(1000 * conf.alias(self.using).queue(job.queue).dead_ttl)))
        facts += [(_("First put off"), job.deferred_at), (_("Finished"), job.finished_at)]
        return [(name, told(ms)) for name, ms in facts if ms is not None]

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


def progress(text: str) -> str:
    """Tell a progress in words; another program's as it is."""
    try:
        found = json.loads(text)
        done, total, note = found["done"], found.get("total"), found.get("note") or ""
        share = f"{done:g} / {total:g} ({100 * done / total:.0f} %)" if total else f"{done:g}"
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return text
    return f"{share} {note}".strip()
