"""What a worker does with jobs: it claims them, says how they go on, and settles them. The claim is its proof."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from echomq_django import scripts
from echomq_django.call import Call, word, words
from echomq_django.job import Claim
from echomq_django.keys import QueueKeys

from .limits import ERRORS_KEPT, LOGS_KEPT, MAX_BATCH, PROMOTIONS


@dataclass(frozen=True, slots=True)
class Claimed:
    """Hold what a claim brought: the claims, and what it saw of the queue meanwhile."""

    claims: list[Claim]
    paused: bool
    left: int
    """How many jobs were left in pending."""
    due_in_ms: int | None
    """How long until the next scheduled job is due; None when there is none."""


def _claim(queue: str, owner: str, told: Sequence[Any]) -> Claim:
    job_id, token, payload, name, *more = told
    if not more:
        return Claim(queue, job_id.decode(), int(token), owner, payload, name=_text(name))
    spared, stalled, max_attempts, group, deferred_ms, priority = more
    return Claim(
        queue=queue,
        id=job_id.decode(),
        token=int(token),
        owner=owner,
        payload=payload,
        spared=spared,
        stalled=stalled,
        max_attempts=max_attempts or None,
        name=_text(name),
        group=_text(group),
        deferred_ms=None if deferred_ms < 0 else deferred_ms,
        priority=priority,
    )


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _flat(claims: Iterable[Claim]) -> list[Any]:
    return [value for claim in claims for value in claim.proof]


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
                **keys.lines,
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
    `recent` is how many ids the list of completed jobs holds; 0 takes the list away.
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
                **keys.lines,
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
                **keys.lines,
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
        (scripts.release.command(active=keys.active, pending=keys.pending, claims=_flat(claims), **keys.lines),),
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
                **keys.lines,
            ),
        ),
        word,
        resend=True,
    )
