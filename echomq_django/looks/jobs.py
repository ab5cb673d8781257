"""Look at jobs: one of them, a page of a place, what is kept of those that are completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echomq_django.call import Call, first_reply, items, mapping, pairs, shown
from echomq_django.job import LARGE_FIELDS, ROW_FIELDS, Job, Location, clock_ms
from echomq_django.keys import QueueKeys


@dataclass(frozen=True, slots=True)
class Span:
    """Bound the time of jobs, unix ms: both bounds belong to the span, and None is no bound."""

    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def low(self) -> str:
        """Give the lower bound as the server takes it."""
        return "-inf" if self.since_ms is None else str(self.since_ms)

    @property
    def high(self) -> str:
        """Give the upper bound as the server takes it."""
        return "+inf" if self.until_ms is None else str(self.until_ms)

    def __contains__(self, score: float) -> bool:
        return float(self.low) <= score <= float(self.high)


ALWAYS = Span()


def _place(keys: QueueKeys, location: Location) -> str:
    place: str = getattr(keys, location.value)
    return place


def get(keys: QueueKeys, job_id: str) -> Call[Job | None]:
    """Read one job whole, with its place and its error records, or what is kept of it; None when nothing is."""

    def parse(replies: Sequence[Any]) -> Job | None:
        reply, errors, *scores, result, result_errors = replies
        if _missing(reply):
            return None if _missing(result) else _result(keys, job_id, result, result_errors)
        row = mapping(reply)
        location, score = _where(scores)
        if location is None and row.get(b"group") and row.get(b"state") == b"pending":
            location = Location.PENDING  # it waits in its lane
        return Job.load(keys.queue, job_id, row, location, score, items(errors))

    return Call(
        f"get job {job_id} of queue {keys.queue!r}",
        (
            ("HGETALL", keys.row(job_id)),
            ("LRANGE", keys.errors(job_id), 0, -1),
            *(("ZSCORE", _place(keys, location), job_id) for location in Location),
            # Behind the row: a job that is completed in between would be met in neither otherwise.
            ("HGETALL", keys.result(job_id)),
            ("LRANGE", keys.result_errors(job_id), 0, -1),
        ),
        parse,
        resend=True,
        bears_wrong_types=True,
    )


def stray(keys: QueueKeys, job_id: str) -> Call[Job | None]:
    """Read an id that lies in a place as a job without fields, whatever its row is; None when it lies in none."""

    def parse(replies: Sequence[Any]) -> Job | None:
        errors, *scores = replies
        location, score = _where(scores)
        return None if location is None else Job.load(keys.queue, job_id, {}, location, score, items(errors))

    return Call(
        f"look where {job_id} of queue {keys.queue!r} lies",
        (
            ("LRANGE", keys.errors(job_id), 0, -1),
            *(("ZSCORE", _place(keys, location), job_id) for location in Location),
        ),
        parse,
        resend=True,
        bears_wrong_types=True,
    )


def logs(keys: QueueKeys, job_id: str) -> Call[list[str]]:
    """Read a job's log lines, also those that are kept of a completed one."""

    def parse(replies: Sequence[Any]) -> list[str]:
        return [line.decode(errors="backslashreplace") for line in items(replies[0]) or items(replies[1])]

    return Call(
        f"read the log of job {job_id} of queue {keys.queue!r}",
        (("LRANGE", keys.logs(job_id), 0, -1), ("LRANGE", keys.result_logs(job_id), 0, -1)),
        parse,
        resend=True,
        bears_wrong_types=True,
    )


def recent(keys: QueueKeys, *, first: int, size: int) -> Call[list[str]]:
    """List the ids of completed jobs by rank, the latest first."""
    return Call(
        f"page of the completed of queue {keys.queue!r}",
        (("LRANGE", keys.recent, first, first + size - 1),),
        lambda replies: [shown(job_id) for job_id in replies[0]],
        True,
    )


