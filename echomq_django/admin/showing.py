"""How things of the server are told to people: texts, times and places."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from echomq_django.job import Job, Location

NOTHING = "—"

LAST_MS = 253_339_228_800_000
"""The year 9998: of a later time the next year is no date."""

_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")

PLACE_WORDS = {
    Location.DEAD: _("dead"),
    Location.SCHEDULE: _("scheduled"),
    Location.ACTIVE: _("active"),
    Location.PENDING: _("pending"),
}
TIME_WORDS = {
    Location.DEAD: _("died"),
    Location.SCHEDULE: _("runs"),
    Location.ACTIVE: _("lease ends"),
    Location.PENDING: _("enqueued"),
}

HEADING_LIMIT = 80
"""Characters of a task's name or an error that a list shows."""


def visible(text: str) -> str:
    """Escape what cannot be seen or stored: NUL, half characters, and marks that turn the text around them."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode-escape").decode(), text)


def heading(text: str) -> str:
    """Show a text that names something in a list: visible, and cut, or one long name pushes all else out of sight."""
    return visible(text if len(text) <= HEADING_LIMIT else f"{text[: HEADING_LIMIT - 1]}…")


def moment(ms: int | None) -> datetime | None:
    """Give a time of the server as Django shows it; None when there is none, or it is beyond all dates."""
    # A score may have been written by hand.
    return datetime.fromtimestamp(ms / 1000, tz=UTC) if ms is not None and 0 <= ms < LAST_MS else None


def when(job: Job) -> int | None:
    """Give the time that matters in a job's place, unix ms: for a pending job, when it was enqueued."""
    if job.location is None:
        return job.finished_at
    return job.enqueued_at if job.location is Location.PENDING else job.time


def lasting(seconds: float) -> str:
    """Tell how long something lasts: Django's own words begin with minutes."""
    if seconds < 100:
        return ngettext("%d second", "%d seconds", round(seconds)) % round(seconds)
    now = timezone.now()
    # Ahead, since a time may be thousands of years ahead, and the calendar does not go back as far.
    return timesince(now, now + timedelta(seconds=seconds))


def relative(at: datetime) -> str:
    """Tell how long ago, or how far ahead, a time is."""
    now = timezone.now()
    span = lasting(abs((at - now).total_seconds()))
    return gettext("%s ago") % span if at <= now else gettext("in %s") % span


def absolute(at: datetime) -> str:
    """Tell a time with its zone."""
    local = timezone.localtime(at)
    return f"{date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"


def told(ms: int | None) -> str:
    """Tell a time: how long ago, and when."""
    at = moment(ms)
    return NOTHING if at is None else f"{relative(at)} ({absolute(at)})"


def told_shortly(ms: int | None) -> str | SafeString:
    """Tell how long ago a time is; when it was is said on hovering."""
    at = moment(ms)
    if at is None:
        return NOTHING
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), absolute(at), relative(at))


def told_place(job: Job) -> SafeString:
    """Name the place in words, not by a colour alone; a job in none tells its state."""
    if job.location is None:
        return format_html('<span class="emq-place">{}</span>', visible(job.state) or _("in no place"))
    return format_html('<span class="emq-place emq-{}">{}</span>', job.location.value, PLACE_WORDS[job.location])
