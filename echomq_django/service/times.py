"""Times as callers write them, in the server's milliseconds."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

Seconds = float | int | timedelta

LONGEST_DELAY = 100 * 365 * 86_400.0


def delay_ms(delay: Seconds, what: str = "delay") -> int:
    """Read a delay or a lease, in ms; TypeError or ValueError when it is none."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{what} is {delay!r}: use seconds or a timedelta")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise ValueError(f"{what} is {delay!r}: use seconds from 0 to {LONGEST_DELAY:.0f} (a hundred years)")
    return round(seconds * 1000)


def at_ms(at: datetime) -> int:
    """Read a point in time, in unix ms; naive ones only where Django takes them."""
    if not isinstance(at, datetime):
        raise TypeError(f"at is {at!r}: use a datetime")
    if timezone.is_naive(at):
        if settings.USE_TZ:
            raise ValueError(f"at is {at!r}, which has no time zone: use an aware datetime, as USE_TZ is on")
        at = timezone.make_aware(at)
    return round(at.timestamp() * 1000)
