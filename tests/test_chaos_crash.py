"""Workers and reapers that are killed: their jobs come back, all of them, and nobody else's."""

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from echomq_django import jobs, keys
from tests.processes import PATIENCE, QUEUE, Fleet, make_fleet, reaps_at_once  # noqa: F401


def test_a_job_whose_worker_was_killed_runs_again_in_one_that_started_before(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=1)
    killed = here.worker()
    job = here.enqueue(first=(["wait", "never"],))
    here.started(job)
    other = here.worker()
    here.ready(other)
    killed.kill()
    here.done(1)
    assert [(run.token, run.attempt, run.pid) for run in here.ledger("start")] == [
        (1, 1, killed.pid),
        (2, 1, other.pid),
    ]
    assert other.terminate() == 0
    here.conserved(1)


@pytest.mark.slow
def test_no_job_is_lost_while_a_worker_is_killed_every_200_ms_to_the_end_and_only_the_killed_ones_jobs_run_again(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet(LEASE=3, MAX_CRASHES=100, BACKOFF_BASE=0.1, BACKOFF_CAP=0.1)
    nursery = here.program("shell", "-c", "from tests import nursery; nursery.keep(6)")
    here.ready(number=6)
    ids = here.enqueue_many(5000, ["sleep", 0.05])  # long enough for kills on a busy machine too
    killed: set[int] = set()
    began = time.monotonic()
    while here.counts().completed < len(ids):
        assert time.monotonic() - began < PATIENCE, here.counts()
        victims = ready_workers(here) & set(nursery.children())
        if victims:
            victim = random.choice(sorted(victims))
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
        time.sleep(0.2)
    assert len(killed) > 20
    assert (here.counts().active, here.counts().pending, here.counts().schedule) == (0, 0, 0)
    assert nursery.terminate() == 0
    assert {run.id for run in here.ledger("end")} == set(ids)
    runs: dict[str, list[int]] = {job: [] for job in ids}
    for run in here.ledger("start"):
        assert run.attempt == 1
        runs[run.id].append(run.pid)
    assert {pid for pids in runs.values() for pid in pids[:-1]} <= killed
    assert len(here.ledger("start")) > len(ids)  # some were killed while they worked
    here.conserved(len(ids))


def ready_workers(here: Fleet) -> set[int]:
    """Find the pids of all workers that have ever reached the server."""
    return {int(name.split(b":")[1]) for name in here.client.zrange(keys.WORKERS, 0, -1)}


@pytest.mark.slow
def test_a_job_with_a_short_lease_does_not_wait_for_the_long_lease_of_a_job_beside_it(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet(queues={"quick": {"LEASE": 1}, "slow": {"LEASE": 60}})
    killed = here.worker()
    quick = here.enqueue(queue="quick", first=(["wait", "never"],))
    slow = here.enqueue(queue="slow", first=(["wait", "never"],))
    here.started(quick)
    here.started(slow)
    killed.kill()
    other = here.worker()
    here.done(1, queue="quick")
    [left] = jobs.page("slow", "active")
    seconds, _ = here.client.time()
    assert left.id == slow
    assert left.time is not None
    assert left.time > int(seconds) * 1000 + 10_000
    assert other.terminate() == 0
    here.conserved(1, queue="quick")


@pytest.mark.slow
def test_a_reaper_killed_at_any_moment_stops_no_other_reaper(fleet: Callable[..., Fleet]) -> None:
    here = fleet(MAX_CRASHES=100)
    reaps_at_once(here.client)
    ids = here.orphans(1000)
    for _ in range(5):
        reaper = here.reaper("--interval", 0.01, "--limit", 1)
        left = here.counts().active - random.randrange(1, 100)
        here.until(lambda left=left: here.counts().active <= left, "the reaper has begun")
        assert reaper.alive
        reaper.kill()
    assert here.counts().active
    assert here.reaper("--once").wait() == 0
    assert (here.counts().active, here.counts().pending) == (0, len(ids))
    assert {job.stalled for at in range(0, 1000, 500) for job in jobs.page(QUEUE, "pending", at, 500)} == {1}
    here.conserved(len(ids))


@pytest.mark.slow
def test_a_job_that_kills_its_worker_dies_after_max_crashes_and_takes_no_other_job_along(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet(LEASE=1.5, MAX_CRASHES=3, BACKOFF_BASE=2)
    killer = here.enqueue(["kill"])
    others = here.enqueue_many(20, ["sleep", 0.05])
    supervisor = here.worker("--processes", 2, "--concurrency", 4)
    here.until(lambda: here.counts().dead, "the killer is dead")
    here.done(len(others))
    [dead] = jobs.page(QUEUE, "dead")
    assert dead.id == killer
    assert dead.last_error.startswith("crashed: ")
    assert (dead.attempts, dead.stalled) == (3, 3)
    assert [record.error for record in jobs.get(QUEUE, killer).errors] == ["crashed"] * 3
    assert here.runs()[killer] == 3
    assert supervisor.terminate() == 0
    here.conserved(21)


@pytest.mark.slow
@pytest.mark.parametrize("maximum", [1, 3])
def test_a_crash_is_no_attempt(fleet: Callable[..., Fleet], maximum: int) -> None:
    here = fleet(LEASE=1, MAX_ATTEMPTS=maximum, BACKOFF_BASE=0.1)
    good = here.enqueue(first=(["kill"],))
    bad = here.enqueue(["fail"], first=(["kill"],))
    supervisor = here.worker("--processes", 2, "--concurrency", 1)
    here.until(lambda: here.counts().dead, "the one that fails is dead")
    here.done(1)
    assert [run.attempt for run in here.ledger("start", good)] == [1, 1]
    assert [run.attempt for run in here.ledger("start", bad)] == [1, *range(1, maximum + 1)]
    found = jobs.get(QUEUE, bad)
    assert (found.attempt, found.spared, found.stalled) == (maximum, 1, 1)
    assert [record.error for record in found.errors] == ["crashed"] + ["builtins.RuntimeError"] * maximum
    assert supervisor.terminate() == 0
    here.conserved(2)
