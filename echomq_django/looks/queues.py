"""Look at queues and workers: what there are, their numbers and their times."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echomq_django import keys as names
from echomq_django import scripts
from echomq_django.call import Call, items, mapping, pairs, shown, unix_ms
from echomq_django.job import clock_ms, head
from echomq_django.keys import QueueKeys

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

    lapsed: int
    due: int


@dataclass(frozen=True, slots=True)
class Census:
    """Hold what the latest dead jobs are: how many of each name, and of each head of a last error, most first."""

    size: int
    """How many jobs were looked at."""
    tasks: Counter[str]
    errors: Counter[str]


@dataclass(frozen=True, slots=True)
class Minute:
    """Hold what happened in one minute: jobs that were completed, and attempts that failed, lost leases too."""

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


def registered() -> Call[list[str]]:
    """List the queues that were ever used. What is no queue's name can be none: it was written by hand."""
    return Call(
        "list the queues",
        (("SMEMBERS", names.QUEUES),),
        lambda replies: sorted(filter(names.is_queue, map(shown, replies[0]))),
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


def heads(keys: QueueKeys) -> Call[tuple[int, list[str]]]:
    """Give the server's time, ms, and the first pending jobs of each priority; there are at most 201 of these."""
    commands = tuple(("ZRANGE", keys.pending, score, score, "BYSCORE", "LIMIT", 0, 5) for score in range(-100, 101))
    return Call(
        f"look at the heads of queue {keys.queue!r}",
        (("TIME",), *commands),
        lambda replies: (unix_ms(replies[0]), [shown(job_id) for reply in replies[1:] for job_id in reply]),
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


def lapsed(keys: QueueKeys) -> Call[Lapsed]:
    """Count the leases that have run out and the scheduled jobs that are due: a script, for the server's clock."""
    return Call(
        f"look at the leases of queue {keys.queue!r}",
        (scripts.lapsed.command(active=keys.active, schedule=keys.schedule),),
        lambda replies: Lapsed(*replies[0]),
        True,
    )


def minutes(keys: QueueKeys, *, now_ms: int, number: int) -> Call[list[Minute]]:
    """Read the counts of the latest minutes, the oldest first."""
    latest = now_ms // MINUTE_MS
    listed = range(latest - number + 1, latest + 1)

    def parse(replies: Sequence[Any]) -> list[Minute]:
        return [
            Minute(minute * MINUTE_MS, *(_number(value) for value in items(reply) or (None, None)))
            for minute, reply in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HMGET", keys.minute(minute), "completed", "failed") for minute in listed)
    return Call(f"read the minutes of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


def _number(value: bytes | None) -> int:
    return int(value) if value and value.isdigit() else 0


def clock() -> Call[int]:
    """Give the server's time, ms."""
    return Call("ask for the time", (("TIME",),), lambda replies: unix_ms(replies[0]), True)


def workers() -> Call[list[tuple[str, int, int]]]:
    """List the workers: id, last heartbeat and the server's time, both ms."""

    def parse(replies: Sequence[Any]) -> list[tuple[str, int, int]]:
        now, listed = unix_ms(replies[0]), replies[1]
        return [(shown(worker), clock_ms(float(beat)) or 0, now) for worker, beat in pairs(listed)]

    return Call("list the workers", (("TIME",), ("ZRANGE", names.WORKERS, 0, -1, "WITHSCORES")), parse, True)


def about(listed: Sequence[tuple[str, int, int]]) -> Call[list[WorkerInfo]]:
    """Read what the listed workers say of themselves."""

    def parse(replies: Sequence[Any]) -> list[WorkerInfo]:
        return [
            WorkerInfo(worker, max(now - beat, 0), {shown(key): shown(value) for key, value in mapping(facts).items()})
            for (worker, beat, now), facts in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HGETALL", names.worker(worker)) for worker, _, _ in listed)
    return Call("read the workers", commands, parse, resend=True, bears_wrong_types=True)
