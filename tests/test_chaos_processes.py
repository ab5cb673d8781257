"""Supervisors: they keep so many processes, replace those that are worn out, and leave none behind."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.processes import Fleet, frozen, make_fleet  # noqa: F401

PROCESSES = pytest.mark.parametrize("processes", [1, 2])


@pytest.mark.slow
def test_a_supervisor_told_to_stop_lets_each_process_finish_its_job(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    supervisor = here.worker("--processes", 2, "--concurrency", 1)
    for job in here.enqueue_many(2, ["wait", "gate"]):
        here.started(job)
    assert {run.pid for run in here.ledger()} == set(supervisor.children())
    left = here.enqueue()
    supervisor.send(signal.SIGTERM)
    here.until(lambda: supervisor.log.count("stopping (") == 3, "all have heard")
    here.open("gate")
    assert supervisor.wait() == 0
    here.nobody_is_left(supervisor)
    assert (here.counts().completed, here.counts().pending, here.runs()[left]) == (2, 1, 0)
    here.conserved(3)


@pytest.mark.slow
def test_the_processes_of_a_killed_supervisor_finish_their_jobs_and_end(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    supervisor = here.worker("--processes", 2, "--concurrency", 1)
    for job in here.enqueue_many(2, ["wait", "gate"]):
        here.started(job)
    supervisor.kill()
    here.until(lambda: supervisor.log.count("its supervisor has gone") == 2, "both have noticed")
    left = here.enqueue()
    here.open("gate")
    here.nobody_is_left(supervisor)
    assert (here.counts().completed, here.counts().pending, here.runs()[left]) == (2, 1, 0)
    here.conserved(3)


@pytest.mark.slow
def test_a_supervisor_replaces_a_process_that_was_killed(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=1)
    supervisor = here.worker("--processes", 2)
    here.ready(number=2)
    first = set(supervisor.children())
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    here.until(lambda: len(set(supervisor.children()) - first) == 2, "there are two new ones")
    here.ready(number=4)
    here.enqueue()
    here.done(1)
    assert sorted(line.partition("worker process")[2] for line in supervisor.complaints) == [
        " 0 was killed by SIGKILL; starting another in 0.2 s",
        " 1 was killed by SIGKILL; starting another in 0.2 s",
    ]
    assert supervisor.terminate() == 0
    here.nobody_is_left(supervisor)


@pytest.mark.slow
def test_a_process_is_replaced_after_max_jobs(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    ids = here.enqueue_many(20)
    supervisor = here.worker("--processes", 2, "--max-jobs", 6)
    here.done(20)
    assert supervisor.terminate() == 0
    runs = here.ledger("start")
    assert sorted(run.id for run in runs) == sorted(ids)
    assert max(Counter(run.pid for run in runs).values()) == 6
    assert supervisor.complaints == []
    here.conserved(20)


def test_a_worker_without_a_supervisor_ends_after_max_jobs(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    here.enqueue_many(8)
    assert here.worker("--max-jobs", 5).wait() == 0
    assert (here.counts().completed, here.counts().pending) == (5, 3)
    here.conserved(8)


@pytest.mark.slow
def test_a_process_that_holds_too_much_memory_is_replaced(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    supervisor = here.worker("--processes", 2, "--max-memory", 300, "--concurrency", 1)
    here.enqueue(["eat", 400], ["wait", "gate"])
    here.until(lambda: "it holds more than 300 MB" in supervisor.log, "it is too big")
    [greedy] = {run.pid for run in here.ledger()}
    here.open("gate")
    here.done(1)
    here.until(lambda: greedy not in supervisor.children(), "it has ended")
    here.ready(number=2)  # it says farewell, so these are the other one and the next one
    assert len(supervisor.children()) == 2
    assert supervisor.terminate() == 0
    assert supervisor.complaints == []
    here.conserved(1)


@pytest.mark.slow
@PROCESSES
def test_a_worker_ends_well_after_max_idle_time_and_not_while_a_job_runs(
    fleet: Callable[..., Fleet], processes: int
) -> None:
    here = fleet()
    here.enqueue(["sleep", 3])
    worker = here.worker("--max-idle-time", 1, "--processes", processes)
    assert worker.wait() == 0
    here.nobody_is_left(worker)
    assert "idle for 1 s" in worker.log
    here.conserved(1)
    assert here.counts().completed == 1


@pytest.mark.slow
@PROCESSES
def test_a_burst_ends_well_when_all_is_done_retries_included(fleet: Callable[..., Fleet], processes: int) -> None:
    here = fleet(BACKOFF_BASE=1, MAX_ATTEMPTS=2)
    here.enqueue_many(20)
    here.enqueue(["fail"])
    here.enqueue(delay=1)
    later = here.enqueue(delay=3600)
    worker = here.worker("--burst", "--processes", processes)
    assert worker.wait() == 0
    here.nobody_is_left(worker)
    counts = here.counts()
    assert (counts.completed, counts.dead, counts.schedule, counts.pending) == (21, 1, 1, 0)
    assert here.runs()[later] == 0
    here.conserved(23)


@pytest.mark.slow
def test_the_heartbeat_file_is_touched_while_the_server_answers_and_only_then(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    file = here.folder / "alive"
    worker = here.worker("--heartbeat-file", file)
    here.until(file.exists, "it is there")
    first = file.stat().st_mtime_ns
    here.until(lambda: file.stat().st_mtime_ns > first, "it is touched again")
    with frozen(here.server.pid):
        here.until(lambda: "the server is away" in worker.log, "the worker has noticed")
        last = file.stat().st_mtime_ns
        time.sleep(2)
        assert file.stat().st_mtime_ns == last
    here.until(lambda: file.stat().st_mtime_ns > last, "it is touched again")
    assert worker.terminate() == 0
