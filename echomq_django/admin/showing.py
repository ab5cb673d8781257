"""What the page of a job shows, as text that is safe in a page."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.module_loading import import_string
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import conf, envelope, jobs, payload
from echomq_django import models as shapes
from echomq_django.exceptions import PayloadError
from echomq_django.job import Job, Location

from .listing import moment

if TYPE_CHECKING:
    from .base import ServerAdmin

SHOWN_LIMIT = 200_000
"""Characters of arguments that a page shows; the rest is in the raw payload."""

PLACE_WORDS = {
    Location.PENDING: _("pending"),
    Location.ACTIVE: _("active"),
    Location.SCHEDULE: _("scheduled"),
    Location.DEAD: _("dead"),
}
TIME_WORDS = {
    Location.PENDING: _("enqueued"),
    Location.ACTIVE: _("lease ends"),
    Location.SCHEDULE: _("runs"),
    Location.DEAD: _("died"),
}


def told(ms: int | None) -> str:
    """Tell a time: how long ago, and when."""
    at = moment(ms)
    if at is None:
        return "—"
    now = timezone.now()
    words = gettext("%s ago") % timesince(at, now) if at <= now else gettext("in %s") % timeuntil(at, now)
    return f"{words} ({date_format(timezone.localtime(at), 'DATETIME_FORMAT')})"


class Shown:
    """Show a job to somebody."""

    def __init__(self, page: ServerAdmin, request: HttpRequest | None, shape: shapes.Job | None) -> None:
        self._page, self._request, self._shape = page, request, shape

    @property
    def _job(self) -> Job:
        assert self._shape is not None
        job: Job = self._shape.job
        return job

    def place(self) -> Any:
        """Show the place in words, not by a colour alone."""
        place = self._job.location
        name = place.value if place else self._job.state or "gone"
        words = PLACE_WORDS[place] if place else self._job.state or _("gone")
        return format_html('<span class="emq-place emq-{}">{}</span>', name, words)

    def time(self) -> str:
        """Show the time that matters in the job's place."""
        job = self._job
        if job.location is None:
            return told(job.finished_at)
        return f"{TIME_WORDS[job.location]} {told(job.enqueued_at if job.location is Location.PENDING else job.time)}"

    # The arguments.

    @cached_property
    def _redact(self) -> Any:
        name = conf.alias(self._page.using).redact
        return import_string(name) if name else None

    @cached_property
    def _envelope(self) -> envelope.Envelope | None:
        try:
            return envelope.decode(self._job.payload)
        except PayloadError:
            return None

    @property
    def editable(self) -> Any:
        """Give what can be edited: a task's arguments, or the whole of another JSON payload; None when it is none."""
        task = self._envelope
        if task is not None:
            return {"args": task.args, "kwargs": task.kwargs}
        try:
            return payload.decode(self._job.payload)
        except PayloadError:
            return None

    @property
    def is_editable(self) -> bool:
        """Say whether the arguments can be edited: what is redacted cannot, or stars would be enqueued."""
        return self._redact is None and self.editable is not None

    def revised(self, arguments: Any) -> bytes:
        """Give the payload with new arguments."""
        if self._envelope is None:
            return payload.to_json(arguments)
        if not isinstance(arguments, dict) or not {"args", "kwargs"} >= arguments.keys():
            raise PayloadError('the arguments of a task are {"args": [...], "kwargs": {...}}')
        body = {**payload.decode(self._job.payload), **arguments}
        envelope.decode(payload.to_json(body))
        return payload.to_json(body)

    def arguments(self) -> str:
        """Give the arguments as text: indented JSON, redacted; escaped bytes where they are none."""
        job, task = self._job, self._envelope
        if self._redact is not None:
            args, kwargs = (task.args, task.kwargs) if task is not None else ([self.editable], {})
            args, kwargs = self._redact(job.name, args, kwargs)
            value: Any = {"args": args, "kwargs": kwargs}
        elif self.editable is None:
            return job.payload.decode(errors="backslashreplace")
        else:
            value = self.editable
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)

    def raw(self) -> bytes:
        """Give the payload as a file."""
        return self._job.payload if self._redact is None else self.arguments().encode(errors="backslashreplace")

    # The page.

    @property
    def may_see_payload(self) -> bool:
        """Say whether this user may see arguments, results and what tasks wrote."""
        return self._request is not None and self._page.may(self._request, "view_job_payload")

    def sections(self) -> list[tuple[Any, list[tuple[Any, Any]]]]:
        """Give the plain facts: titles, and names with values."""
        job = self._job
        identity = [
            (_("ID"), job.id),
            (_("Task"), job.name or "—"),
            (_("Queue"), job.queue),
            (_("Place"), self.place()),
            (_("Priority"), job.priority),
            (_("Attempts"), gettext("%(made)s of %(most)s") % {"made": job.attempt, "most": self._most}),
            (_("Fencing token"), job.attempts),
            (_("Lost leases"), job.stalled),
            (_("Worker"), job.owner.rpartition(":")[0] or "—"),
        ]
        timing = [(_("Enqueued"), told(job.enqueued_at)), (_("Last started"), told(job.started_at))]
        if job.location in (Location.ACTIVE, Location.SCHEDULE, Location.DEAD):
            timing.append((TIME_WORDS[job.location].capitalize(), told(job.time)))
        if job.deferred_at:
            timing.append((_("First put off"), told(job.deferred_at)))
        if job.finished_at:
            timing.append((_("Finished"), told(job.finished_at)))
        return [(_("Identity"), identity), (_("Timing"), timing)]

    @property
    def _most(self) -> int:
        return self._job.max_attempts or conf.alias(self._page.using).queue(self._job.queue).max_attempts

    def cut_arguments(self) -> tuple[str, bool]:
        """Give the arguments as far as a page shows them, and whether that is not all."""
        text = self.arguments()
        return text[:SHOWN_LIMIT], len(text) > SHOWN_LIMIT

    @property
    def result(self) -> str | None:
        """Give the result that is kept, as text; None when there is none."""
        if self._job.result is None:
            return None
        text = self._job.result.decode(errors="backslashreplace")
        try:
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except ValueError:
            pass
        return text[:SHOWN_LIMIT]

    @property
    def progress(self) -> str:
        """Give what the task said last of its progress."""
        try:
            found = json.loads(self._job.progress)
            done, total, note = found["done"], found.get("total"), found.get("note", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            return self._job.progress
        share = f"{done:g} / {total:g} ({100 * done / total:.0f} %)" if total else f"{done:g}"
        return f"{share} {note}".strip()

    @property
    def logs(self) -> list[str]:
        """Give the lines that the task logged."""
        return jobs.logs(self._job.queue, self._job.id, using=self._page.using)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """Give the failed attempts, the latest first."""
        return [
            {
                "number": record.attempt,
                "error": record.error,
                "message": record.message,
                "traceback": record.traceback,
                "worker": record.worker,
                "started": told(record.started_at or None),
                "finished": told(record.finished_at or None),
            }
            for record in reversed(self._job.errors)
        ]
