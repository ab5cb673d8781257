"""Several worker processes under one: those that die are started again, those that are done are not.

Children are spawned, not forked: no lock, socket or database connection of this process reaches them.
"""

import logging
import multiprocessing
import os
import queue
import signal
import time
from dataclasses import replace
from multiprocessing.context import SpawnProcess

import django

from .options import Options
from .process import WORN_OUT, Process, end, exempt_the_project, leave, log_to_stderr, signals

logger = logging.getLogger("echomq_django.worker")

RESTART_PAUSE = 0.2
RESTART_PAUSE_MAX = 10.0
HEALTHY = 60.0
"""Seconds after which a process that dies did not die of its start: the next pause is a short one again."""


def child(options: Options) -> None:
    """Be a worker process that a supervisor has spawned."""
    # A signal to the whole group comes twice, once through the supervisor: one stop is enough, and it is the
    # supervisor that ends its children when it is asked a second time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    django.setup()
    log_to_stderr(options.verbosity)
    exempt_the_project()
    process = Process(options)
    with signals(process.stop, again=lambda number: None, numbers=(signal.SIGTERM,)):
        code = process.run()
    end(code, abandoned=process.abandoned)


class Supervisor:
    """Keep a number of worker processes running until stopped, or until all of them are done."""

    def __init__(self, options: Options, processes: int) -> None:
        self._options = replace(options, supervisor=os.getpid())
        self._context = multiprocessing.get_context("spawn")
        self._slots: list[SpawnProcess | None] = [None] * processes
        self._pauses = [0.0] * processes
        self._start_at = [0.0] * processes
        self._stops: queue.SimpleQueue[str] = queue.SimpleQueue()

    abandoned = False
    """Whether jobs still run in this process: none ever does."""

    def stop(self, why: str) -> None:
        """Ask all processes to finish; safe from any thread and from a signal handler."""
        self._stops.put(why)

    def abort(self, number: int) -> None:
        """End at once, and all processes with it, for a second signal: what runs is left to its lease."""
        for process in self._slots:
            if process is not None and process.pid is not None:
                process.kill()
        leave(number)

    def run(self) -> int:
        """Keep the processes running; the exit code: that of the first that ended with a failure of its own."""
        worst = 0
        open_slots = set(range(len(self._slots)))
        try:
            while open_slots:
                for slot in list(open_slots):
                    code = self._look(slot)
                    if code is not None and not self._goes_on(slot, code):
                        open_slots.discard(slot)
                        worst = worst or code
                try:
                    why = self._stops.get(timeout=0.1)
                except queue.Empty:
                    continue
                return self._finish(why)
        finally:
            self._end()
        return worst

    def _look(self, slot: int) -> int | None:
        """Start a slot's process when it is time, and tell its exit code once it has one."""
        process = self._slots[slot]
        if process is None:
            if time.monotonic() >= self._start_at[slot]:
                process = self._context.Process(target=child, args=(self._options,), name=f"echomq-worker-{slot}")
                process.start()
                self._slots[slot], self._start_at[slot] = process, time.monotonic()
            return None
        if process.exitcode is None:
            return None
        self._slots[slot] = None
        return process.exitcode

    def _goes_on(self, slot: int, code: int) -> bool:
        """Say whether a slot gets a new process: not when its work is done."""
        if code == 0 and (self._options.burst or self._options.max_idle_time is not None):
            return False
        lived = time.monotonic() - self._start_at[slot]
        if code == WORN_OUT:
            self._pauses[slot] = 0.0
        else:
            if lived > HEALTHY:
                self._pauses[slot] = 0.0
            ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            self._pauses[slot] = min(max(self._pauses[slot] * 2, RESTART_PAUSE), RESTART_PAUSE_MAX)
            logger.warning("worker process %d %s; starting another in %.1f s", slot, ended, self._pauses[slot])
        self._start_at[slot] = time.monotonic() + self._pauses[slot]
        return True

    def _finish(self, why: str) -> int:
        logger.info("stopping (%s): telling the worker processes", why)
        alive = [process for process in self._slots if process is not None and process.is_alive()]
        for process in alive:
            process.terminate()
        # A little longer than each of them allows itself.
        deadline = time.monotonic() + self._options.shutdown_timeout + 5.0
        for process in alive:
            process.join(max(deadline - time.monotonic(), 0.0))
        return 0

    def _end(self) -> None:
        for process in self._slots:
            if process is not None and process.is_alive():
                process.kill()
                process.join()
