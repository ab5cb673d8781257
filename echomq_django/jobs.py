"""The service: what an application imports.

Every function takes ``using``, the name of a server in the ECHOMQ setting. Every error says which job, which
queue, and what to do next; when one is raised by an enqueue that could not be sent, nothing was stored.
"""

import itertools
import logging
import os
import random
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from . import conf, connection, failure, ids, keys, payload, retries, transitions
from .connection import Client
from .exceptions import EchoMQError, JobGone, LeaseLost, PayloadError, WrongPlace
from .job import Claim, ErrorRecord, Job, Location, minted_ms
from .transitions import MAX_BATCH, Claimed, Counts, Reaped, WorkerInfo

logger = logging.getLogger("echomq_django")

Seconds = float | int | timedelta

ENQUEUED, SCHEDULED, DUPLICATE = "enqueued", "scheduled", "duplicate"
LONGEST_DELAY = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Hold the id of a job and what became of it: "enqueued", "scheduled", or "duplicate"."""

    id: str
    status: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Hold how many jobs an operation on many has moved, and how many broken ones it put aside."""

    done: int
    quarantined: int


# --- admission -------------------------------------------------------------------------------------------------


def enqueue(
    queue: str,
    data: Any,
    *,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int = 0,
    id: str | None = None,
    name: str = "",
    max_attempts: int | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> Enqueued:
    """Store a job, to run now, after a `delay` (seconds) or at a time; on the server's clock.

    bytes and str are stored as they are, other values as JSON. With an `id` of your own a second enqueue answers
    "duplicate" while the job exists. Raises PayloadError, InvalidId, InvalidQueueName, ValueError, QueueFull or
    ServerUnavailable; after the last one with `unknown` the job may exist, and a call with the same id is safe.
    """
    options = _options(delay, at, priority, name, max_attempts)
    return _admit(queue, [_encoded(queue, data)], None if id is None else [id], options, using)[0]


def enqueue_many(
    queue: str,
    payloads: Iterable[Any],
    *,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int = 0,
    name: str = "",
    max_attempts: int | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> list[Enqueued]:
    """Store many jobs, 500 in a round trip; what became of each, in order. Raises as enqueue does.

    All payloads are checked before the first is sent. A chunk is stored whole or not at all; when a later one
    fails, the error's note says how many jobs were stored before it.
    """
    options = _options(delay, at, priority, name, max_attempts)
    bodies = [_encoded(queue, each) for each in payloads]
    stored: list[Enqueued] = []
    for first in range(0, len(bodies), MAX_BATCH):
        try:
            stored += _admit(queue, bodies[first : first + MAX_BATCH], None, options, using)
        except EchoMQError as error:
            error.add_note(f"{len(stored)} of {len(bodies)} jobs were stored in queue {queue!r} before this.")
            raise
    return stored


def enqueue_on_commit(
    queue: str,
    data: Any,
    *,
    database: str | None = None,
    delay: Seconds | None = None,
    at: datetime | None = None,
    priority: int = 0,
    name: str = "",
    max_attempts: int | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> str:
    """Store a job when the transaction of `database` commits, and give its id at once.

    A rollback stores nothing. What is wrong with the arguments is raised here; what is wrong with the server is
    raised from the commit, when the rows are already there: Django then skips the hooks registered after this one.
    """
    options = _options(delay, at, priority, name, max_attempts)
    keys.of(queue), conf.alias(using)  # what is wrong with these is better said now than from the commit
    body = _encoded(queue, data)
    job_id = ids.mint()

    def store() -> None:
        try:
            [done] = _admit(queue, [body], [job_id], options, using)
        except EchoMQError as error:
            error.add_note(f"Job {job_id} of queue {queue!r} was promised before the commit. Payload: {body[:1000]!r}")
            raise
        if done.status == DUPLICATE:
            raise EchoMQError(f"job {job_id} of queue {queue!r}: another process minted this id; enqueue it again.")

    transaction.on_commit(store, using=database)
    return job_id


def _encoded(queue: str, data: Any) -> bytes:
    try:
        return payload.encode(data)
    except PayloadError as error:
        raise PayloadError(f"a job for queue {queue!r} was not stored: {error}.") from None


def _options(
    delay: Seconds | None, at: datetime | None, priority: int, name: str, max_attempts: int | None
) -> dict[str, Any]:
    if delay is not None and at is not None:
        raise ValueError("give a delay or a time, not both")
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise ValueError(f"priority is {priority!r}: use a whole number from -100 to 100; higher runs sooner")
    if max_attempts is not None and (
        isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or not 1 <= max_attempts <= 10**9
    ):
        raise ValueError(f"max_attempts is {max_attempts!r}: use a whole number from 1")
    if not isinstance(name, str) or len(name) > 500:
        raise ValueError("name is not a text of at most 500 characters: use the dotted path of what runs the job")
    return {
        "delay_ms": None if delay is None else _delay_ms(delay),
        "at_ms": None if at is None else _at_ms(at),
        "priority": priority,
        "name": name,
        "max_attempts": max_attempts,
    }


def _delay_ms(delay: Seconds) -> int:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"delay is {delay!r}: use seconds or a timedelta")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise ValueError(f"delay is {delay!r}: use seconds from 0 to {LONGEST_DELAY:.0f} (a hundred years)")
    return round(seconds * 1000)


def _at_ms(at: datetime) -> int:
    if not isinstance(at, datetime):
        raise TypeError(f"at is {at!r}: use a datetime")
    if timezone.is_naive(at):
        if settings.USE_TZ:
            raise ValueError(f"at is {at!r}, which has no time zone: use an aware datetime, as USE_TZ is on")
        at = timezone.make_aware(at)
    return round(at.timestamp() * 1000)


REGISTER_EVERY = 10.0
"""Seconds after which a queue is registered again: the server may have been emptied."""

_registered: WeakKeyDictionary[Client, dict[str, float]] = WeakKeyDictionary()


def _admit(
    queue: str, bodies: Sequence[bytes], named: Sequence[str] | None, options: dict[str, Any], using: str
) -> list[Enqueued]:
    """Store one chunk. A duplicate of an id that we minted is a collision: it is minted again."""
    queue_keys = keys.of(queue)
    client = connection.client(using)
    job_ids = [ids.mint() for _ in bodies] if named is None else [ids.check_job(each) for each in named]
    words = client.run(_admission(queue_keys, job_ids, bodies, options))
    _register(client, queue)
    while named is None and DUPLICATE in words:
        again = [at for at, word in enumerate(words) if word == DUPLICATE]
        for at in again:
            job_ids[at] = ids.mint()
        verdicts = client.run(
            _admission(queue_keys, [job_ids[at] for at in again], [bodies[at] for at in again], options)
        )
        for at, word in zip(again, verdicts, strict=True):
            words[at] = word
    return [Enqueued(job_id, word) for job_id, word in zip(job_ids, words, strict=True)]


def _register(client: Client, queue: str) -> None:
    """Make the queue known to whoever lists queues, now and then."""
    registered = _registered.setdefault(client, {})
    now = time.monotonic()
    if now - registered.get(queue, -REGISTER_EVERY) >= REGISTER_EVERY:
        registered[queue] = now
        try:
            client.run(transitions.register(queue))
        except EchoMQError as error:
            # The jobs are stored, and that is what was asked for.
            logger.warning("queue %r will not be listed for now: %s", queue, error)


def _admission(
    queue_keys: keys.QueueKeys, job_ids: Sequence[str], bodies: Sequence[bytes], options: dict[str, Any]
) -> transitions.Call[list[str]]:
    jobs = [value for job in zip(job_ids, bodies, strict=True) for value in job]
    return transitions.enqueue(queue_keys, jobs, receipt=secrets.token_hex(12), **options)


# --- claims ----------------------------------------------------------------------------------------------------

_serial = itertools.count(1)
_process = threading.local()


def _nonce() -> str:
    # Per thread and process: a forked child must not claim under its parent's name.
    if getattr(_process, "pid", None) != os.getpid():
        _process.pid, _process.name = os.getpid(), ids.worker_name()
    return f"{_process.name}:{next(_serial)}"


def claim(queue: str, n: int = 1, lease: Seconds | None = None, *, using: str = conf.DEFAULT_ALIAS) -> list[Claim]:
    """Take up to `n` jobs for a `lease` (seconds; the queue's own by default). Nothing comes from a paused queue.

    ServerUnavailable with `unknown` means that jobs may have been taken: their leases run out.
    """
    if not 1 <= n <= MAX_BATCH:
        raise ValueError(f"n is {n!r}: claim from 1 to {MAX_BATCH} jobs of queue {queue!r} at once")
    lease_ms = conf.alias(using).queue(queue).lease_ms if lease is None else _delay_ms(lease)
    call = transitions.claim(keys.of(queue), limit=n, lease_ms=lease_ms, owner=_nonce())
    claimed: Claimed = connection.client(using).run(call)
    return claimed.claims


def complete(claim: Claim, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Retire a job whose work is done; LeaseLost or JobGone when this claim no longer holds it."""
    [word], sent_before = connection.client(using).settle(transitions.complete(keys.of(claim.queue), [claim]))
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
    delay_ms = backoff_ms(config, claim.attempt) if delay is None else _delay_ms(delay)
    if isinstance(error, str):
        kind, reason, trace = "error", failure.printable(error)[: failure.MESSAGE_LIMIT], ""
    else:
        kind, reason, trace = failure.kind(error), failure.message(error), failure.trace(error)
    entry = ErrorRecord(kind, reason, trace, claim.attempt, claim.owner.rpartition(":")[0], 0, 0)
    call = transitions.retry(
        keys.of(claim.queue),
        claim,
        delay_ms=delay_ms,
        maximum=max_attempts or claim.max_attempts or config.max_attempts,
        reason=reason,
        entry=entry.dump(),
    )
    word, sent_before = connection.client(using).settle(call)
    if sent_before and word in ("lost", "gone"):
        found = location(claim.queue, claim.id, using=using)
        if found in (Location.SCHEDULE, Location.DEAD):
            return found
    _accept(word, claim)
    return Location.DEAD if word == "dead" else Location.SCHEDULE


def backoff_ms(config: conf.QueueConfig, attempt: int) -> int:
    """Draw the delay after a failed attempt, ms."""
    return round(retries.jittered(longest_backoff(config, attempt)) * 1000)


def longest_backoff(config: conf.QueueConfig, attempt: int) -> float:
    """Give the longest delay after a failed attempt, by the queue's settings, seconds."""
    return retries.backoff(attempt, base=config.backoff_base, cap=config.backoff_cap, kind=config.backoff)


def extend(claim: Claim, lease: Seconds | None = None, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Hold a job for another lease from now (seconds); LeaseLost when this claim no longer holds it."""
    lease_ms = conf.alias(using).queue(claim.queue).lease_ms if lease is None else _delay_ms(lease)
    [word] = connection.client(using).run(transitions.extend(keys.of(claim.queue), [claim], lease_ms=lease_ms))
    _accept(word, claim)


def release(claim: Claim, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Give a job back that was not run, at no cost; LeaseLost when this claim no longer holds it."""
    [word], sent_before = connection.client(using).settle(transitions.release(keys.of(claim.queue), [claim]))
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
    now_ms = client.run(transitions.clock())
    if time.monotonic() - asked > config.lease / 2:
        return Reaped(waiting=True, pending=0, schedule=0, dead=0, quarantined=0)
    call = transitions.reap(
        queue_keys,
        limit=_limit(limit),
        lease_ms=config.lease_ms,
        backoff_ms=[round(longest_backoff(config, crash) * 1000) for crash in range(1, config.max_crashes)],
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


# --- looks -----------------------------------------------------------------------------------------------------


def get(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Job:
    """Read a job, its place and its error records; JobGone when there is none."""
    found = connection.client(using).run(transitions.get(keys.of(queue), ids.check_job(id)))
    if found is None:
        raise JobGone(f"queue {queue!r} has no job {id}: it was completed, removed, or never enqueued.")
    return found


def location(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> Location | None:
    """Say in which place a job is; None when it is gone."""
    found = connection.client(using).run(transitions.get(keys.of(queue), ids.check_job(id)))
    return found.location if found else None


def counts(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> Counts:
    """Count a queue's jobs by place."""
    return connection.client(using).run(transitions.counts(keys.of(queue)))


def page(
    queue: str, location: Location | str, start: int = 0, size: int = 100, *, using: str = conf.DEFAULT_ALIAS
) -> list[Job]:
    """Read a page of a place: the dead newest first, the others in the order in which they come up."""
    place = Location(location)
    client, queue_keys = connection.client(using), keys.of(queue)
    if start < 0 or not 1 <= size <= MAX_BATCH:
        raise ValueError(f"a page of queue {queue!r} starts at 0 or later and has 1 to {MAX_BATCH} jobs")
    listed = client.run(
        transitions.page(queue_keys, place, first=start, size=size, newest_first=place is Location.DEAD)
    )
    return client.run(transitions.rows(queue_keys, place, listed)) if listed else []


def oldest_pending_age(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> float | None:
    """Give the seconds since the oldest pending job was enqueued; None when none is pending.

    Held against the server's clock; the job's time is its producer's.
    """
    now_ms, heads = connection.client(using).run(transitions.heads(keys.of(queue)))
    minted = [at for job_id in heads if (at := minted_ms(job_id)) is not None]
    return max(now_ms - min(minted), 0) / 1000 if minted else None


def lapsed(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> transitions.Lapsed:
    """Count the jobs that a reap and a promote would move now."""
    return connection.client(using).run(transitions.lapsed(keys.of(queue)))


def queues(*, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """List the queues: the configured ones, and those that Python programs have used on this server."""
    found = connection.client(using).run(transitions.registered())
    return sorted({*conf.alias(using).queues, *found})


def workers(*, using: str = conf.DEFAULT_ALIAS) -> list[WorkerInfo]:
    """List the workers that have announced themselves during the last day."""
    client = connection.client(using)
    listed = client.run(transitions.workers())
    return client.run(transitions.about(listed)) if listed else []


# --- operators -------------------------------------------------------------------------------------------------


def requeue(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Give a dead job a new life, with all its attempts; WrongPlace or JobGone when it is not dead."""
    _done(requeue_many(queue, [id], using=using)[0], queue, id, "dead")


def remove(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Delete a job that nobody runs; WrongPlace when it is active, JobGone when there is none."""
    _done(remove_many(queue, [id], using=using)[0], queue, id, "pending, scheduled or dead")


def advance(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Run a scheduled job now; WrongPlace or JobGone when it is not scheduled."""
    _done(advance_many(queue, [id], using=using)[0], queue, id, "scheduled")


def requeue_many(
    queue: str, job_ids: Sequence[str], *, before: datetime | None = None, using: str = conf.DEFAULT_ALIAS
) -> list[str]:
    """Requeue named jobs; a word for each: ok, elsewhere, gone, unsound. Those that died after `before` are spared."""
    before_ms = None if before is None else _at_ms(before)
    return _in_chunks(job_ids, lambda chunk: transitions.requeue(keys.of(queue), chunk, before_ms=before_ms), using)


def remove_many(queue: str, job_ids: Sequence[str], *, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """Delete named jobs; a word for each: ok, elsewhere, gone."""
    return _in_chunks(job_ids, lambda chunk: transitions.remove(keys.of(queue), chunk), using)


def advance_many(queue: str, job_ids: Sequence[str], *, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """Run named scheduled jobs now; a word for each: ok, elsewhere, gone, unsound."""
    return _in_chunks(job_ids, lambda chunk: transitions.advance(keys.of(queue), chunk), using)


def _in_chunks(job_ids: Sequence[str], call: Any, using: str) -> list[str]:
    checked = [ids.check_job(each) for each in job_ids]
    client = connection.client(using)
    words: list[str] = []
    for first in range(0, len(checked), MAX_BATCH):
        words += client.run(call(checked[first : first + MAX_BATCH]))
    return words


def _done(word: str, queue: str, job_id: str, place: str) -> None:
    if word == "elsewhere":
        raise WrongPlace(f"job {job_id} of queue {queue!r} is not {place}. Look where it is now.")
    if word == "unsound":
        raise JobGone(f"job {job_id} of queue {queue!r} had no sound row and was put into quarantine.")
    if word == "gone":
        raise JobGone(f"queue {queue!r} has no job {job_id}: it was completed, removed, or never enqueued.")


def requeue_all(
    queue: str, *, before: datetime | None = None, limit: int | None = None, using: str = conf.DEFAULT_ALIAS
) -> Moved:
    """Requeue the dead, the oldest first, up to a `limit`; those that died after `before` (default: now) are spared."""
    client, queue_keys = connection.client(using), keys.of(queue)
    cutoff = client.run(transitions.clock()) if before is None else _at_ms(before)
    done = quarantined = 0
    for chunk in _chunks_of(client, queue_keys, Location.DEAD, cutoff, limit):
        words = client.run(transitions.requeue(queue_keys, chunk, before_ms=cutoff))
        done += words.count("ok")
        quarantined += words.count("unsound")
    return Moved(done, quarantined)


def remove_all(
    queue: str,
    location: Location | str,
    *,
    before: datetime | None = None,
    limit: int | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> int:
    """Delete the jobs of a place, up to a `limit`; how many. `before` is held against the place's own time."""
    place = Location(location)
    if place is Location.ACTIVE:
        raise WrongPlace(f"the active jobs of queue {queue!r} are being run and cannot be removed.")
    client, queue_keys = connection.client(using), keys.of(queue)
    # Pending is scored by priority, not by time: there the number that was there at first is the bound.
    if place is Location.PENDING:
        if before is not None:
            raise ValueError(f"pending jobs of queue {queue!r} have no time of their own: leave before out.")
        there = client.run(transitions.counts(queue_keys)).pending
        limit = there if limit is None else min(limit, there)
    cutoff = None if before is None else _at_ms(before)
    return sum(
        client.run(transitions.remove(queue_keys, chunk)).count("ok")
        for chunk in _chunks_of(client, queue_keys, place, cutoff, limit)
    )


def _chunks_of(
    client: Client, queue_keys: keys.QueueKeys, place: Location, cutoff: int | None, limit: int | None
) -> Iterator[list[str]]:
    """Give the ids of a place, chunk by chunk, while whoever gets them moves them away."""
    left = limit
    former: list[str] = []
    while left is None or left > 0:
        size = MAX_BATCH if left is None else min(left, MAX_BATCH)
        chunk = client.run(transitions.before(queue_keys, place, cutoff_ms=cutoff, size=size))
        if not chunk or chunk == former:
            return  # the same again: nothing of it could be moved
        yield chunk
        former = chunk
        left = None if left is None else left - len(chunk)


def drain(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> int:
    """Delete all pending jobs; how many. Active, scheduled and dead ones stay, and so do lanes."""
    return remove_all(queue, Location.PENDING, using=using)


def pause(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Let nobody claim from the queue, until it is resumed. What is active goes on."""
    connection.client(using).run(transitions.pause(keys.of(queue)))


def resume(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Let the jobs of the queue be claimed again."""
    connection.client(using).run(transitions.resume(keys.of(queue)))
