"""Enqueue: one, many, or when a transaction commits."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from echomq_django import async_connection, conf, connection, ids, keys
from echomq_django.exceptions import EchoMQError
from echomq_django.steps import adrive, drive

from . import admitting
from .admitting import DUPLICATE, ENQUEUED, SCHEDULED, Enqueued
from .times import Seconds

__all__ = [
    "DUPLICATE",
    "ENQUEUED",
    "SCHEDULED",
    "Enqueued",
    "aenqueue",
    "aenqueue_many",
    "enqueue",
    "enqueue_many",
    "enqueue_on_commit",
]


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
    options = admitting.checked(delay, at, priority, name, max_attempts)
    return drive(admitting.one(queue, payload, id, options, using), connection.client(using).run)


async def aenqueue(
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
    """Store a job as enqueue does, without keeping the event loop waiting.

    When it is cancelled while it is sent, the job may exist; with an `id` of your own a second call is safe.
    """
    options = admitting.checked(delay, at, priority, name, max_attempts)
    return await adrive(admitting.one(queue, payload, id, options, using), async_connection.client(using).run)


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
    options = admitting.checked(delay, at, priority, name, max_attempts)
    return drive(admitting.many(queue, payloads, options, using), connection.client(using).run)


async def aenqueue_many(
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
    """Store many jobs as enqueue_many does, without keeping the event loop waiting."""
    options = admitting.checked(delay, at, priority, name, max_attempts)
    return await adrive(admitting.many(queue, payloads, options, using), async_connection.client(using).run)


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
    options = admitting.checked(delay, at, priority, name, max_attempts)
    keys.of(queue), conf.alias(using)  # what is wrong with these is better said now than from the commit
    body = admitting.encoded(queue, payload)
    job_id = ids.mint()
    transaction.on_commit(partial(_store_promised, queue, body, job_id, options, using), using=database)
    return job_id


def _store_promised(queue: str, body: bytes, job_id: str, options: dict[str, Any], using: str) -> None:
    """Store a job whose id was given away before the commit."""
    try:
        done = drive(admitting.one(queue, body, job_id, options, using), connection.client(using).run)
    except EchoMQError as error:
        error.add_note(f"Job {job_id} of queue {queue!r} was promised before the commit. Payload: {body[:1000]!r}")
        raise
    if done.status == DUPLICATE:
        raise EchoMQError(f"job {job_id} of queue {queue!r}: another process minted this id; enqueue it again.")
