"""Tasks whose workers die or sleep: they go on where they were, and a stale worker's value is never a result."""

import time
from collections.abc import Callable

import pytest

from echomq_django import jobs
from echomq_django.tasks.api import TaskResultStatus
from tests import chaos_tasks
from tests.processes import QUEUE, Fleet, frozen, make_fleet, reaps_at_once  # noqa: F401

LEASE = 1.0


@pytest.mark.slow
def test_a_task_whose_worker_was_killed_goes_on_from_its_checkpoint(fleet: Callable[..., Fleet]) -> None:
    here = fleet(HANDLER="", LEASE=LEASE)
    other = here.worker("--concurrency", 1)
    here.ready(other)
    with frozen(other.pid):
        killed = here.worker("--concurrency", 1)
        result = chaos_tasks.crawl.using(queue_name=QUEUE).enqueue(6, 4, str(here.folder))
        here.until(lambda: not killed.alive, "the task has killed its worker")
        reaps_at_once(here.client)
    here.done(1)
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, [1, 2, 4])
    assert (here.folder / "pages").read_text().splitlines() == ["0 1", "1 1", "2 1", "3 1", "4 2", "5 2"]
    # The crash is told and counts as no attempt; the worker that made it to the end is the only one that is named.
    [error] = result.errors
    assert error.exception_class.__name__ == "WorkerLost"
    assert [name.split(":")[1] for name in result.worker_ids] == [str(other.pid)]
    assert other.terminate() == 0


@pytest.mark.slow
def test_the_value_of_a_worker_that_was_asleep_is_never_the_result(fleet: Callable[..., Fleet]) -> None:
    here = fleet(HANDLER="", LEASE=LEASE)
    sleeper = here.worker("--concurrency", 1)
    here.ready(sleeper)
    result = chaos_tasks.wait.using(queue_name=QUEUE).enqueue(str(here.folder))
    here.until(lambda: here.counts().active == 1, "the task is begun")
    with frozen(sleeper.pid):
        reaps_at_once(here.client)
        here.until(lambda: jobs.reap(QUEUE).moved, "its lease has run out")
        [claim] = jobs.claim(QUEUE)
        (here.folder / "gate").touch()
        jobs.complete(claim, "in time")
    here.until(lambda: sleeper.complaints, "the sleeper has complained")
    assert sleeper.terminate() == 0
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "in time")
    assert (here.counts().completed, here.counts().active) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_that_is_stopped_waits_for_no_thread_of_a_coroutine(
    fleet: Callable[..., Fleet], processes: int
) -> None:
    here = fleet(HANDLER="")
    worker = here.worker("--shutdown-timeout", 0.5, "--processes", processes)
    result = chaos_tasks.wait_in_a_thread.using(queue_name=QUEUE).enqueue(str(here.folder))
    here.until(lambda: (here.folder / "begun").exists(), "the task is begun")
    began = time.monotonic()
    assert worker.terminate() == 0
    assert time.monotonic() - began < 20
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)
    here.nobody_is_left(worker)
