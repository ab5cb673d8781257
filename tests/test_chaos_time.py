"""Jobs whose time comes: once, not before, and by the server's clock."""

import time
from collections.abc import Callable
from unittest import mock

import pytest

from tests.processes import Fleet, make_fleet, reaps_at_once  # noqa: F401


@pytest.mark.slow
def test_a_delay_longer_than_the_lease_ends_in_one_run(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=1)
    workers = [here.worker() for _ in range(3)]
    here.ready(*workers)
    began = time.monotonic()
    job = here.enqueue(delay=4)
    here.started(job)
    assert time.monotonic() - began >= 4
    here.done(1)
    assert {worker.terminate() for worker in workers} == {0}
    assert [(run.id, run.token) for run in here.ledger("start")] == [(job, 1)]
    here.conserved(1)


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True], ids=["all the time", "since after the enqueue"])
def test_a_due_job_is_started_by_an_idle_worker_without_any_other_traffic(
    fleet: Callable[..., Fleet], restarted: bool
) -> None:
    here = fleet()
    worker = here.worker("--no-reap")
    here.ready(worker)
    job = here.enqueue(delay=3)
    if restarted:
        worker.kill()
        worker = here.worker("--no-reap")
    here.until(lambda: here.ledger("start", job), "it is started", 20)
    here.done(1)
    assert worker.terminate() == 0
    here.conserved(1)


@pytest.mark.slow
def test_due_jobs_run_once_however_many_promote_them(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=300)
    reapers = [here.reaper("--interval", 0.01) for _ in range(4)] + [here.reaper("--interval", 0.01) for _ in range(2)]
    workers = [here.worker() for _ in range(4)]
    here.ready(*workers)
    ids = here.enqueue_many(5000, delay=0.2)
    here.done(len(ids))
    assert {program.terminate() for program in (*workers, *reapers)} == {0}
    assert here.runs() == dict.fromkeys(ids, 1)
    assert {run.token for run in here.ledger()} == {1}
    here.conserved(len(ids))


@pytest.mark.slow
@pytest.mark.parametrize("clock", [300, -300])
@pytest.mark.parametrize("wrong", ["producer", "worker", "reaper"])
def test_a_wrong_clock_moves_no_lease_and_no_delay(fleet: Callable[..., Fleet], wrong: str, clock: int) -> None:
    here = fleet(LEASE=2, BACKOFF_BASE=1)
    reaps_at_once(here.client)
    real = time.time
    began = time.monotonic()
    with mock.patch("time.time", side_effect=lambda: real() + clock * (wrong == "producer")):
        orphan = here.orphans(1)[0]
        delayed = here.enqueue(delay=2)
        fails = here.enqueue(first=(["fail"],))
        outlasts = here.enqueue(["sleep", 5])
    worker = here.worker("--no-reap", clock=clock * (wrong == "worker"))
    reaper = here.reaper("--interval", 0.2, clock=clock * (wrong == "reaper"))
    here.started(delayed)
    assert time.monotonic() - began >= 2
    here.done(4)
    assert here.runs() == {delayed: 1, fails: 2, outlasts: 1, orphan: 1}
    assert [(run.attempt, run.token) for run in here.ledger("start", orphan)] == [(1, 2)]
    assert {worker.terminate(), reaper.terminate()} == {0}
    assert worker.complaints == []
    here.conserved(4)
