"""The handler of the worker's tests, what it did, and workers in threads of the test's own process."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import pytest

from echomq_django.worker.held import HeldJob
from echomq_django.worker.options import Options
from echomq_django.worker.process import Process

ON_JOB = "tests.handlers.on_job"
PATIENCE = 20.0
"""Seconds after which a condition that was waited for is a failure."""


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait for a condition to hold and give its value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s in vain {what}")
        time.sleep(0.005)
    return value


class Ledger:
    """Know each run of a handler, in the order in which they began, and what it is to do."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.do: Callable[[HeldJob], Any] = lambda job: None
        self.runs: list[HeldJob] = []
        self.ended: list[HeldJob] = []

    def run(self, job: HeldJob) -> Any:
        self.runs.append(job)
        try:
            return self.do(job)
        finally:
            self.ended.append(job)

    @property
    def ids(self) -> list[str]:
        return [job.id for job in self.runs]

    @property
    def running(self) -> int:
        return len(self.runs) - len(self.ended)


ledger = Ledger()


def on_job(job: HeldJob) -> Any:
    return ledger.run(job)


not_a_handler = "a text"


class Worker:
    """Be a worker process, but for the process."""

    def __init__(self, **options: Any) -> None:
        defaults: dict[str, Any] = {"queues": ("default",), "concurrency": 2, "reap": False, "shutdown_timeout": 10.0}
        self.process = Process(Options(**{**defaults, **options}))
        self.link = self.process._link
        self.code: int | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.code = self.process.run()
        except BaseException as error:
            self.error = error

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.process.stop("the test wants it")

    def join(self) -> int | None:
        """Wait for its end; its exit code."""
        self._thread.join(PATIENCE)
        assert self.has_ended, "the worker does not end"
        if self.error is not None:
            raise self.error
        return self.code


class Bench:
    """Set the queues up, and start workers that end with the test."""

    def __init__(self, settings: Any, url: str) -> None:
        self._settings, self._workers = settings, list[Worker]()
        self.at(url)
        ledger.clear()

    def at(self, url: str, timeout: float = 2.0, **queues: dict[str, Any]) -> None:
        """Point "default" at a server. Queues "default" and "mail" have a handler; a lease is 30 s unless given."""
        given = {"default": {}, "mail": {}, **queues}
        self._url = url
        self._settings.ECHOMQ = {
            "default": {
                "LOCATION": url,
                "OPTIONS": {"socket_timeout": timeout},
                "QUEUES": {name: {"HANDLER": ON_JOB, "LEASE": 30, **one} for name, one in given.items()},
            }
        }

    def queues(self, **queues: dict[str, Any]) -> None:
        self.at(self._url, **queues)

    def worker(self, **options: Any) -> Worker:
        self._workers.append(Worker(**options))
        return self._workers[-1]

    def burst(self, **options: Any) -> Worker:
        """Run a worker until nothing is left to do."""
        worker = self.worker(burst=True, **options)
        worker.join()
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker._thread.join(PATIENCE)
            assert worker.has_ended, "the worker does not end"


class Gate:
    """Hold handlers back until it is opened. As a handler: `ledger.do = gate.wait`."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def wait(self, job: HeldJob | None = None) -> None:
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()


def told(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """List what was logged, from a level up."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]
