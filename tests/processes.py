"""Worker and reaper processes of a test's own, on a server of its own, and what must be true when they are done."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from echomq_django import conf, connection, jobs, keys, looks
from echomq_django.embedded import PrivateServer
from tests.server import dump

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
QUEUE = "q"
PATIENCE = 60.0
"""Seconds for what takes one on an idle machine."""


@dataclass(frozen=True)
class Entry:
    """Hold a line of the ledger."""

    id: str
    attempt: int
    token: int
    pid: int
    mark: str


class Program:
    """Be a management command that runs in a process group of its own."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                arguments, cwd=folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """Give the lines of the log that are no news of normal life."""
        return [line for line in self.log.splitlines() if " INFO " not in line and " DEBUG " not in line]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float = PATIENCE) -> int:
        """Give the exit code. A process that was killed by a signal has a negative one."""
        return self._process.wait(seconds)

    def terminate(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def group(self) -> list[int]:
        """List the processes that live in its group: it, its children and theirs."""
        pids = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended while we looked
                state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.pid and state != "Z":
                    pids.append(int(stat.parent.name))
        return pids

    def children(self) -> list[int]:
        """List the worker processes of a supervisor or reloader."""
        pids = []
        for pid in self.group():
            with suppress(OSError):
                if pid != self.pid and "resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_text():
                    pids.append(pid)
        return pids

    def end(self) -> None:
        """Leave nobody behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


