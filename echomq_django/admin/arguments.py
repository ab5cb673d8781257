"""What a job carries, as text: redacted where the project says so, cut where it is long; and how it is edited.

Nothing is imported or called that a payload names, and no object is handed to a template: only text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.module_loading import import_string
from django.utils.translation import gettext

from echomq_django import conf, envelope, payload
from echomq_django.exceptions import PayloadError
from echomq_django.job import Job

SHOWN_LIMIT = 200_000
"""Characters that a page shows; the rest is in the raw payload."""

DEPTH = 100
"""How deep JSON may be nested that is indented: Python's own limit counts what has been called before."""

Redact = Callable[[str, list[Any], dict[str, Any]], tuple[Any, Any]]


def redaction(using: str) -> Redact | None:
    """Give the project's own redaction of arguments; None when it has none."""
    path = conf.alias(using).redact
    found: Redact | None = import_string(path) if path else None
    return found


@dataclass(frozen=True)
class Arguments:
    """Hold a job's payload, and what may be shown of it."""

    job: Job
    redact: Redact | None

    @cached_property
    def _task(self) -> envelope.Envelope | None:
        try:
            return envelope.decode(self.job.payload)
        except PayloadError:
            return None

    @cached_property
    def value(self) -> Any:
        """Give a task's arguments, or all of another JSON payload; None when it is no JSON."""
        if self._task is not None:
            return {"args": self._task.args, "kwargs": self._task.kwargs}
        try:
            return payload.decode(self.job.payload)
        except PayloadError:
            return None

    @property
    def is_editable(self) -> bool:
        """Say whether a form can hold them: what is redacted cannot be edited, or stars would be enqueued."""
        if self.redact is not None or len(self.job.payload) > SHOWN_LIMIT or self.value is None:
            return False
        try:
            payload.to_json(self.value)
        except PayloadError:
            return False  # half a character, or no number
        return indented(self.value) is not None

    def text(self) -> str:
        """Give all that may be shown: indented JSON; escaped bytes where they are none, or very many."""
        if self.redact is not None:
            return self._redacted(self.redact)
        small = len(self.job.payload) <= SHOWN_LIMIT and self.value is not None
        return (indented(self.value) if small else None) or self._plain()

    def _plain(self) -> str:
        return self.job.payload.decode(errors="backslashreplace")

    def _redacted(self, redact: Redact) -> str:
        task, value = self._task, self.value
        args, kwargs = (task.args, task.kwargs) if task else ([self._plain() if value is None else value], {})
        try:
            args, kwargs = redact(self.job.name, args, kwargs)
        except Exception as error:
            # Closed rather than open: what the redaction could not read may be just what it hides.
            return gettext("Hidden: REDACT raised %s.") % type(error).__name__
        return indented({"args": args, "kwargs": kwargs}) or gettext("Hidden: REDACT gave what is no JSON.")

    def searched(self) -> str:
        """Give the text in which a search looks."""
        return self._plain() if self.redact is None else self._redacted(self.redact)

    def raw(self) -> bytes:
        """Give all that may be downloaded: the payload as it was stored, unless a redaction stands before it."""
        return self.job.payload if self.redact is None else self.text().encode(errors="backslashreplace")

    def revised(self, value: Any) -> bytes:
        """Give the payload with other arguments; PayloadError says what is wrong with them."""
        if self._task is None:
            return payload.to_json(value)
        if not isinstance(value, dict) or not value.keys() <= {"args", "kwargs"}:
            raise PayloadError('the arguments of a task are {"args": [...], "kwargs": {...}}')
        # What else the producer said, such as a timeout, stays.
        body = payload.to_json({**payload.decode(self.job.payload), **value})
        envelope.decode(body)
        return body


def indented(value: Any) -> str | None:
    """Write JSON for people; None when a value is none, or nested too deeply."""
    if _is_deep(value, DEPTH):
        return None
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, TypeError, RecursionError):
        return None


def _is_deep(value: Any, left: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return left == 0 or any(_is_deep(each, left - 1) for each in inner)
