"""Look through a place, at any depth: by rank, within a span of its time, and what the dead have in common."""

from collections.abc import Sequence

from echomq_django import conf, connection, keys, looks
from echomq_django.job import Job, Location
from echomq_django.looks import ALWAYS, Census, Span

from .reading import check_page

LISTED_MAX = 5_000
"""The most ids that are listed at once."""

TALLY_SIZE = 1_000
"""How many numbers are asked for in one round trip."""

CENSUS_MAX = 1_000
"""The most dead jobs that a census looks at: it is one command, and others wait for it."""


def _timed(place: Location, span: Span | None) -> Span:
    """Give the span that a place has a time for: pending is scored by priority, and has none."""
    return ALWAYS if span is None or place is Location.PENDING else span


def count(queue: str, location: Location | str, span: Span | None = None, *, using: str = conf.DEFAULT_ALIAS) -> int:
    """Count the jobs of a place whose time is within the span; pending has no time, and is counted whole."""
    place = Location(location)
    return connection.client(using).run(looks.number(keys.of(queue), place, _timed(place, span)))


def tally(
    queues: Sequence[str], location: Location | str, spans: Sequence[Span], *, using: str = conf.DEFAULT_ALIAS
) -> list[int]:
    """Count the jobs of a place for each span, in all the queues together: 1,000 numbers in one round trip.

    Pending has no time, and is counted whole.
    """
    place, client = Location(location), connection.client(using)
    within = [_timed(place, span) for span in spans]
    found, step = [0] * len(spans), max(1, TALLY_SIZE // max(len(spans), 1))
    for first in range(0, len(queues) if spans else 0, step):
        few = [keys.of(queue) for queue in queues[first : first + step]]
        more = client.run(looks.tally(few, place, within))
        found = [sum(both) for both in zip(found, more, strict=True)]
    return found


def page(
    queue: str, location: Location | str, start: int = 0, size: int = 100, *, using: str = conf.DEFAULT_ALIAS
) -> list[Job]:
    """Read a page of a place: the dead newest first, the others in the order in which they come up."""
    return browse(queue, location, start, size, payloads=True, using=using)


def browse(
    queue: str,
    location: Location | str,
    start: int = 0,
    size: int = 100,
    *,
    span: Span | None = None,
    payloads: bool = False,
    using: str = conf.DEFAULT_ALIAS,
) -> list[Job]:
    """Read a page of those jobs of a place whose time is within the span, in the order of page.

    A page at any depth costs as much as the first. Without `payloads` jobs have no payload and no checkpoint. Pending
    has no time, and is read whole.
    """
    place = Location(location)
    client, queue_keys, within = connection.client(using), keys.of(queue), _timed(place, span)
    check_page(queue, start, size)
    first = start if within == ALWAYS else start + client.run(looks.offset(queue_keys, place, within))
    found = client.run(looks.page(queue_keys, place, first=first, size=size))
    # Behind the span others follow; and the place may have moved since its beginning was looked for.
    listed = [(job_id, score) for job_id, score in found if score in within]
    return client.run(looks.rows(queue_keys, place, listed, payloads=payloads)) if listed else []


def listed(
    queue: str, location: Location | str, size: int, *, span: Span | None = None, using: str = conf.DEFAULT_ALIAS
) -> list[tuple[str, float]]:
    """List the first ids within the span, with their scores, in the order of page: to merge the places of queues.

    A score is unix ms, and in pending the negated priority.
    """
    place, queue_keys = Location(location), keys.of(queue)
    if not 1 <= size <= LISTED_MAX:
        raise ValueError(f"a list of queue {queue!r} has 1 to {LISTED_MAX:,} jobs")
    return connection.client(using).run(looks.spanned(queue_keys, place, _timed(place, span), size=size))


def rows(
    queue: str,
    location: Location | str,
    listed: Sequence[tuple[str, float]],
    *,
    payloads: bool = False,
    using: str = conf.DEFAULT_ALIAS,
) -> list[Job]:
    """Read the jobs of a list, in its order; a job that has left the place meanwhile is shown as one that has not."""
    place, queue_keys = Location(location), keys.of(queue)
    if len(listed) > LISTED_MAX:
        raise ValueError(f"a list of queue {queue!r} has 1 to {LISTED_MAX:,} jobs")
    client = connection.client(using)
    return client.run(looks.rows(queue_keys, place, listed, payloads=payloads)) if listed else []


def edges(queue: str, location: Location | str, *, using: str = conf.DEFAULT_ALIAS) -> tuple[int, int] | None:
    """Give the first and the last time of a place, unix ms; None when it is empty, and in pending, which has none."""
    place, queue_keys = Location(location), keys.of(queue)
    if place is Location.PENDING:
        return None
    return connection.client(using).run(looks.edges(queue_keys, place))


def census(queue: str, size: int = CENSUS_MAX, *, using: str = conf.DEFAULT_ALIAS) -> Census:
    """Count the latest dead jobs by name, and by the head of their last error."""
    if not 1 <= size <= CENSUS_MAX:
        raise ValueError(f"a census of queue {queue!r} looks at 1 to {CENSUS_MAX:,} jobs")
    return connection.client(using).run(looks.census(keys.of(queue), size=size))
