"""What people do to jobs and queues: requeue, revise, remove, run now, pause, drain."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from echomq_django import conf, connection, ids, keys, looks, transitions
from echomq_django.call import Call
from echomq_django.connection import Client
from echomq_django.exceptions import JobGone, PayloadError, WrongPlace
from echomq_django.job import Location
from echomq_django.looks import Span
from echomq_django.payload import encode
from echomq_django.transitions import MAX_BATCH

from . import times


@dataclass(frozen=True, slots=True)
class Moved:
    """Hold how many jobs an operation on many has moved, and how many broken ones it put aside."""

    done: int
    quarantined: int


def requeue(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Give a dead job a new life, with all its attempts; WrongPlace or JobGone when it is not dead.

    Its payload is the same, so its checkpoint stays for the next attempt, and so do its error records.
    """
    _done(requeue_many(queue, [id], using=using)[0], queue, id, "dead")


def revise(queue: str, id: str, payload: Any, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Give a dead job a new life with another payload; WrongPlace or JobGone when it is not dead.

    The checkpoint and the progress belonged to the old payload, and go with it. Everything else is as after requeue:
    the name, the log and the error records stay.
    """
    queue_keys, job_id = keys.of(queue), ids.check_job(id)
    try:
        body = encode(payload)
    except PayloadError as error:
        raise PayloadError(f"job {job_id} of queue {queue!r} was left as it is: {error}.") from None
    _done(connection.client(using).run(transitions.revise(queue_keys, job_id, body)), queue, job_id, "dead")


def remove(queue: str, id: str, *, location: Location | str | None = None, using: str = conf.DEFAULT_ALIAS) -> None:
    """Delete a job that nobody runs; WrongPlace when it is active, JobGone when there is none.

    With the `location` in which it was seen it is deleted from there only: WrongPlace when it has left it.
    """
    where = "pending, scheduled or dead" if location is None else f"in {location}"
    _done(remove_many(queue, [id], location=location, using=using)[0], queue, id, where)


def advance(queue: str, id: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Run a scheduled job now; WrongPlace or JobGone when it is not scheduled."""
    _done(advance_many(queue, [id], using=using)[0], queue, id, "scheduled")


def requeue_many(
    queue: str, job_ids: Sequence[str], *, before: datetime | None = None, using: str = conf.DEFAULT_ALIAS
) -> list[str]:
    """Requeue named jobs; a word for each: ok, elsewhere, gone, unsound. Those that died after `before` stay."""
    before_ms = None if before is None else times.at_ms(before)
    return _in_chunks(job_ids, lambda chunk: transitions.requeue(keys.of(queue), chunk, before_ms=before_ms), using)


def remove_many(
    queue: str,
    job_ids: Sequence[str],
    *,
    location: Location | str | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> list[str]:
    """Delete named jobs, with a `location` only those that are there; a word for each: ok, elsewhere, gone."""
    place = None if location is None else Location(location)
    return _in_chunks(job_ids, lambda chunk: transitions.remove(keys.of(queue), chunk, place=place), using)


def advance_many(queue: str, job_ids: Sequence[str], *, using: str = conf.DEFAULT_ALIAS) -> list[str]:
    """Run named scheduled jobs now; a word for each: ok, elsewhere, gone, unsound."""
    return _in_chunks(job_ids, lambda chunk: transitions.advance(keys.of(queue), chunk), using)


def _in_chunks(job_ids: Sequence[str], call: Callable[[Sequence[str]], Call[list[str]]], using: str) -> list[str]:
    checked = [ids.check_job(each) for each in job_ids]
    client = connection.client(using)
    words: list[str] = []
    for first in range(0, len(checked), MAX_BATCH):
        done: list[str] = client.run(call(checked[first : first + MAX_BATCH]))
        words += done
    return words


def _done(word: str, queue: str, job_id: str, place: str) -> None:
    if word == "elsewhere":
        raise WrongPlace(f"job {job_id} of queue {queue!r} is not {place}. Look where it is now.")
    if word == "unsound":
        raise JobGone(f"job {job_id} of queue {queue!r} had no sound row and was put into quarantine.")
    if word == "gone":
        raise JobGone(f"queue {queue!r} has no job {job_id}: it was completed, removed, or never enqueued.")


def requeue_all(
    queue: str,
    *,
    before: datetime | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> Moved:
    """Requeue the dead, the oldest first, up to a `limit`; those that died after `before` (default: now) stay.

    After that many `seconds` no more are moved than the 500 at hand: call again for the others.
    """
    client, queue_keys = connection.client(using), keys.of(queue)
    cutoff = client.run(looks.clock()) if before is None else times.at_ms(before)
    chunks = _chunks_of(client, queue_keys, Location.DEAD, cutoff, limit, seconds)
    return _moved(client.run(transitions.requeue(queue_keys, chunk, before_ms=cutoff)) for chunk in chunks)


def advance_all(
    queue: str,
    *,
    before: datetime | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> Moved:
    """Run scheduled jobs now, the soonest first, up to a `limit` and for so many `seconds`, as requeue_all.

    `before` is held against the time for which a job is scheduled, the only one that the schedule has: those that would
    run later stay. One that comes back to the schedule meanwhile is not advanced for ever: no more are moved than were
    there at first.
    """
    client, queue_keys = connection.client(using), keys.of(queue)
    cutoff = None if before is None else times.at_ms(before)
    there = client.run(looks.number(queue_keys, Location.SCHEDULE, Span(until_ms=cutoff)))
    limit = there if limit is None else min(limit, there)
    chunks = _chunks_of(client, queue_keys, Location.SCHEDULE, cutoff, limit, seconds)
    return _moved(client.run(transitions.advance(queue_keys, chunk)) for chunk in chunks)


def _moved(chunks: Iterable[list[str]]) -> Moved:
    """Count the words of what was moved chunk by chunk."""
    done = quarantined = 0
    for words in chunks:
        done += words.count("ok")
        quarantined += words.count("unsound")
    return Moved(done, quarantined)


def remove_all(
    queue: str,
    location: Location | str,
    *,
    before: datetime | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    using: str = conf.DEFAULT_ALIAS,
) -> int:
    """Delete the jobs of a place, up to a `limit` and for so many `seconds`, as requeue_all; how many.

    `before` is held against the place's own time.
    """
    place = Location(location)
    if place is Location.ACTIVE:
        raise WrongPlace(f"the active jobs of queue {queue!r} are being run and cannot be removed.")
    client, queue_keys = connection.client(using), keys.of(queue)
    # Pending is scored by priority, not by time: there the number that was there at first is the bound.
    if place is Location.PENDING:
        if before is not None:
            raise ValueError(f"pending jobs of queue {queue!r} have no time of their own: leave before out.")
        there = client.run(looks.counts(queue_keys)).pending
        limit = there if limit is None else min(limit, there)
    cutoff = None if before is None else times.at_ms(before)
    return sum(
        client.run(transitions.remove(queue_keys, chunk, place=place, before_ms=cutoff)).count("ok")
        for chunk in _chunks_of(client, queue_keys, place, cutoff, limit, seconds)
    )


def _chunks_of(
    client: Client,
    queue_keys: keys.QueueKeys,
    place: Location,
    cutoff: int | None,
    limit: int | None,
    seconds: float | None,
) -> Iterator[list[str]]:
    """Give the ids of a place, chunk by chunk, while whoever gets them moves them away; one chunk in any case."""
    left, began = limit, time.monotonic()
    former: list[str] = []
    while left is None or left > 0:
        size = MAX_BATCH if left is None else min(left, MAX_BATCH)
        chunk = client.run(looks.before(queue_keys, place, cutoff_ms=cutoff, size=size))
        if not chunk or chunk == former:
            return  # the same again: nothing of it could be moved
        yield chunk
        former = chunk
        left = None if left is None else left - len(chunk)
        if seconds is not None and time.monotonic() - began >= seconds:
            return


def drain(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> int:
    """Delete all pending jobs; how many. Active, scheduled and dead ones stay, and so do lanes."""
    return remove_all(queue, Location.PENDING, using=using)


def pause(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Let nobody claim from the queue, until it is resumed. What is active goes on."""
    connection.client(using).run(transitions.pause(keys.of(queue)))


def resume(queue: str, *, using: str = conf.DEFAULT_ALIAS) -> None:
    """Let the jobs of the queue be claimed again."""
    connection.client(using).run(transitions.resume(keys.of(queue)))
