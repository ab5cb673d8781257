"""The threads in which jobs run, and the loop for those that are coroutines.

A thread owns its database connections, and gives them up when it idles.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from django.db import close_old_connections, connections

from . import databases
from .held import HeldJob
from .loop import Loop
from .outcome import Outcome
from .runner import failed

logger = logging.getLogger("echomq_django.worker")

Run = Callable[[HeldJob], Outcome | Coroutine[Any, Any, Outcome]]
Report = Callable[[HeldJob, Outcome, float], None]


class Pool:
    """Run jobs in a fixed number of threads, in the order in which they come.

    A coroutine runs on the loop, and takes the place of the thread that began it: there are never more jobs under way
    than threads, whatever is fetched ahead.
    """

    def __init__(self, size: int, run: Run, report: Report) -> None:
        self._run = run
        self._report = report
        self._loop = Loop()
        self._ready: queue.SimpleQueue[HeldJob | None] = queue.SimpleQueue()
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._places.put(None)
        self._threads = [
            # Daemons: a handler that outlasts the shutdown's timeout must not hold the process.
            threading.Thread(target=self._work, name=f"echomq-job-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, jobs: Iterable[HeldJob]) -> None:
        """Line up jobs; each will be reported once."""
        for job in jobs:
            self._ready.put(job)

    def take_back(self) -> list[HeldJob]:
        """Give back the jobs that no thread has begun."""
        taken: list[HeldJob] = []
        while True:
            try:
                job = self._ready.get_nowait()
            except queue.Empty:
                return taken
            if job is not None:
                taken.append(job)

    def close(self) -> None:
        """Let each thread end after the job that it runs."""
        for _ in self._threads:
            self._ready.put(None)

    def cancel(self, timeout: float) -> None:
        """Cancel the coroutines that still run, and let them clean up for `timeout` seconds."""
        self._loop.close(timeout)

    def join(self, timeout: float) -> None:
        """Wait until the threads have ended, `timeout` seconds in all. Coroutines that still run are cancelled."""
        deadline = time.monotonic() + timeout
        self.cancel(timeout)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def _work(self) -> None:
        databases.own_thread()
        has_place = False
        while True:
            if not has_place:
                self._places.get()
                has_place = True
            try:
                job = self._ready.get(timeout=_until_stale())
            except queue.Empty:
                _close_old()
                continue
            if job is None:
                connections.close_all()
                return
            has_place = self._one(job)

    def _one(self, job: HeldJob) -> bool:
        """Run a job, or hand it to the loop with this thread's place; whether the place is still ours."""
        began, started = time.monotonic(), time.time()
        try:
            # A context of its own: a language that a job activates is not that of the next one.
            outcome = copy_context().run(self._run, job)
            if isinstance(outcome, Coroutine):
                self._loop.run(self._await(job, outcome, began, started))
                return False
        except BaseException as error:
            # KeyboardInterrupt is a handler's own doing here: a real one goes to the main thread.
            outcome = failed(job, started, error)
        self._report(job, outcome, time.monotonic() - began)
        return True

    async def _await(self, job: HeldJob, coroutine: Coroutine[Any, Any, Outcome], began: float, started: float) -> None:
        try:
            outcome = await coroutine
        except BaseException as error:
            outcome = failed(job, started, error)
        self._report(job, outcome, time.monotonic() - began)
        self._places.put(None)


def _close_old() -> None:
    try:
        close_old_connections()
    except Exception:
        # A thread that ended would be missing without a word, and its jobs would never start.
        logger.exception("idle database connections could not be closed")
        for alias in list(connections):
            with suppress(AttributeError):
                del connections[alias]


def _until_stale() -> float | None:
    """Give the seconds until a database connection of this thread is past its CONN_MAX_AGE; None when none is open."""
    ends = [
        each.close_at
        for each in connections.all(initialized_only=True)
        if each.connection is not None and each.close_at is not None
    ]
    return max(min(ends) - time.monotonic(), 0) + 0.01 if ends else None
