"""Workers that are asked to stop: what runs is finished or given back, and nothing is left to the lease."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from echomq_django import jobs
from tests.processes import QUEUE, Fleet, Program, make_fleet  # noqa: F401

BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
PROCESSES = pytest.mark.parametrize("processes", [1, 2])


def stopping(program: Program) -> bool:
    return "stopping (" in program.log


def test_a_worker_told_to_stop_finishes_what_runs_and_starts_nothing_more(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    worker = here.worker("--concurrency", 1)
    job = here.enqueue(["wait", "gate"])
    here.started(job)
    left = here.enqueue()
    worker.send(signal.SIGTERM)
    here.until(lambda: stopping(worker), "it has heard")
    here.open("gate")
    assert worker.wait() == 0
    assert [entry.mark for entry in here.ledger()] == ["start", "end"]
    assert (here.counts().completed, [job.id for job in jobs.page(QUEUE, "pending")]) == (1, [left])
    here.conserved(2)


@pytest.mark.slow
@BOTH
@PROCESSES
def test_a_job_that_outlasts_the_shutdown_is_given_back_at_once_and_has_lost_no_attempt(
    fleet: Callable[..., Fleet], number: signal.Signals, processes: int
) -> None:
    here = fleet(LEASE=600)
    worker = here.worker("--shutdown-timeout", 0.3, "--processes", processes)
    job = here.enqueue(["wait", "never"])
    here.started(job)
    worker.send(number)
    assert worker.wait() == 0
    here.nobody_is_left(worker)
    here.conserved(1)
    [claim] = jobs.claim(QUEUE)
    assert (claim.id, claim.token, claim.attempt) == (job, 2, 1)


@pytest.mark.slow
@BOTH
def test_a_second_signal_ends_a_worker_at_once(fleet: Callable[..., Fleet], number: signal.Signals) -> None:
    here = fleet(LEASE=600)
    worker = here.worker("--shutdown-timeout", 600)
    job = here.enqueue(["wait", "never"])
    here.started(job)
    worker.send(number)
    here.until(lambda: stopping(worker), "it has heard")
    worker.send(number)
    assert worker.wait() == 128 + number
    assert [job.id for job in jobs.page(QUEUE, "active")] == [job]


@pytest.mark.slow
def test_a_worker_that_is_the_first_process_of_a_container_stops_as_any_other(fleet: Callable[..., Fleet]) -> None:
    try:
        subprocess.run(["unshare", "-pf", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"unshare is refused: {getattr(error, 'stderr', b'') or error}")
    here = fleet()
    container = here.worker("--concurrency", 1, prefix=("unshare", "-pf"))
    job = here.enqueue(["wait", "gate"])
    here.started(job)
    left = here.enqueue()
    [worker] = container.children()
    assert {run.pid for run in here.ledger()} == {1}
    os.kill(worker, signal.SIGTERM)
    here.until(lambda: stopping(container), "it has heard")
    here.open("gate")
    assert container.wait() == 0
    assert [job.id for job in jobs.page(QUEUE, "pending")] == [left]
    here.conserved(2)


@pytest.mark.slow
@PROCESSES
def test_what_jobs_do_after_the_signal_is_stored(fleet: Callable[..., Fleet], processes: int) -> None:
    here = fleet(BACKOFF_BASE=3600)
    worker = here.worker("--processes", processes, "--concurrency", 2)
    here.ready(number=processes)
    fails, makes = here.enqueue(["wait", "gate"], ["fail"]), here.enqueue(["wait", "gate"], ["enqueue", 3])
    here.started(fails)
    here.started(makes)
    worker.send(signal.SIGTERM)
    here.until(lambda: worker.log.count("stopping (") == (1 if processes == 1 else 3), "all have heard")
    here.open("gate")
    assert worker.wait() == 0
    here.nobody_is_left(worker)
    counts = here.counts()
    assert (counts.completed, counts.pending, counts.schedule) == (1, 3, 1)
    [failed] = jobs.page(QUEUE, "schedule")
    assert (failed.id, failed.last_error) == (fails, "RuntimeError: told to fail")
    here.conserved(5)


@pytest.mark.slow
@BOTH
def test_a_second_signal_ends_a_supervisor_and_its_processes_at_once(
    fleet: Callable[..., Fleet], number: signal.Signals
) -> None:
    here = fleet(LEASE=600)
    worker = here.worker("--shutdown-timeout", 600, "--processes", 2)
    job = here.enqueue(["wait", "never"])
    here.started(job)
    worker.send(number)
    here.until(lambda: stopping(worker), "it has heard")
    worker.send(number)
    assert worker.wait() == 128 + number
    here.nobody_is_left(worker)