class Fleet:
    """Start processes on one server and read what they did."""

    def __init__(self, server: PrivateServer, folder: Path, queues: dict[str, dict[str, Any]]) -> None:
        self.server, self.folder = server, folder
        self.programs: list[Program] = []
        self.queues = {name: {"HANDLER": "tests.chaos_handlers.handle", **given} for name, given in queues.items()}

    @cached_property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.server.url, protocol=2)

    def echomq(self, url: str = "") -> dict[str, Any]:
        return {"default": {"LOCATION": url or self.server.url, "QUEUES": self.queues}}

    # Processes.

    def program(self, *arguments: object, url: str = "", clock: float = 0, prefix: tuple[str, ...] = ()) -> Program:
        """Start a management command; it ends with the test at the latest."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT)]),
            "PYTHONWARNINGS": "error",
            "DJANGO_SETTINGS_MODULE": "tests.chaos_settings",
            "CHAOS_ECHOMQ": json.dumps(self.echomq(url)),
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_CLOCK": str(clock),
            "CHAOS_PARENT": str(os.getpid()),
        }
        command = [*prefix, sys.executable, "-m", "django", *map(str, arguments)]
        log = self.folder / f"{len(self.programs)}.log"
        self.programs.append(Program(command, self.folder, environment, log))
        return self.programs[-1]

    def worker(self, *arguments: object, **how: Any) -> Program:
        return self.program("echomq_worker", *arguments, **how)

    def reaper(self, *arguments: object, **how: Any) -> Program:
        return self.program("echomq_reap", *arguments, **how)

    def ready(self, *workers: Program, number: int | None = None) -> None:
        """Wait until workers have reached the server, or so many have as are asked for."""

        def registered() -> bool:
            pids = [int(name.split(b":")[1]) for name in self.client.zrange(keys.WORKERS, 0, -1)]
            return {worker.pid for worker in workers} <= set(pids) and len(pids) >= (number or 0)

        self.until(registered, "the workers are ready")

    def nobody_is_left(self, program: Program) -> None:
        """Wait until the last process of a program's group has ended; some of Python's own outlive it for a moment."""
        self.until(lambda: not program.group(), "nobody is left")

    def end(self) -> None:
        for program in self.programs:
            program.end()
        self.client.close()

    # Jobs.

    def enqueue(self, *do: list[Any], first: tuple[list[Any], ...] = (), queue: str = QUEUE, **options: Any) -> str:
        return jobs.enqueue(queue, {"first": list(first), "do": list(do)}, **options).id

    def enqueue_many(self, number: int, *do: list[Any], queue: str = QUEUE, **options: Any) -> list[str]:
        return [each.id for each in jobs.enqueue_many(queue, [{"do": list(do)}] * number, **options)]

    def orphans(self, number: int, *, queue: str = QUEUE, lease: float = 0.1) -> list[str]:
        """Make jobs whose worker has gone."""
        self.enqueue_many(number, queue=queue)
        return [each.id for _ in range(0, number, 500) for each in jobs.claim(queue, min(number, 500), lease)]

    def open(self, gate: str) -> None:
        """Let the handlers go on that wait for a gate."""
        (self.folder / gate).touch()

    def ledger(self, mark: str = "", job: str = "") -> list[Entry]:
        """Read what the handlers wrote, so far."""
        path = self.folder / "ledger"
        entries = []
        for line in path.read_text().splitlines() if path.exists() else []:
            name, attempt, token, pid, what = line.split()
            if mark in ("", what) and job in ("", name):
                entries.append(Entry(name, int(attempt), int(token), int(pid), what))
        return entries

    def runs(self) -> Counter[str]:
        """Count how often each job was started."""
        return Counter(entry.id for entry in self.ledger("start"))

    def started(self, job: str, times: int = 1) -> None:
        self.until(lambda: self.runs()[job] >= times, f"{job} is started {times} times")

    def counts(self, queue: str = QUEUE) -> looks.Counts:
        return jobs.counts(queue)

    def done(self, number: int, queue: str = QUEUE, seconds: float = PATIENCE) -> None:
        """Wait until so many jobs are completed."""
        self.until(lambda: self.counts(queue).completed >= number, f"{number} jobs are completed", seconds)

    # Waiting and judging.

    def until(self, condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
        """Wait until something is true."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {program._log.name}\n{program.log[-2000:]}" for program in self.programs)
                raise AssertionError(f"in vain: {what}. Runs: {self.runs().most_common(5)}\n{logs}")
            time.sleep(0.03)
        return value

    def world(self, queue: str = QUEUE) -> dict[str, tuple[Any, ...]]:
        """Read the queue's keys without those that come and go by themselves: receipts, and tokens in `wake`."""
        names = keys.of(queue)
        for receipt in self.client.scan_iter(names.receipt_root + "*", count=1000):
            self.client.delete(receipt)
        root = names.pending.removesuffix("pending")
        return {key: value for key, value in dump(self.client).items() if key.startswith(root) and key != names.wake}

    def conserved(self, stored: int, queue: str = QUEUE) -> None:
        """Check that no job was lost: each is in one place, or completed, and nothing else is under the prefix.

        What is kept of completed jobs goes away by itself.
        """
        names = keys.of(queue)
        world = self.world(queue)
        counters = {name: world.pop(name, ("", {}, False))[1] for name in (names.completed, names.failed)}
        completed = int(counters[names.completed].get("count", 0))
        listed = world.pop(names.recent, ("", [], False))[1]
        assert len(listed) == min(completed, conf.alias().queue(queue).keep_completed)
        results = {key for key, (_, _, expires) in world.items() if key.startswith(names.result_root) and expires}
        minutes = {
            key: value for key, (_, value, expires) in world.items() if key.startswith(names.minute_root) and expires
        }
        assert sum(int(minute.get("completed", 0)) for minute in minutes.values()) == completed
        states = {names.pending: "pending", names.schedule: "scheduled", names.dead: "dead"}
        placed = [(job, state) for place, state in states.items() for job, _ in world.pop(place, ("", [], False))[1]]
        rows = {
            key.removeprefix(names.job_root): value[1]["state"]
            for key, value in world.items()
            if key.startswith(names.job_root) and not key.endswith((":errors", ":logs"))
        }
        assert sorted(placed) == sorted(rows.items())
        parts = {name(job) for job in rows for name in (names.row, names.errors, names.logs)}
        assert set(world) - parts - results - minutes.keys() - {names.meta} == set()
        assert completed + len(placed) == stored


@pytest.fixture(name="fleet")
def make_fleet(
    private_server: Callable[..., PrivateServer], tmp_path: Path, settings: Any
) -> Iterator[Callable[..., Fleet]]:
    """Give a function that starts a server of the test's own, points the library at it, and starts processes."""
    fleets: list[Fleet] = []

    def start(
        *, queues: dict[str, dict[str, Any]] | None = None, server: dict[str, str] | None = None, **queue: Any
    ) -> Fleet:
        """Serve `queues`, or the queue "q" with these settings; `server` is the server's own configuration."""
        fleet = Fleet(private_server(config=server), tmp_path, queues or {QUEUE: queue})
        fleets.append(fleet)
        settings.ECHOMQ = fleet.echomq()
        return fleet

    yield start
    for fleet in fleets:
        fleet.end()
        connection.client().close()


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process as a pause of its machine would, and let it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def reaps_at_once(client: redis.Redis, queue: str = QUEUE) -> None:
    """Do as if a lease had passed since the first reap on this server."""
    jobs.reap(queue)
    client.hset(keys.of(queue).meta, "reap_after", 0)
