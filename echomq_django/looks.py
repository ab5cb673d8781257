"""Every look that moves nothing, as a Call that some client will run. Knows keys, no server."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import keys as names
from . import scripts
from .call import Call, first_reply, pairs, unix_ms
from .job import LARGE_FIELDS, ROW_FIELDS, Job, Location, clock_ms, head
from .keys import QueueKeys

MINUTE_MS = 60_000

ANNOUNCE_EVERY_MS = 5_000
"""How often a worker says that it lives."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold how many jobs are in each place, and how many have ever been completed and died."""

    pending: int
    active: int
    schedule: int
    dead: int
    quarantine: int
    completed: int
    failed: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Lapsed:
    """Hold how many leases have run out, and how many scheduled jobs are due."""

    expired: int
    due: int


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


@dataclass(frozen=True, slots=True)
class Census:
    """Hold what the latest dead jobs are: how many of each name, and of each head of a last error, most first."""

    size: int
    """How many jobs were looked at."""
    tasks: Counter[str]
    errors: Counter[str]


@dataclass(frozen=True, slots=True)
class Minute:
    """Hold what happened in one minute: jobs that were completed, and attempts that failed."""

    minute: int
    """When it began, unix ms."""
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Hold what a worker says of itself, and its silence: ms since its last heartbeat."""

    id: str
    silent_ms: int
    facts: dict[str, str]

    @property
    def alive(self) -> bool:
        """Say whether it was heard within three of its beats."""
        return self.silent_ms < 3 * ANNOUNCE_EVERY_MS


def workers() -> Call[list[tuple[str, int, int]]]:
    """List the workers: id, last heartbeat and the server's time, both ms."""

    def parse(replies: Sequence[Any]) -> list[tuple[str, int, int]]:
        now, listed = unix_ms(replies[0]), replies[1]
        return [(_shown(worker), clock_ms(float(beat)) or 0, now) for worker, beat in pairs(listed)]

    return Call("list the workers", (("TIME",), ("ZRANGE", names.WORKERS, 0, -1, "WITHSCORES")), parse, True)


def about(listed: Sequence[tuple[str, int, int]]) -> Call[list[WorkerInfo]]:
    """Read what the listed workers say of themselves."""

    def parse(replies: Sequence[Any]) -> list[WorkerInfo]:
        return [
            WorkerInfo(worker, max(now - beat, 0), {_shown(key): _shown(value) for key, value in _row(facts).items()})
            for (worker, beat, now), facts in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HGETALL", names.worker(worker)) for worker, _, _ in listed)
    return Call("read the workers", commands, parse, resend=True, bears_wrong_types=True)


def registered() -> Call[list[str]]:
    """List the queues that were ever used. What is no queue's name can be none: it was written by hand."""
    return Call(
        "list the queues",
        (("SMEMBERS", names.QUEUES),),
        lambda replies: sorted(filter(names.is_queue, map(_shown, replies[0]))),
        True,
    )


def counts(keys: QueueKeys) -> Call[Counts]:
    """Count the jobs of a queue by place."""

    def parse(replies: Sequence[Any]) -> Counts:
        pending, active, schedule, dead, quarantine, completed, failed, paused = replies
        return Counts(pending, active, schedule, dead, quarantine, int(completed or 0), int(failed or 0), bool(paused))

    places = (keys.pending, keys.active, keys.schedule, keys.dead, keys.quarantine)
    return Call(
        f"count queue {keys.queue!r}",
        (
            *(("ZCARD", place) for place in places),
            ("HGET", keys.completed, "count"),
            ("HGET", keys.failed, "count"),
            ("HEXISTS", keys.meta, "paused"),
        ),
        parse,
        True,
    )


def _place(keys: QueueKeys, location: Location) -> str:
    place: str = getattr(keys, location.value)
    return place


def get(keys: QueueKeys, job_id: str) -> Call[Job | None]:
    """Read one job whole, with its place and its error records, or what is kept of it; None when nothing is."""

    def parse(replies: Sequence[Any]) -> Job | None:
        reply, errors, *scores, result, result_errors = replies
        if _missing(reply):
            return None if _missing(result) else _result(keys, job_id, result, result_errors)
        row = _row(reply)
        location, score = _where(scores)
        if location is None and row.get(b"group") and row.get(b"state") == b"pending":
            location = Location.PENDING  # it waits in its lane
        return Job.load(keys.queue, job_id, row, location, score, _items(errors))

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


def logs(keys: QueueKeys, job_id: str) -> Call[list[str]]:
    """Read a job's log lines, also those that are kept of a completed one."""

    def parse(replies: Sequence[Any]) -> list[str]:
        return [line.decode(errors="backslashreplace") for line in _items(replies[0]) or _items(replies[1])]

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
        lambda replies: [_shown(job_id) for job_id in replies[0]],
        True,
    )


