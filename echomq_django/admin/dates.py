"""The years, months and days in which a place has jobs, for Django's date hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from django.utils import timezone

from echomq_django import jobs
from echomq_django.job import Location
from echomq_django.jobs import Span

from .showing import moment

YEARS = 31
"""How many years are looked at, up to the last: a score that was written by hand may be of any. A month has 31 days."""

_LONGER = {"year": timedelta(days=370), "month": timedelta(days=32), "day": timedelta(hours=36)}


def edges(queues: Sequence[str], place: Location, using: str) -> tuple[datetime | None, datetime | None]:
    """Give the first and the last time of a place of several queues; None where there is none."""
    found = [edge for queue in queues if (edge := jobs.edges(queue, place, using=using))]
    if not found:
        return None, None
    return moment(min(first for first, _ in found)), moment(max(last for _, last in found))


def periods(
    queues: Sequence[str],
    place: Location,
    span: Span,
    kind: str,
    within: tuple[datetime | None, datetime | None],
    using: str,
) -> list[datetime]:
    """Give the starts of those years, months or days that have jobs, of the edges of the place: at most 31."""
    first, last = within
    if first is None or last is None:
        return []
    first, last = max(first, moment(span.since_ms) or first), min(last, moment(span.until_ms) or last)
    at = start_of(first, kind)
    if kind == "year":
        at = at.replace(year=max(at.year, timezone.localtime(last).year - YEARS + 1))
    starts = [at]
    while at <= last and len(starts) <= YEARS:
        at = start_of(at + _LONGER[kind], kind)
        starts.append(at)
    spans = [Span(_ms(at), _ms(after) - 1) for at, after in pairwise(starts)]
    numbers = jobs.tally(queues, place, spans, using=using)
    return [at for at, number in zip(starts, numbers, strict=False) if number]


def start_of(at: datetime, kind: str) -> datetime:
    """Give the start of the year, the month or the day, in the current time zone."""
    local = timezone.localtime(at)
    return timezone.make_aware(
        datetime(local.year, 1 if kind == "year" else local.month, local.day if kind == "day" else 1)
    )


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
