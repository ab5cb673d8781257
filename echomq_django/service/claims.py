"""Claim, settle and hold: for whoever runs jobs without echomq_worker; and what reapers do."""

import itertools
import os
import random
import time
from typing import Any

from echomq_django import conf, connection, failure, ids, keys, looks, payload, transitions
from echomq_django.exceptions import JobGone, LeaseLost, PayloadError
from echomq_django.job import Claim, ErrorRecord, Location
from echomq_django.transitions import MAX_BATCH, Claimed, Reaped

from . import reading, times
from .operators import Moved
from .times import Seconds

_serial = itertools.count(1)
_names: dict[int, str] = {}


def _nonce() -> str:
    # By pid: a forked child must not claim under its parent's name.
    pid = os.getpid()
    if pid not in _names:
        _names[pid] = ids.worker_name()
    return f"{_names[pid]}:{next(_serial)}"


def claim(queue: str, n: int = 1, lease: Seconds | None = None, *, using: str = conf.DEFAULT_ALIAS) -> list[Claim]:
    """Take up to `n` jobs for a `lease` (seconds; the queue's own by default). Nothing comes from a paused queue.

    ServerUnavailable with `unknown` means that jobs may have been taken: their leases run out.
    """
    if not 1 <= n <= MAX_BATCH:
        raise ValueError(f"n is {n!r}: claim from 1 to {MAX_BATCH} jobs of queue {queue!r} at once")
    lease_ms = conf.alias(using).queue(queue).lease_ms if lease is None else times.delay_ms(lease, "lease")
    call = transitions.claim(keys.of(queue), limit=n, lease_ms=lease_ms, owner=_nonce())
    claimed: Claimed = connection.client(using).run(call)
    return claimed.claims


def complete(claim: Claim, result: Any = None, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Retire a job whose work is done; LeaseLost or JobGone when this claim no longer holds it.

    A result, any value that survives JSON, is kept with the job for the queue's RESULT_TTL. Without one the job is
    kept only where RESULT_TTL is set.
    """
    config = conf.alias(using).queue(claim.queue)
    try:
        text = payload.to_keep(result)
    except PayloadError as error:
        raise PayloadError(
            f"the result of job {claim.id} of queue {claim.queue!r} cannot be kept, and the job is not settled: {error}"
        ) from None
    ttl_ms = config.result_ttl_ms if result is not None or config.result_ttl is not None else 0
    call = transitions.complete(
        keys.of(claim.queue),
        [claim],
        results=[(ttl_ms, text if ttl_ms else "")],
        recent=config.keep_completed,
    )
    [word], sent_before = connection.client(using).insist(call)
    if word == "gone" and sent_before:
        return  # the first sending did it, only its reply was lost
    _accept(word, claim)


def retry(
    claim: Claim,
    error: BaseException | str,
    *,
    delay: Seconds | None = None,
    max_attempts: int | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> Location:
    """Settle a failed attempt; where the job went: schedule, or dead. LeaseLost or JobGone as complete.

    The delay is the queue's backoff, and the maximum is the job's or the queue's, unless given.
    """
    config = conf.alias(using).queue(claim.queue)
    wait_ms = config.backoff_ms(claim.attempt) if delay is None else times.delay_ms(delay)
    failed = _failed(claim, error)
    call = transitions.retry(
        keys.of(claim.queue),
        claim,
        delay_ms=wait_ms,
        maximum=max_attempts or claim.max_attempts or config.max_attempts,
        reason=failed.message,
        entry=failed.dump(),
    )
    word, sent_before = connection.client(using).insist(call)
    if sent_before and word in ("lost", "gone"):
        found = reading.location(claim.queue, claim.id, using=using)
        if found in (Location.SCHEDULE, Location.DEAD):
            return found
    _accept(word, claim)
    return Location.DEAD if word == "dead" else Location.SCHEDULE


def _failed(claim: Claim, error: BaseException | str) -> ErrorRecord:
    """Describe a failed attempt by its exception, or in the caller's words."""
    if isinstance(error, str):
        kind, message, trace = "error", failure.printable(error)[: failure.MESSAGE_LIMIT], ""
    else:
        kind, message, trace = failure.kind(error), failure.message(error), failure.trace(error)
    return ErrorRecord(kind, message, trace, claim.attempt, claim.worker, 0, 0)


def extend(claim: Claim, lease: Seconds | None = None, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Hold a job for another lease from now (seconds); LeaseLost when this claim no longer holds it."""
    lease_ms = conf.alias(using).queue(claim.queue).lease_ms if lease is None else times.delay_ms(lease, "lease")
    [word] = connection.client(using).run(transitions.extend(keys.of(claim.queue), [claim], lease_ms=lease_ms))
    _accept(word, claim)


def release(claim: Claim, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Give a job back that was not run, at no cost; LeaseLost when this claim no longer holds it."""
    [word], sent_before = connection.client(using).insist(transitions.release(keys.of(claim.queue), [claim]))
    if not sent_before:
        _accept(word, claim)


def _accept(word: str, claim: Claim) -> None:
    if word == "lost":
        raise LeaseLost(
            f"job {claim.id} of queue {claim.queue!r}: the claim with token {claim.token} no longer holds it. "
            "Drop this result: another claim runs the job, or has run it."
        )
    if word == "gone":
        raise JobGone(f"job {claim.id} of queue {claim.queue!r} is gone: it was completed or removed meanwhile.")


def promote(queue: str, limit: int = transitions.PROMOTIONS, *, using: str = conf.DEFAULT_ALIAS) -> Moved:
    """Line up jobs whose time has come, at most 500; how many, and how many broken ones were put aside."""
    return Moved(*connection.client(using).run(transitions.promote(keys.of(queue), limit=_limit(limit))))


def reap(queue: str, limit: int = 100, *, using: str = conf.DEFAULT_ALIAS) -> Reaped:
    """Take back jobs whose lease ran out, at most 500; what became of them."""
    config, queue_keys = conf.alias(using).queue(queue), keys.of(queue)
    client = connection.client(using)
    # A call that a paused server carries out much later would come before its live workers can extend.
    asked = time.monotonic()
    now_ms = client.run(looks.clock())
    if time.monotonic() - asked > config.lease / 2:
        return Reaped(waiting=True, pending=0, schedule=0, dead=0, quarantined=0)
    call = transitions.reap(
        queue_keys,
        limit=_limit(limit),
        lease_ms=config.lease_ms,
        backoff_ms=[config.longest_backoff_ms(crash) for crash in range(1, config.max_crashes)],
        spread=random.random(),
        latest_ms=now_ms + config.lease_ms // 2,
    )
    return client.run(call)


def expire(queue: str, limit: int = 100, *, using: str = conf.DEFAULT_ALIAS) -> int:
    """Forget dead jobs beyond the queue's DEAD_TTL and DEAD_MAX, at most 500; how many."""
    config = conf.alias(using).queue(queue)
    call = transitions.expire(
        keys.of(queue), ttl_ms=round(config.dead_ttl * 1000), maximum=config.dead_max, limit=_limit(limit)
    )
    return connection.client(using).run(call)


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_BATCH:
        raise ValueError(f"limit is {limit!r}: one call moves from 1 to {MAX_BATCH} jobs; call it again for more")
    return limit