def results(keys: QueueKeys, listed: Sequence[str]) -> Call[list[Job]]:
    """Read what is kept of completed jobs. One of which nothing is reads as a completed job without fields."""

    def parse(replies: Sequence[Any]) -> list[Job]:
        return [_result(keys, job_id, reply) for job_id, reply in zip(listed, replies, strict=True)]

    commands = tuple(("HGETALL", keys.result(job_id)) for job_id in listed)
    return Call(f"read results of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


def _result(keys: QueueKeys, job_id: str, reply: Any, errors: Any = ()) -> Job:
    row = {**_row(reply), b"state": b"completed"}
    return Job.load(keys.queue, job_id, row, None, None, _items(errors))


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


def _scored(replies: Sequence[Any]) -> list[tuple[str, float]]:
    return [(_shown(job_id), float(score)) for job_id, score in pairs(replies[0])]


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


def census(keys: QueueKeys, *, size: int) -> Call[Census]:
    """Count the latest dead by name and by the head of their last error."""

    def parse(replies: Sequence[Any]) -> Census:
        told = [text.decode(errors="backslashreplace") for text in replies[0]]
        names, errors = Counter(told[::2]), Counter(map(head, told[1::2]))
        return Census(len(told) // 2, Counter(dict(names.most_common())), Counter(dict(errors.most_common())))

    return Call(
        f"census of queue {keys.queue!r}",
        (scripts.census.command(dead=keys.dead, job_root=keys.job_root, size=size),),
        parse,
        True,
    )


def before(keys: QueueKeys, location: Location, *, cutoff_ms: int | None, size: int) -> Call[list[str]]:
    """List the ids of a place whose score is not above the cut-off, the lowest first."""
    bound = "+inf" if cutoff_ms is None else cutoff_ms
    return Call(
        f"list {location} of queue {keys.queue!r}",
        (("ZRANGE", _place(keys, location), "-inf", bound, "BYSCORE", "LIMIT", 0, size),),
        lambda replies: [_shown(job_id) for job_id in replies[0]],
        True,
    )


def heads(keys: QueueKeys) -> Call[tuple[int, list[str]]]:
    """Give the server's time, ms, and the first pending jobs of each priority; there are at most 201 of these."""
    commands = tuple(("ZRANGE", keys.pending, score, score, "BYSCORE", "LIMIT", 0, 5) for score in range(-100, 101))
    return Call(
        f"look at the heads of queue {keys.queue!r}",
        (("TIME",), *commands),
        lambda replies: (unix_ms(replies[0]), [_shown(job_id) for reply in replies[1:] for job_id in reply]),
        True,
    )


def peek(keys: QueueKeys) -> Call[tuple[int, int | None]]:
    """Give the server's time and the time of the next scheduled job, both ms."""

    def parse(replies: Sequence[Any]) -> tuple[int, int | None]:
        time, first = replies
        return unix_ms(time), clock_ms(float(first[1])) if first else None

    return Call(
        f"look at the schedule of queue {keys.queue!r}",
        (("TIME",), ("ZRANGE", keys.schedule, 0, 0, "WITHSCORES")),
        parse,
        True,
    )


def clock() -> Call[int]:
    """Give the server's time, ms."""
    return Call("ask for the time", (("TIME",),), lambda replies: unix_ms(replies[0]), True)


def minutes(keys: QueueKeys, *, now_ms: int, number: int) -> Call[list[Minute]]:
    """Read the counts of the latest minutes, the oldest first."""
    latest = now_ms // MINUTE_MS
    listed = range(latest - number + 1, latest + 1)

    def parse(replies: Sequence[Any]) -> list[Minute]:
        return [
            Minute(minute * MINUTE_MS, *(_number(value) for value in _items(reply) or (None, None)))
            for minute, reply in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HMGET", keys.minute(minute), "completed", "failed") for minute in listed)
    return Call(f"read the minutes of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


def lapsed(keys: QueueKeys) -> Call[Lapsed]:
    """Count the leases that have run out and the scheduled jobs that are due: a script, for the server's clock."""
    return Call(
        f"look at the leases of queue {keys.queue!r}",
        (scripts.lapsed.command(active=keys.active, schedule=keys.schedule),),
        lambda replies: Lapsed(*replies[0]),
        True,
    )


def _shown(name: bytes) -> str:
    # Anything can be put into a place by hand, and must not keep the others from being seen.
    return name.decode(errors="backslashreplace")


def _number(value: bytes | None) -> int:
    return int(value) if value and value.isdigit() else 0


def _missing(reply: Any) -> bool:
    return not isinstance(reply, Exception) and not reply


def _items(reply: Any) -> Sequence[bytes]:
    """Read a list; one of a wrong type has no items."""
    return [] if isinstance(reply, Exception) else reply


def _fields(names: Sequence[str], reply: Any) -> dict[bytes, bytes]:
    """Read named fields of a row; those that are missing are left out."""
    values = [None] * len(names) if isinstance(reply, Exception) else reply
    return {name.encode(): value for name, value in zip(names, values, strict=True) if value is not None}


def _row(reply: Any) -> dict[bytes, bytes]:
    """Read a row; one of a wrong type has no fields."""
    return {} if isinstance(reply, Exception) else dict(pairs(reply))
