"""Run one job and say how it ended. Knows no server: what becomes of the Outcome is the link's business."""

import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections, reset_queries
from django.utils.module_loading import import_string

from echomq_django import failure, payload, retries
from echomq_django.exceptions import PayloadError
from echomq_django.job import ErrorRecord

from .held import HeldJob

logger = logging.getLogger("echomq_django.worker")


@dataclass(frozen=True, slots=True)
class Complete:
    """Say that the work is done."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Say that the attempt failed, and how. `bury` asks for dead at once: trying again cannot help."""

    error: ErrorRecord
    bury: bool = False


@dataclass(frozen=True, slots=True)
class Defer:
    """Say that this worker does not know how to run the job, and when to look again (seconds)."""

    reason: str
    delay: float


@dataclass(frozen=True, slots=True)
class Release:
    """Say that the job was not started and can go back."""


IDLE = 0.1
"""Seconds after which a thread asks its database connections whether they live; while it is busy that would cost
a query a job, and a job that meets a dead one is retried."""

_thread = threading.local()

Outcome = Complete | Fail | Defer | Release
Handler = Callable[[HeldJob], Any]


def run(job: HeldJob, handler_path: str, budget: int) -> Outcome:
    """Run a job in this thread. Everything that the handler raises becomes an Outcome, but KeyboardInterrupt.

    `budget` is how many claims of the job may count before it is buried unrun: a reaper that does not count
    crashes (EchoMQ's) would hand a job that kills its worker around for ever.
    """
    started = time.time()
    if job.lapsed:
        return Release()
    if job.attempt > budget:
        text = f"claimed {job.attempt} times without an end: it seems to kill its worker"
        return Fail(_record(job, started, "crashed", text, ""), bury=True)
    try:
        handler: Handler = import_string(handler_path)
    except Exception as error:
        return _unknown(job, started, handler_path, error)
    with_transaction = _clean_before()
    try:
        result = handler(job)
        if inspect.isawaitable(result):
            # Not asyncio.run(): what a coroutine does through Django's ORM shall happen in this thread.
            async_to_sync(_finish)(result)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failed(job, started, error)
    else:
        return Complete()
    finally:
        try:
            _clean_after(with_transaction)
        except Exception:
            # The job has ended as it ended; what is wrong with the connection, the next job is told.
            logger.exception("the database connections could not be cleaned after %r", job)


async def _finish(result: Awaitable[Any]) -> None:
    await result


def failed(job: HeldJob, started: float, error: BaseException) -> Fail:
    """Describe a failed attempt. An undecodable payload will be no better the next time."""
    undecodable = isinstance(error, PayloadError) and _is_undecodable(job)
    return Fail(
        _record(job, started, failure.kind(error), failure.message(error), failure.trace(error)), bury=undecodable
    )


def _is_undecodable(job: HeldJob) -> bool:
    # The handler may have raised a PayloadError of another job that it tried to enqueue.
    try:
        payload.decode(job.payload)
    except PayloadError:
        return True
    return False


def _unknown(job: HeldJob, started: float, handler_path: str, error: Exception) -> Outcome:
    """Put off a job whose handler cannot be imported here: during a deploy old workers meet new jobs."""
    age = (job.claim.deferred_ms or 0) / 1000
    reason = f"handler {handler_path!r} cannot be imported: {failure.message(error)}"
    if age >= retries.DEFER_LIMIT:
        return Fail(_record(job, started, "unknown", reason, failure.trace(error)), bury=True)
    return Defer(reason, retries.deferral(age))


def _record(job: HeldJob, started: float, kind: str, message: str, trace: str) -> ErrorRecord:
    return ErrorRecord(
        error=kind,
        message=message,
        traceback=trace,
        attempt=job.attempt,
        worker=job.claim.owner.rpartition(":")[0],
        started_at=int(started * 1000),
        finished_at=int(time.time() * 1000),
    )


def _clean_before() -> frozenset[str]:
    """Give up connections that died while idle; the aliases that are inside a transaction of the caller's."""
    reset_queries()
    idled = time.monotonic() - getattr(_thread, "last_job", 0.0)
    if idled > IDLE:
        _close_dead()
    _close_stale()
    return frozenset(each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block)


def _clean_after(with_transaction: frozenset[str]) -> None:
    """Leave the next job of this thread a clean database connection."""
    for each in connections.all(initialized_only=True):
        if each.in_atomic_block and each.alias not in with_transaction:
            logger.warning("a job left a transaction open on database %r: it is rolled back", each.alias)
            each.close()
            del connections[each.alias]
    _close_stale()
    reset_queries()
    _thread.last_job = time.monotonic()


def _close_dead() -> None:
    """Ask connections that may live on whether they still do, whether or not CONN_HEALTH_CHECKS is on."""
    for each in connections.all(initialized_only=True):
        if each.connection is not None and not each.in_atomic_block and not each.is_usable():
            each.close()


def _close_stale() -> None:
    # Not close_old_connections(): inside a transaction SQLite has its autocommit off, which looks like a stale one.
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()
