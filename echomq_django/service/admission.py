"""Enqueue: one, many, or when a transaction commits."""

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from django.db import transaction

from echomq_django import conf, connection, ids, keys, transitions
from echomq_django.call import Call
from echomq_django.connection import Client
from echomq_django.exceptions import EchoMQError, PayloadError
from echomq_django.payload import encode
from echomq_django.transitions import MAX_BATCH

from . import times
from .times import Seconds

logger = logging.getLogger("echomq_django")

ENQUEUED, SCHEDULED, DUPLICATE = "enqueued", "scheduled", "duplicate"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Hold the id of a job and what became of it: "enqueued", "scheduled", or "duplicate"."""

    id: str
    status: str


def enqueue(
    queue: str,
    payload: Any,
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
    return _admit(queue, [_encoded(queue, payload)], None if id is None else [id], options, using)[0]


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
    payload: Any,
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
    body = _encoded(queue, payload)
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


def _encoded(queue: str, payload: Any) -> bytes:
    try:
        return encode(payload)
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
        "delay_ms": None if delay is None else times.delay_ms(delay),
        "at_ms": None if at is None else times.at_ms(at),
        "priority": priority,
        "name": name,
        "max_attempts": max_attempts,
    }


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
) -> Call[list[str]]:
    jobs = [value for job in zip(job_ids, bodies, strict=True) for value in job]
    return transitions.enqueue(queue_keys, jobs, receipt=secrets.token_hex(12), **options)
