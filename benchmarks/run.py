"""One run: a server of its own, the contestant's processes, and what is left of the machine when all have ended."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from echomq_django import embedded

from .contestant import Contestant
from .machine import Watch
from .marks import Marks, Tally

START = 30.0
"""Seconds in which a worker must have begun its first job."""
STUCK = 8.0
"""Seconds without a job after which a worker is wedged."""
STOP = 4.0
"""Seconds that a worker has to end in good order."""


class Failed(Exception):
    """Say that a run gave no figures, and why."""


class Run:
    """Hold the server, the marks and the processes of one run."""

    def __init__(self, contestant: Contestant, url: str, folder: Path) -> None:
        self.contestant, self.url, self._folder = contestant, url, folder
        self.marks = Marks(folder / "marks")
        self.client = redis.Redis.from_url(url)
        self._environment = contestant.environment(url, self.marks.path)
        self.workers: list[subprocess.Popen[bytes]] = []

    def drive(self, way: str, *numbers: float, patience: float = 90.0) -> dict[str, float]:
        """Enqueue in a process of its own, wait for it, and give what it printed."""
        return self.driven(self.start_drive(way, *numbers), patience)

    def start_drive(self, way: str, *numbers: float) -> "subprocess.Popen[bytes]":
        """Begin to enqueue in a process of its own."""
        command = self.contestant.drive(way, *numbers)
        with (self._folder / "drive.log").open("ab") as log:
            return subprocess.Popen(
                command, env=self._environment, cwd=self._folder, stdout=subprocess.PIPE, stderr=log
            )

    def driven(self, process: "subprocess.Popen[bytes]", patience: float = 90.0) -> dict[str, float]:
        """Wait for a producer, and give what it printed."""
        try:
            printed, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"the producer was killed after {patience:.0f} s") from None
        if process.returncode:
            raise Failed(f"the producer ended with {process.returncode}: {self.tail('drive.log')}")
        return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]

    def start_workers(self, number: int) -> None:
        """Start worker processes, each the leader of a group."""
        if self.contestant.setup and not (self._folder / "drive.log").exists():
            self.drive("setup", 0)
        command = self.contestant.worker(self.url)
        for _ in range(number):
            with (self._folder / "work.log").open("ab") as log:
                worker = subprocess.Popen(
                    command, env=self._environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
            self.workers.append(worker)

    def begin(self, processes: int) -> float:
        """Wait until the workers have a job each, and open the gate; the time since boot, s."""
        deadline = time.monotonic() + START
        while len(self.marks.tally().pids) < processes:
            if time.monotonic() > deadline:
                if self.marks.tally().pids:
                    break  # one took all there was: it is seen in the number of processes
                raise Failed(f"no job began in {START:.0f} s: {self.tail('work.log')}")
            self.check()
            time.sleep(0.005)
        self.marks.open_gate()
        return time.monotonic()

    def until(self, condition: Callable[[Tally], bool], seconds: float, patience: float = STUCK) -> Tally:
        """Wait until the tally is as wished, or the time is over; Failed when nothing moves for too long."""
        tally, moved, deadline = self.marks.tally(), time.monotonic(), time.monotonic() + seconds
        while not condition(tally) and time.monotonic() < deadline:
            time.sleep(0.01)
            self.check()
            latest = self.marks.tally()
            if latest.calls > tally.calls:
                moved = time.monotonic()
            elif time.monotonic() - moved > patience:
                raise Failed(f"wedged after {latest.calls} jobs, killed: {self.tail('work.log')}")
            tally = latest
        return tally

    def check(self) -> None:
        """See whether a worker has ended by itself."""
        for worker in self.workers:
            if worker.poll():
                raise Failed(f"a worker ended with {worker.returncode}: {self.tail('work.log')}")

    def tail(self, name: str) -> str:
        """Give the end of a log, on one line."""
        with suppress(FileNotFoundError):
            return " | ".join((self._folder / name).read_text(errors="replace").split("\n")[-6:])[-600:]
        return ""

    def stop(self) -> None:
        """End the workers, and what they started."""
        for worker in self.workers:
            worker.terminate()
        deadline = time.monotonic() + STOP
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(deadline - time.monotonic(), 0.01))
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        self.workers.clear()


@contextmanager
def running(contestant: Contestant, figures: dict[str, Any]) -> Iterator[Run]:
    """Give a run on a new server; at its end the figures are told how much others used of the machine."""
    watch = Watch()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        server = stack.enter_context(embedded.start(config={"appendonly": "no", "save": ""}))
        run = Run(contestant, server.url, folder)
        stack.callback(run.client.close)
        stack.callback(run.stop)
        yield run
    figures["foreign"] = watch.foreign()
