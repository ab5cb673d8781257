"""One worker process: put the parts together, listen to signals, say how it ended."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from echomq_django import conf, ids
from echomq_django.reaper import Reaper

from .link import Link
from .options import Options
from .running import Running

logger = logging.getLogger("echomq_django.worker")

WORN_OUT = 75
"""The exit code that asks a supervisor for a successor. 75 is EX_TEMPFAIL of sysexits.h."""


def log_to_stderr(verbosity: int) -> None:
    """Print this package's log, unless the project's LOGGING says where it goes."""
    ours = logging.getLogger("echomq_django")
    if not ours.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(process)d %(message)s"))
        ours.addHandler(handler)
        ours.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))


def exempt_the_project() -> None:
    """Keep the garbage collector from what the project has loaded: it lives as long as this process.

    Each of the collector's full rounds would look at all of it again, a tenth of what empty jobs cost.
    """
    gc.freeze()


class Process:
    """Be one worker process, in this one."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._config = conf.alias(options.using)
        self._worker = ids.worker_name(options.worker_id)
        self._link = Link(options, self._config, self._worker, Running(self._config).run)

    def stop(self, why: str) -> None:
        """Ask it to finish; safe from any thread and from a signal handler."""
        self._link.stop(why)

    def abort(self, number: int) -> None:
        """End at once, for a second signal: what runs is left to its lease."""
        leave(number)

    @property
    def abandoned(self) -> bool:
        """Say whether it has ended while jobs still ran."""
        return self._link.abandoned

    def run(self) -> int:
        """Work until stopped; the exit code."""
        options = self._options
        logger.info("worker %s serves %s with %d threads", self._worker, ", ".join(options.queues), options.concurrency)
        reaper_stopped = threading.Event()
        reaper = threading.Thread(
            target=Reaper(lambda: options.queues, using=options.using).run, args=(reaper_stopped,), daemon=True
        )
        if options.reap:
            reaper.start()
        try:
            self._link.run()
        finally:
            reaper_stopped.set()
            if options.reap:
                reaper.join(1.0)
            logger.info("worker %s has ended (%s): %s", self._worker, self._link.why_stopped, self._link.tally)
        return WORN_OUT if self._link.worn_out and options.supervisor is not None else 0


def end(code: int, *, abandoned: bool) -> None:
    """Exit with a code; at once, when jobs still run that this process has given back.

    Python would wait for threads that a coroutine has started, and for as long run what is another worker's by now.
    """
    if abandoned:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    if code:
        raise SystemExit(code)


def leave(number: int) -> None:
    """End this process at once, with the exit code of a signal."""
    os._exit(128 + number)


@contextmanager
def signals(
    stop: Callable[[str], None],
    *,
    again: Callable[[int], None] = leave,
    numbers: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
) -> Iterator[None]:
    """Turn the first signal into a stop, and leave what each later one does to `again`.

    Outside the main thread Python takes no signal handlers: whoever started the thread stops it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            again(number)
        else:
            seen.append(number)
            stop(signal.Signals(number).name)

    former = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
