"""Every move and every look, as a Call that some client will run. Knows keys and words, no server.

One function per script: it names the script's keys and turns the words of its reply into values.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import keys as names
from . import scripts
from .job import Claim, Job, Location, clock_ms
from .keys import QueueKeys

T = TypeVar("T")

Command = tuple[Any, ...]

MAX_BATCH = 500
"""The most jobs that one call of a script takes: more would keep the server from others for too long."""

PROMOTIONS = 100
"""The most due jobs that a claim promotes."""

ERRORS_KEPT = 25
"""How many error records a job keeps."""

ANNOUNCE_EVERY_MS = 5_000
"""How often a worker says that it lives."""

RECEIPT_TTL_MS = 10_000
"""How long an enqueue may be sent again and be recognised; much longer than any client goes on trying."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Hold commands to send together, and how to read their replies.

    `resend` says that the call does no harm when it is carried out twice, so that a client whose reply was lost
    may send it again.
    """

    what: str
    commands: tuple[Command, ...]
    parse: Callable[[Sequence[Any]], T]
    resend: bool = False
    bears_wrong_types: bool = False
    """Whether `parse` takes a WRONGTYPE error for a reply: a page is not lost for one broken row."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Hold what a claim brought: the claims, and what it saw of the queue meanwhile."""

    claims: list[Claim]
    paused: bool
    left: int
    """How many jobs were left in pending."""
    due_in_ms: int | None
    """How long until the next scheduled job is due; None when there is none."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """Hold what a reap did. `waiting` says that it left live workers time to extend after an outage."""

    waiting: bool
    pending: int
    schedule: int
    dead: int
    quarantined: int

    @property
    def moved(self) -> int:
        """Give the number of jobs that were taken out of active."""
        return self.pending + self.schedule + self.dead + self.quarantined


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
class WorkerInfo:
    """Hold what a worker says of itself, and its silence: ms since its last heartbeat."""

    id: str
    silent_ms: int
    facts: dict[str, str]

    @property
    def alive(self) -> bool:
        """Say whether it was heard within three of its beats."""
        return self.silent_ms < 3 * ANNOUNCE_EVERY_MS


def _first(replies: Sequence[Any]) -> Any:
    return replies[0]


def _words(replies: Sequence[Any]) -> list[str]:
    return [word.decode() for word in replies[0]]


def _word(replies: Sequence[Any]) -> str:
    word: bytes = replies[0]
    return word.decode()


def _lanes(keys: QueueKeys) -> dict[str, str]:
    return {
        "wake": keys.wake,
        "job_root": keys.job_root,
        "lane_root": keys.lane_root,
        "ring": keys.ring,
        "paused": keys.paused,
        "glimit": keys.glimit,
        "gactive": keys.gactive,
    }


def _flat(claims: Iterable[Claim]) -> list[Any]:
    return [value for claim in claims for value in claim.proof]


def enqueue(
    keys: QueueKeys,
    jobs: Sequence[str | bytes],
    *,
    receipt: str,
    delay_ms: int | None = None,
    at_ms: int | None = None,
    priority: int = 0,
    name: str = "",
    max_attempts: int | None = None,
) -> Call[list[str]]:
    """Admit jobs, given as id, payload, id, payload…; a word for each: enqueued, scheduled, duplicate."""
    return Call(
        f"enqueue to queue {keys.queue!r}",
        (
            scripts.enqueue.command(
                pending=keys.pending,
                schedule=keys.schedule,
                wake=keys.wake,
                receipt=keys.receipt_root + receipt,
                job_root=keys.job_root,
                delay="" if delay_ms is None else delay_ms,
                at="" if at_ms is None else at_ms,
                priority=priority,
                name=name,
                max_attempts="" if max_attempts is None else max_attempts,
                receipt_ttl=RECEIPT_TTL_MS,
                jobs=jobs,
            ),
        ),
        _words,
        resend=True,
    )


def _claim(queue: str, owner: str, told: Sequence[Any]) -> Claim:
    job_id, token, payload, spared, stalled, max_attempts, name, group, deferred_ms = told
    return Claim(
        queue=queue,
        id=job_id.decode(),
        token=int(token),
        owner=owner,
        payload=payload,
        spared=spared,
        stalled=stalled,
        max_attempts=max_attempts or None,
        name=name.decode(errors="backslashreplace"),
        group=group.decode(errors="backslashreplace"),
        deferred_ms=None if deferred_ms < 0 else deferred_ms,
    )


def claim(keys: QueueKeys, *, limit: int, lease_ms: int, owner: str) -> Call[Claimed]:
    """Take up to `limit` jobs. Never sent again: it would take others; see recover."""

    def parse(replies: Sequence[Any]) -> Claimed:
        word, due_in_ms, left, *jobs = replies[0]
        return Claimed(
            claims=[_claim(keys.queue, owner, told) for told in jobs],
            paused=word == b"paused",
            left=left,
            due_in_ms=None if due_in_ms < 0 else due_in_ms,
        )

    return Call(
        f"claim from queue {keys.queue!r}",
        (
            scripts.claim.command(
                pending=keys.pending,
                active=keys.active,
                schedule=keys.schedule,
                quarantine=keys.quarantine,
                meta=keys.meta,
                limit=limit,
                lease=lease_ms,
                owner=owner,
                promotions=PROMOTIONS,
                **_lanes(keys),
            ),
        ),
        parse,
    )


def recover(keys: QueueKeys, *, owner: str, first: int = 0) -> Call[tuple[int, list[Claim]]]:
    """Find the jobs of a claim whose reply was lost, on one page of active; also how many ids it had."""

    def parse(replies: Sequence[Any]) -> tuple[int, list[Claim]]:
        size, *jobs = replies[0]
        return size, [_claim(keys.queue, owner, told) for told in jobs]

    return Call(
        f"recover a claim of queue {keys.queue!r}",
        (
            scripts.recover.command(
                active=keys.active, job_root=keys.job_root, owner=owner, first=first, size=MAX_BATCH
            ),
        ),
        parse,
        resend=True,
    )


def complete(keys: QueueKeys, claims: Sequence[Claim]) -> Call[list[str]]:
    """Retire finished jobs; a word for each: ok, lost, gone."""
    return Call(
        f"complete in queue {keys.queue!r}",
        (
            scripts.complete.command(
                active=keys.active,
                pending=keys.pending,
                schedule=keys.schedule,
                dead=keys.dead,
                completed=keys.completed,
                claims=_flat(claims),
                outbox=keys.outbox,
                **_lanes(keys),
            ),
        ),
        _words,
        resend=True,
    )


def retry(keys: QueueKeys, claim: Claim, *, delay_ms: int, maximum: int, reason: str, entry: str) -> Call[str]:
    """Settle a failed attempt; a word: scheduled, dead, lost, gone. A maximum of 0 buries at once."""
    job_id, token, owner = claim.proof
    return Call(
        f"retry of job {job_id} in queue {keys.queue!r}",
        (
            scripts.retry.command(
                active=keys.active,
                pending=keys.pending,
                schedule=keys.schedule,
                dead=keys.dead,
                failed=keys.failed,
                errors=keys.errors(job_id),
                id=job_id,
                token=token,
                owner=owner,
                delay=delay_ms,
                maximum=maximum,
                reason=reason,
                entry=entry,
                keep=ERRORS_KEPT,
                outbox=keys.outbox,
                **_lanes(keys),
            ),
        ),
        _word,
        resend=True,
    )


def extend(keys: QueueKeys, claims: Sequence[Claim], *, lease_ms: int) -> Call[list[str]]:
    """Push the leases of held jobs out; a word for each: ok, lost."""
    return Call(
        f"extend in queue {keys.queue!r}",
        (scripts.extend.command(active=keys.active, job_root=keys.job_root, lease=lease_ms, claims=_flat(claims)),),
        _words,
        resend=True,
    )


def release(keys: QueueKeys, claims: Sequence[Claim]) -> Call[list[str]]:
    """Give unfinished jobs back at no cost; a word for each: ok, lost."""
    return Call(
        f"release in queue {keys.queue!r}",
        (scripts.release.command(active=keys.active, pending=keys.pending, claims=_flat(claims), **_lanes(keys)),),
        _words,
        resend=True,
    )


def defer(keys: QueueKeys, claim: Claim, *, delay_ms: int) -> Call[str]:
    """Put off a job that this worker does not know, at no cost; a word: ok, lost."""
    job_id, token, owner = claim.proof
    return Call(
        f"defer of job {job_id} in queue {keys.queue!r}",
        (
            scripts.defer.command(
                active=keys.active,
                schedule=keys.schedule,
                pending=keys.pending,
                id=job_id,
                token=token,
                owner=owner,
                delay=delay_ms,
                **_lanes(keys),
            ),
        ),
        _word,
        resend=True,
    )


def promote(keys: QueueKeys, *, limit: int = PROMOTIONS) -> Call[tuple[int, int]]:
    """Line up due jobs; how many were promoted, and how many put aside."""

    def parse(replies: Sequence[Any]) -> tuple[int, int]:
        promoted, quarantined = replies[0]
        return promoted, quarantined

    return Call(
        f"promote in queue {keys.queue!r}",
        (
            scripts.promote.command(
                schedule=keys.schedule,
                pending=keys.pending,
                quarantine=keys.quarantine,
                limit=limit,
                **_lanes(keys),
            ),
        ),
        parse,
        resend=True,
    )


def reap(
    keys: QueueKeys,
    *,
    limit: int,
    lease_ms: int,
    backoff_ms: Sequence[int],
    spread: float,
    latest_ms: int | None = None,
) -> Call[Reaped]:
    """Take back jobs whose lease ran out. A job dies with one loss more than there are (longest) delays."""

    def parse(replies: Sequence[Any]) -> Reaped:
        word, pending, schedule, dead, quarantined = replies[0]
        return Reaped(word == b"waiting", pending, schedule, dead, quarantined)

    return Call(
        f"reap in queue {keys.queue!r}",
        (
            scripts.reap.command(
                active=keys.active,
                pending=keys.pending,
                schedule=keys.schedule,
                dead=keys.dead,
                quarantine=keys.quarantine,
                meta=keys.meta,
                failed=keys.failed,
                limit=limit,
                lease=lease_ms,
                keep=ERRORS_KEPT,
                spread=spread,
                latest="" if latest_ms is None else latest_ms,
                backoff=backoff_ms,
                outbox=keys.outbox,
                **_lanes(keys),
            ),
        ),
        parse,
        resend=True,
    )


def expire(keys: QueueKeys, *, ttl_ms: int, maximum: int, limit: int = PROMOTIONS) -> Call[int]:
    """Forget the oldest dead; how many."""
    return Call(
        f"expire in queue {keys.queue!r}",
        (scripts.expire.command(dead=keys.dead, job_root=keys.job_root, ttl=ttl_ms, maximum=maximum, limit=limit),),
        _first,
        resend=True,
    )


def requeue(keys: QueueKeys, job_ids: Sequence[str], *, before_ms: int | None = None) -> Call[list[str]]:
    """Give dead jobs a new life; a word for each: ok, elsewhere, gone, unsound."""
    return Call(
        f"requeue in queue {keys.queue!r}",
        (
            scripts.requeue.command(
                dead=keys.dead,
                pending=keys.pending,
                quarantine=keys.quarantine,
                before="+inf" if before_ms is None else before_ms,
                ids=job_ids,
                **_lanes(keys),
            ),
        ),
        _words,
    )


def remove(keys: QueueKeys, job_ids: Sequence[str]) -> Call[list[str]]:
    """Delete jobs that nobody runs; a word for each: ok, elsewhere, gone."""
    return Call(
        f"remove from queue {keys.queue!r}",
        (
            scripts.remove.command(
                pending=keys.pending,
                active=keys.active,
                schedule=keys.schedule,
                dead=keys.dead,
                ids=job_ids,
                **_lanes(keys),
            ),
        ),
        _words,
    )


def advance(keys: QueueKeys, job_ids: Sequence[str]) -> Call[list[str]]:
    """Run scheduled jobs now; a word for each: ok, elsewhere, gone, unsound."""
    return Call(
        f"advance in queue {keys.queue!r}",
        (
            scripts.advance.command(
                schedule=keys.schedule,
                pending=keys.pending,
                quarantine=keys.quarantine,
                ids=job_ids,
                **_lanes(keys),
            ),
        ),
        _words,
    )


def announce(worker: str, *, ttl_ms: int, facts: dict[str, str | int]) -> Call[int]:
    """Say that a worker lives; the server's time, ms."""
    return Call(
        f"announce worker {worker!r}",
        (
            scripts.announce.command(
                workers=names.WORKERS,
                about=names.worker(worker),
                worker=worker,
                ttl=ttl_ms,
                facts=[value for fact in facts.items() for value in fact],
            ),
        ),
        _first,
        resend=True,
    )


