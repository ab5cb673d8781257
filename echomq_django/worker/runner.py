"""Run one job and say how it ended. Knows no server: what becomes of the Outcome is the link's business."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

from asgiref.sync import sync_to_async

from echomq_django.exceptions import TaskTimeout
from echomq_django.job import CRASHED

from . import databases
from .deadline import Deadline
from .held import HeldJob
from .outcome import Fail, NotRun, Outcome, Release
from .work import Prepare, Work, entry, record

logger = logging.getLogger("echomq_django.worker")

_NOBODY: frozenset[str] = frozenset()


def run(job: HeldJob, prepare: Prepare, max_crashes: int) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Run a job in this thread; a coroutine, to be awaited on a loop, when that is what the job's code is.

    Everything that the code raises becomes an Outcome, but KeyboardInterrupt.
    """
    work = begin(job, prepare, max_crashes)
    if isinstance(work, NotRun):
        return work
    of_others = _NOBODY if databases.are_clean() else databases.before()
    try:
        ended = attempt(work)
    finally:
        databases.after(job, of_others)
    return _clean(job, ended) if inspect.iscoroutine(ended) else ended


def begin(job: HeldJob, prepare: Prepare, max_crashes: int) -> Work | NotRun:
    """Look whether a job is to be run.

    One whose claims exceed all its attempts and `max_crashes` is buried unrun: a reaper that does not count crashes
    (EchoMQ's) would hand a job that kills its worker around for ever.
    """
    if job.lapsed:
        return Release()
    work = prepare(job)
    if not isinstance(work, NotRun) and job.attempt > work.maximum + max_crashes:
        text = f"claimed {job.attempt} times without an end: it seems to kill its worker"
        return Fail(entry(job, time.time(), CRASHED, text, ""), bury=True)
    return work


def attempt(work: Work) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Carry out an attempt, whatever the state of this thread's database connections; else as run."""
    try:
        if work.timeout is None:
            value = work.start()
        else:
            with Deadline(work.timeout):
                value = work.start()
        if value is not None and inspect.isawaitable(value):
            return _await(work, value)
        outcome: Outcome = work.done(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if work.timeout is not None and isinstance(error, TaskTimeout) and not error.args:
            error.args = (_too_long(work),)
        outcome = work.failed(error)
        work.tell()
    else:
        work.tell()
    return outcome


async def _await(work: Work, value: Awaitable[Any]) -> Outcome:
    """Await what a job's code gave."""
    try:
        async with asyncio.timeout(work.timeout) as limit:
            result = await value
        outcome: Outcome = work.done(result)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        late = isinstance(error, TimeoutError) and limit.expired()
        outcome = work.failed(_timed_out(work, error) if late else error)
        await work.atell()
    else:
        await work.atell()
    return outcome


async def _clean(job: HeldJob, ended: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Await an attempt. Its database connections are in the thread that Django gives coroutines.

    To go there and back costs more than all else; most coroutines never do.
    """
    # Other jobs may be at work in that thread.
    of_others = await sync_to_async(databases.before)() if databases.are_elsewhere() else _NOBODY
    try:
        return await ended
    finally:
        if databases.are_elsewhere():
            await sync_to_async(databases.after)(job, of_others)


def _too_long(work: Work) -> str:
    return f"it ran longer than its timeout of {work.timeout:g} s"


def _timed_out(work: Work, error: BaseException) -> TaskTimeout:
    late = TaskTimeout(_too_long(work))
    late.__cause__ = error
    return late


def failed(job: HeldJob, started: float, error: BaseException) -> Fail:
    """Describe an attempt that failed outside of what run guards."""
    return Fail(record(job, started, error))
