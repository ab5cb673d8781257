"""Workers that are slow and not dead: what they lost is refused, and what they hold is left to them."""

import json
import time
from collections.abc import Callable

import pytest

from tests.processes import Fleet, frozen, make_fleet, reaps_at_once  # noqa: F401

LEASE = 1.5


@pytest.mark.slow
@pytest.mark.parametrize("second", ["has finished", "still runs"])
def test_a_worker_that_was_paused_settles_nothing_that_another_took_over_and_goes_on(
    fleet: Callable[..., Fleet], second: str
) -> None:
    here = fleet(LEASE=LEASE)
    paused = here.worker()
    do = [["wait", "second"]] if second == "still runs" else []
    job = here.enqueue(*do, first=(["wait", "first"],))
    here.started(job)
    with frozen(paused.pid):
        other = here.worker()
        here.started(job, 2)
        if second == "has finished":
            here.done(1)
        here.open("first")
        time.sleep(3 * LEASE)
        before = here.world()
    if second == "still runs":
        # Its second wait lies behind the same gate.
        here.until(lambda: paused.complaints, "the paused worker has noticed")
        here.open("second")
        here.done(1)
    here.until(lambda: len(here.ledger("end", job)) == 2, "both runs have ended")
    here.until(lambda: paused.complaints, "the paused worker has complained")
    if second == "has finished":
        assert here.world() == before
    assert other.terminate() == 0
    later = here.enqueue()
    here.started(later)
    here.done(2)
    assert [run.pid for run in here.ledger("start", later)] == [paused.pid]
    assert paused.terminate() == 0
    [complaint] = paused.complaints
    assert f"WARNING {paused.pid} job {job}" in complaint
    assert (here.counts().completed, other.complaints) == (2, [])
    here.conserved(2)


@pytest.mark.slow
def test_a_job_that_lets_no_heartbeat_through_never_succeeds_twice(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=LEASE)
    greedy = here.worker()
    here.ready(greedy)
    job = here.enqueue(["wait", "second"], first=(["freeze", 6],))
    here.started(job)
    other = here.worker()
    here.started(job, 2)
    # Its first run is told, or refused, while the second one waits.
    here.open("second")
    here.done(1)
    later = here.enqueue_many(20)
    here.done(21)
    assert {worker.terminate() for worker in (greedy, other)} == {0}
    assert [run.pid for run in here.ledger("start", job)] == [greedy.pid, other.pid]
    [complaint] = greedy.complaints
    assert f"WARNING {greedy.pid} job {job}" in complaint
    assert here.runs() == dict.fromkeys(later, 1) | {job: 2}
    assert here.counts().completed == 21
    here.conserved(21)


@pytest.mark.slow
def test_reapers_in_a_tight_loop_take_no_job_from_a_living_worker(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=10)
    ids = here.enqueue_many(20_000)
    reaps_at_once(here.client)
    reapers = [here.reaper("--interval", 0.01, "--format", "json") for _ in range(2)]
    here.until(lambda: all(reaper.log for reaper in reapers), "the reapers reap")
    workers = [here.worker() for _ in range(4)]
    here.done(len(ids))
    assert {program.terminate() for program in (*workers, *reapers)} == {0}
    runs = here.ledger("start")
    assert sorted(run.id for run in runs) == sorted(ids)
    assert {(run.attempt, run.token) for run in runs} == {(1, 1)}
    sweeps = [swept for reaper in reapers for line in reaper.log.splitlines() for swept in json.loads(line)]
    assert len(sweeps) > 100
    assert {tuple(swept[place] for place in ("pending", "schedule", "dead")) for swept in sweeps} == {(0, 0, 0)}
    here.conserved(len(ids))


@pytest.mark.slow
def test_a_healthy_job_that_outlasts_many_leases_runs_once_beside_idle_workers(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=2)
    workers = [here.worker() for _ in range(4)]
    here.ready(*workers)
    job = here.enqueue(["sleep", 8])
    here.done(1)
    assert [(run.id, run.token) for run in here.ledger("start")] == [(job, 1)]
    assert {worker.terminate() for worker in workers} == {0}
    assert [worker.complaints for worker in workers] == [[]] * 4
    here.conserved(1)
