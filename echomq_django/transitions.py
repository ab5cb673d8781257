"""Every move, as a Call that some client will run. Knows keys and words, no server.

One function per script: it names the script's keys and turns the words of its reply into values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import keys as names
from . import scripts
from .call import Call, first_reply, word, words
from .job import Claim
from .keys import QueueKeys

MAX_BATCH = 500
"""The most jobs that one call of a script takes: more would keep the server from others for too long."""


PROMOTIONS = 100
"""The most due jobs that a claim promotes."""


ERRORS_KEPT = 25
"""How many error records a job keeps."""


LOGS_KEPT = 100
"""How many log lines a job keeps."""


RECEIPT_TTL_MS = 10_000
"""How long an enqueue may be sent again and be recognised; much longer than any client goes on trying."""


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
                result_root=keys.result_root,
                delay="" if delay_ms is None else delay_ms,
                at="" if at_ms is None else at_ms,
                priority=priority,
                name=name,
                max_attempts="" if max_attempts is None else max_attempts,
                receipt_ttl=RECEIPT_TTL_MS,
                jobs=jobs,
            ),
        ),
        words,
        resend=True,
    )


def _claim(queue: str, owner: str, told: Sequence[Any]) -> Claim:
    job_id, token, payload, spared, stalled, max_attempts, name, group, deferred_ms, priority = told
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
        priority=priority,
    )


def claim(keys: QueueKeys, *, limit: int, lease_ms: int, owner: str) -> Call[Claimed]:
    """Take up to `limit` jobs. Never sent again: it would take others; see recover."""

    def parse(replies: Sequence[Any]) -> Claimed:
        answer, due_in_ms, left, *jobs = replies[0]
        return Claimed(
            claims=[_claim(keys.queue, owner, told) for told in jobs],
            paused=answer == b"paused",
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


def recover(keys: QueueKeys, *, owner: str, lease_ms: int, first: int = 0) -> Call[tuple[int, list[Claim]]]:
    """Find the jobs of a claim whose reply was lost, on one page of active; also how many ids it had."""

    def parse(replies: Sequence[Any]) -> tuple[int, list[Claim]]:
        size, *jobs = replies[0]
        return size, [_claim(keys.queue, owner, told) for told in jobs]

    return Call(
        f"recover a claim of queue {keys.queue!r}",
        (
            scripts.recover.command(
                active=keys.active, job_root=keys.job_root, owner=owner, lease=lease_ms, first=first, size=MAX_BATCH
            ),
        ),
        parse,
        resend=True,
    )


def complete(
    keys: QueueKeys,
    claims: Sequence[Claim],
    *,
    results: Sequence[tuple[int, str | bytes]] | None = None,
    recent: int = 0,
) -> Call[list[str]]:
    """Retire finished jobs; a word for each: ok, lost, gone.

    `results` has for each claim how long its job is kept, ms, and its result, a text; without it none is kept.
    `recent` is how many ids the list of completed jobs holds.
    """
    kept = [(0, "")] * len(claims) if results is None else results
    return Call(
        f"complete in queue {keys.queue!r}",
        (
            scripts.complete.command(
                active=keys.active,
                pending=keys.pending,
                schedule=keys.schedule,
                dead=keys.dead,
                completed=keys.completed,
                keep=recent,
                claims=[value for claim, result in zip(claims, kept, strict=True) for value in (*claim.proof, *result)],
                outbox=keys.outbox,
                result_root=keys.result_root,
                recent=keys.recent,
                minute_root=keys.minute_root,
                **_lanes(keys),
            ),
        ),
        words,
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
                minute_root=keys.minute_root,
                **_lanes(keys),
            ),
        ),
        word,
        resend=True,
    )


def extend(keys: QueueKeys, claims: Sequence[Claim], *, lease_ms: int) -> Call[list[str]]:
    """Push the leases of held jobs out; a word for each: ok, lost."""
    return Call(
        f"extend in queue {keys.queue!r}",
        (scripts.extend.command(active=keys.active, job_root=keys.job_root, lease=lease_ms, claims=_flat(claims)),),
        words,
        resend=True,
    )


def annotate(keys: QueueKeys, claim: Claim, entries: Sequence[tuple[str, str]]) -> Call[str]:
    """Note how far a held job is: progress, checkpoint and log entries; a word: ok, lost.

    A log line may be there twice when the call was sent again.
    """
    job_id, token, owner = claim.proof
    return Call(
        f"annotate job {job_id} in queue {keys.queue!r}",
        (
            scripts.annotate.command(
                active=keys.active,
                job_root=keys.job_root,
                id=job_id,
                token=token,
                owner=owner,
                keep=LOGS_KEPT,
                events=keys.events,
                entries=[value for entry in entries for value in entry],
            ),
        ),
        word,
        resend=True,
    )


def release(keys: QueueKeys, claims: Sequence[Claim]) -> Call[list[str]]:
    """Give unfinished jobs back at no cost; a word for each: ok, lost."""
    return Call(
        f"release in queue {keys.queue!r}",
        (scripts.release.command(active=keys.active, pending=keys.pending, claims=_flat(claims), **_lanes(keys)),),
        words,
        resend=True,
    )


def defer(keys: QueueKeys, claim: Claim, *, delay_ms: int, reason: str) -> Call[str]:
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
                reason=reason,
                **_lanes(keys),
            ),
        ),
        word,
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
        answer, pending, schedule, dead, quarantined = replies[0]
        return Reaped(answer == b"waiting", pending, schedule, dead, quarantined)

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
        first_reply,
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
        words,
    )


def revise(keys: QueueKeys, job_id: str, payload: str | bytes) -> Call[str]:
    """Give a dead job a new life with another payload; a word: ok, elsewhere, gone, unsound."""
    return Call(
        f"revise job {job_id} in queue {keys.queue!r}",
        (
            scripts.revise.command(
                dead=keys.dead,
                pending=keys.pending,
                quarantine=keys.quarantine,
                id=job_id,
                payload=payload,
                **_lanes(keys),
            ),
        ),
        word,
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
        words,
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
        words,
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
        first_reply,
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


def pause(keys: QueueKeys) -> Call[str]:
    """Let nobody claim from the queue."""
    return Call(f"pause queue {keys.queue!r}", (scripts.pause.command(meta=keys.meta),), word, resend=True)


def resume(keys: QueueKeys) -> Call[str]:
    """Let jobs be claimed again, and wake a worker."""
    command = scripts.resume.command(meta=keys.meta, wake=keys.wake)
    return Call(f"resume queue {keys.queue!r}", (command,), word, resend=True)


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
