"""What others do with jobs, without a claim: applications enqueue, reapers sweep, operators mend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echomq_django import scripts
from echomq_django.call import Call, first_reply, word, words
from echomq_django.job import Location
from echomq_django.keys import QueueKeys

from .limits import ERRORS_KEPT, PROMOTIONS, RECEIPT_TTL_MS


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
                **keys.lines,
            ),
        ),
        parse,
        resend=True,
    )


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
                minute_root=keys.minute_root,
                **keys.lines,
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
                **keys.lines,
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
                **keys.lines,
            ),
        ),
        word,
    )


def remove(
    keys: QueueKeys, job_ids: Sequence[str], *, place: Location | None = None, before_ms: int | None = None
) -> Call[list[str]]:
    """Delete jobs that nobody runs, of one place or of any; a word for each: ok, elsewhere, gone."""
    return Call(
        f"remove from queue {keys.queue!r}",
        (
            scripts.remove.command(
                pending=keys.pending,
                active=keys.active,
                schedule=keys.schedule,
                dead=keys.dead,
                place="" if place is None else place.value,
                before="+inf" if before_ms is None else before_ms,
                ids=job_ids,
                **keys.lines,
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
                **keys.lines,
            ),
        ),
        words,
    )
