"""The rules of an enqueue, as the calls that it makes one after the other: for threads and event loops alike."""

import logging
import secrets
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from echomq_django import conf, ids, keys, retries, transitions
from echomq_django.call import Call
from echomq_django.conf import AliasConfig
from echomq_django.exceptions import EchoMQError, PayloadError
from echomq_django.payload import encode
from echomq_django.transitions import MAX_BATCH

from . import times
from .times import Seconds

T = TypeVar("T")
Calls: TypeAlias = Generator[Call[Any], Any, T]
"""Yields calls and is told their values."""

logger = logging.getLogger("echomq_django")

ENQUEUED, SCHEDULED, DUPLICATE = "enqueued", "scheduled", "duplicate"


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Hold the id of a job and what became of it: "enqueued", "scheduled", or "duplicate"."""

    id: str
    status: str


def one(queue: str, payload: Any, id: str | None, options: dict[str, Any], using: str) -> Calls[Enqueued]:
    """Store one job."""
    named = None if id is None else [id]
    [done] = yield from chunk(queue, [encoded(queue, payload)], named, options, using)
    return done


def many(queue: str, payloads: Iterable[Any], options: dict[str, Any], using: str) -> Calls[list[Enqueued]]:
    """Store many jobs, chunk by chunk."""
    bodies = [encoded(queue, each) for each in payloads]
    stored: list[Enqueued] = []
    for first in range(0, len(bodies), MAX_BATCH):
        try:
            stored += yield from chunk(queue, bodies[first : first + MAX_BATCH], None, options, using)
        except EchoMQError as error:
            error.add_note(f"{len(stored)} of {len(bodies)} jobs were stored in queue {queue!r} before this.")
            raise
    return stored


def encoded(queue: str, payload: Any) -> bytes:
    """Write a payload; the error names the queue."""
    try:
        return encode(payload)
    except PayloadError as error:
        raise PayloadError(f"a job for queue {queue!r} was not stored: {error}.") from None


def checked(
    delay: Seconds | None, at: datetime | None, priority: int, name: str, max_attempts: int | None
) -> dict[str, Any]:
    """Read the options that every enqueue takes, as the transition takes them."""
    if delay is not None and at is not None:
        raise ValueError("give a delay or a time, not both")
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise ValueError(f"priority is {priority!r}: use a whole number from -100 to 100; higher runs sooner")
    if max_attempts is not None and not retries.is_number_of_attempts(max_attempts):
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


def chunk(
    queue: str, bodies: Sequence[bytes], named: Sequence[str] | None, options: dict[str, Any], using: str
) -> Calls[list[Enqueued]]:
    """Store one chunk. A duplicate of an id that we minted is a collision: it is minted again."""
    queue_keys = keys.of(queue)
    job_ids = [ids.mint() for _ in bodies] if named is None else [ids.check_job(each) for each in named]
    words = yield _admission(queue_keys, job_ids, bodies, options)
    yield from _registering(conf.alias(using), queue)
    while named is None and DUPLICATE in words:
        again = [at for at, word in enumerate(words) if word == DUPLICATE]
        for at in again:
            job_ids[at] = ids.mint()
        verdicts = yield _admission(queue_keys, [job_ids[at] for at in again], [bodies[at] for at in again], options)
        for at, word in zip(again, verdicts, strict=True):
            words[at] = word
    return [Enqueued(job_id, word) for job_id, word in zip(job_ids, words, strict=True)]


def _admission(
    queue_keys: keys.QueueKeys, job_ids: Sequence[str], bodies: Sequence[bytes], options: dict[str, Any]
) -> Call[list[str]]:
    jobs = [value for job in zip(job_ids, bodies, strict=True) for value in job]
    return transitions.enqueue(queue_keys, jobs, receipt=secrets.token_hex(12), **options)


REGISTER_EVERY = 10.0
"""Seconds after which a queue is registered again: the server may have been emptied."""


_registered: dict[str, tuple[AliasConfig, dict[str, float]]] = {}


def _registering(config: AliasConfig, queue: str) -> Calls[None]:
    """Make the queue known to whoever lists queues, now and then."""
    known, registered = _registered.get(config.alias, (None, {}))
    if known is not config:  # the settings have changed, and perhaps the server
        registered = {}
        _registered[config.alias] = config, registered
    now = time.monotonic()
    if now - registered.get(queue, -REGISTER_EVERY) >= REGISTER_EVERY:
        registered[queue] = now
        try:
            yield transitions.register(queue)
        except EchoMQError as error:
            # The jobs are stored, and that is what was asked for.
            logger.warning("queue %r will not be listed for now: %s", queue, error)