def farewell(worker: str) -> Call[None]:
    """Take a worker that has stopped off the list."""
    return Call(
        f"farewell of worker {worker!r}",
        (("ZREM", names.WORKERS, worker), ("DEL", names.worker(worker))),
        lambda replies: None,
        resend=True,
    )


def workers() -> Call[list[tuple[str, int, int]]]:
    """List the workers: id, last heartbeat and the server's time, both ms."""

    def parse(replies: Sequence[Any]) -> list[tuple[str, int, int]]:
        now, listed = _time(replies[0]), replies[1]
        return [(worker.decode(), int(float(beat)), now) for worker, beat in _pairs(listed)]

    return Call("list the workers", (("TIME",), ("ZRANGE", names.WORKERS, 0, -1, "WITHSCORES")), parse, True)


def about(listed: Sequence[tuple[str, int, int]]) -> Call[list[WorkerInfo]]:
    """Read what the listed workers say of themselves."""

    def parse(replies: Sequence[Any]) -> list[WorkerInfo]:
        return [
            WorkerInfo(worker, max(now - beat, 0), {key.decode(): value.decode() for key, value in _pairs(facts)})
            for (worker, beat, now), facts in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HGETALL", names.worker(worker)) for worker, _, _ in listed)
    return Call("read the workers", commands, parse, True)


def pause(keys: QueueKeys) -> Call[str]:
    """Let nobody claim from the queue."""
    return Call(f"pause queue {keys.queue!r}", (scripts.pause.command(meta=keys.meta),), _word, resend=True)


def resume(keys: QueueKeys) -> Call[str]:
    """Let jobs be claimed again, and wake a worker."""
    command = scripts.resume.command(meta=keys.meta, wake=keys.wake)
    return Call(f"resume queue {keys.queue!r}", (command,), _word, resend=True)


def wake(keys: QueueKeys) -> Call[None]:
    """Wake one parked worker."""
    return Call(
        f"wake queue {keys.queue!r}",
        (("LPUSH", keys.wake, "1"), ("LTRIM", keys.wake, 0, 63)),
        lambda _: None,
        True,
    )


def register(queue: str) -> Call[None]:
    """Make the queue known to whoever lists queues."""
    return Call(f"register queue {queue!r}", (("SADD", names.QUEUES, queue),), lambda _: None, True)


def registered() -> Call[list[str]]:
    """List the queues that were ever used."""
    return Call(
        "list the queues",
        (("SMEMBERS", names.QUEUES),),
        lambda replies: sorted(queue.decode() for queue in replies[0]),
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
    """Read one job whole, with its place and its error records; None when its row is missing."""

    def parse(replies: Sequence[Any]) -> Job | None:
        reply, errors, *scores = replies
        if not isinstance(reply, Exception) and not reply:
            return None
        row, errors = _row(reply), [] if isinstance(errors, Exception) else errors
        location, score = _where(scores)
        if location is None and row.get(b"group") and row.get(b"state") == b"pending":
            location = Location.PENDING  # it waits in its lane
        return Job.load(keys.queue, job_id, row, location, score, errors)

    return Call(
        f"get job {job_id} of queue {keys.queue!r}",
        (
            ("HGETALL", keys.row(job_id)),
            ("LRANGE", keys.errors(job_id), 0, -1),
            *(("ZSCORE", _place(keys, location), job_id) for location in Location),
        ),
        parse,
        resend=True,
        bears_wrong_types=True,
    )


def _where(scores: Sequence[bytes | None]) -> tuple[Location | None, float | None]:
    for location, score in zip(Location, scores, strict=True):
        if score is not None:
            return location, float(score)
    return None, None


def page(
    keys: QueueKeys, location: Location, *, first: int, size: int, newest_first: bool = False
) -> Call[list[tuple[str, float]]]:
    """List the ids of a place by rank, with their scores."""
    order = ("REV",) if newest_first else ()
    return Call(
        f"page of {location} of queue {keys.queue!r}",
        (("ZRANGE", _place(keys, location), first, first + size - 1, *order, "WITHSCORES"),),
        lambda replies: [(_shown(job_id), float(score)) for job_id, score in _pairs(replies[0])],
        True,
    )


def rows(keys: QueueKeys, location: Location, listed: Sequence[tuple[str, float]]) -> Call[list[Job]]:
    """Read the rows of listed ids. A row that is missing reads as a job without fields."""

    def parse(replies: Sequence[Any]) -> list[Job]:
        return [
            Job.load(keys.queue, job_id, _row(reply), location, score)
            for (job_id, score), reply in zip(listed, replies, strict=True)
        ]

    commands = tuple(("HGETALL", keys.row(job_id)) for job_id, _ in listed)
    return Call(f"read rows of queue {keys.queue!r}", commands, parse, resend=True, bears_wrong_types=True)


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
        lambda replies: (_time(replies[0]), [_shown(job_id) for reply in replies[1:] for job_id in reply]),
        True,
    )


def peek(keys: QueueKeys) -> Call[tuple[int, int | None]]:
    """Give the server's time and the time of the next scheduled job, both ms."""

    def parse(replies: Sequence[Any]) -> tuple[int, int | None]:
        time, first = replies
        return _time(time), clock_ms(float(first[1])) if first else None

    return Call(
        f"look at the schedule of queue {keys.queue!r}",
        (("TIME",), ("ZRANGE", keys.schedule, 0, 0, "WITHSCORES")),
        parse,
        True,
    )


def clock() -> Call[int]:
    """Give the server's time, ms."""
    return Call("ask for the time", (("TIME",),), lambda replies: _time(replies[0]), True)


def lapsed(keys: QueueKeys) -> Call[Lapsed]:
    """Count the leases that have run out and the scheduled jobs that are due: a script, for the server's clock."""
    return Call(
        f"look at the leases of queue {keys.queue!r}",
        (scripts.lapsed.command(active=keys.active, schedule=keys.schedule),),
        lambda replies: Lapsed(*replies[0]),
        True,
    )


def _time(reply: Sequence[bytes]) -> int:
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def _pairs(flat: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _shown(job_id: bytes) -> str:
    # Anything can be put into a place by hand, and must not keep the others from being seen.
    return job_id.decode(errors="backslashreplace")


def _row(reply: Any) -> dict[bytes, bytes]:
    """Read a row; one of a wrong type has no fields."""
    return {} if isinstance(reply, Exception) else dict(_pairs(reply))