def results(keys: QueueKeys, listed: Sequence[str]) -> Call[list[Job]]:
    """Read what is kept of completed jobs. One of which nothing is reads as a completed job without fields."""

    def parse(replies: Sequence[Any]) -> list[Job]:
        return [_result(keys, job_id, reply) for job_id, reply in zip(listed, replies, strict=True)]

    commands = tuple(("HGETALL", keys.result(job_id)) for job_id in listed)
    return Call(f"read results of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


def _result(keys: QueueKeys, job_id: str, reply: Any, errors: Any = ()) -> Job:
    row = {**mapping(reply), b"state": b"completed"}
    return Job.load(keys.queue, job_id, row, None, None, items(errors))


def _where(scores: Sequence[bytes | None]) -> tuple[Location | None, float | None]:
    for location, score in zip(Location, scores, strict=True):
        if score is not None:
            return location, float(score)
    return None, None


def _newest_first(location: Location) -> bool:
    """Say how a place is read: of the dead the latest first, of the others what comes up next."""
    return location is Location.DEAD


def page(keys: QueueKeys, location: Location, *, first: int, size: int) -> Call[list[tuple[str, float]]]:
    """List the ids of a place by rank, with their scores."""
    order = ("REV",) if _newest_first(location) else ()
    return Call(
        f"page of {location} of queue {keys.queue!r}",
        (("ZRANGE", _place(keys, location), first, first + size - 1, *order, "WITHSCORES"),),
        _scored,
        True,
    )


def spanned(keys: QueueKeys, location: Location, span: Span, *, size: int) -> Call[list[tuple[str, float]]]:
    """List the first ids of a span, with their scores."""
    bounds = (span.high, span.low) if _newest_first(location) else (span.low, span.high)
    order = ("REV",) if _newest_first(location) else ()
    return Call(
        f"list {location} of queue {keys.queue!r}",
        (("ZRANGE", _place(keys, location), *bounds, "BYSCORE", *order, "LIMIT", 0, size, "WITHSCORES"),),
        _scored,
        True,
    )


def before(keys: QueueKeys, location: Location, *, cutoff_ms: int | None, size: int) -> Call[list[str]]:
    """List the ids of a place whose score is not above the cut-off, the lowest first."""
    bound = "+inf" if cutoff_ms is None else cutoff_ms
    return Call(
        f"list {location} of queue {keys.queue!r}",
        (("ZRANGE", _place(keys, location), "-inf", bound, "BYSCORE", "LIMIT", 0, size),),
        lambda replies: [shown(job_id) for job_id in replies[0]],
        True,
    )


def _scored(replies: Sequence[Any]) -> list[tuple[str, float]]:
    return [(shown(job_id), float(score)) for job_id, score in pairs(replies[0])]


def number(keys: QueueKeys, location: Location, span: Span) -> Call[int]:
    """Count the jobs of a span."""
    return Call(
        f"count {location} of queue {keys.queue!r}",
        (("ZCOUNT", _place(keys, location), span.low, span.high),),
        first_reply,
        True,
    )


def tally(queues: Sequence[QueueKeys], location: Location, spans: Sequence[Span]) -> Call[list[int]]:
    """Count the jobs of each span, in all the queues together."""

    def parse(replies: Sequence[Any]) -> list[int]:
        return [sum(replies[at :: len(spans)]) for at in range(len(spans))]

    return Call(
        f"count {location} of {len(queues)} queues",
        tuple(("ZCOUNT", _place(keys, location), span.low, span.high) for keys in queues for span in spans),
        parse,
        True,
    )


def offset(keys: QueueKeys, location: Location, span: Span) -> Call[int]:
    """Count the jobs that are listed before those of a span: the rank at which it begins."""
    outside = (f"({span.high}", "+inf") if _newest_first(location) else ("-inf", f"({span.low}")
    return Call(
        f"count {location} of queue {keys.queue!r}",
        (("ZCOUNT", _place(keys, location), *outside),),
        first_reply,
        True,
    )


def edges(keys: QueueKeys, location: Location) -> Call[tuple[int, int] | None]:
    """Give the lowest and the highest time of a place, unix ms; None when it is empty, or one is beyond all time."""

    def parse(replies: Sequence[Any]) -> tuple[int, int] | None:
        times = [clock_ms(float(reply[1])) for reply in replies if reply]
        first, last = times if times else (None, None)
        return None if first is None or last is None else (first, last)

    place = _place(keys, location)
    return Call(
        f"look at the edges of {location} of queue {keys.queue!r}",
        (("ZRANGE", place, 0, 0, "WITHSCORES"), ("ZRANGE", place, -1, -1, "WITHSCORES")),
        parse,
        True,
    )


def rows(
    keys: QueueKeys, location: Location, listed: Sequence[tuple[str, float]], *, payloads: bool = True
) -> Call[list[Job]]:
    """Read the rows of listed ids. A row that is missing reads as a job without fields."""
    names = [name for name in ROW_FIELDS if payloads or name not in LARGE_FIELDS]

    def parse(replies: Sequence[Any]) -> list[Job]:
        return [
            Job.load(keys.queue, job_id, _fields(names, reply), location, score)
            for (job_id, score), reply in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HMGET", keys.row(job_id), *names) for job_id, _ in listed)
    return Call(f"read rows of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


def _missing(reply: Any) -> bool:
    return not isinstance(reply, Exception) and not reply


def _fields(names: Sequence[str], reply: Any) -> dict[bytes, bytes]:
    """Read named fields of a row; those that are missing are left out."""
    values = [None] * len(names) if isinstance(reply, Exception) else reply
    return {name.encode(): value for name, value in zip(names, values, strict=True) if value is not None}
