"""--autoreload: the job that runs is finished by the old code, the next one is run by the new."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.processes import Fleet, Program, make_fleet  # noqa: F401

CODE = """
from tests.chaos_handlers import *
from tests import chaos_handlers

def handle(job):
    chaos_handlers.note(job, "version-{}")
    chaos_handlers.handle(job)
"""


def versions(here: Fleet) -> list[str]:
    return [entry.mark for entry in here.ledger() if entry.mark.startswith("version")]


@pytest.fixture
def reloading(fleet: Callable[..., Fleet]) -> tuple[Fleet, Program]:
    """Start a worker that watches code in which a job runs, until its gate is opened."""
    here = fleet(HANDLER="code_of_the_user.handle")
    write(here, 1)
    worker = here.worker("--autoreload", "--concurrency", 1)
    here.started(here.enqueue(["wait", "gate"]))
    return here, worker


def write(here: Fleet, version: int) -> None:
    path = here.folder / "code_of_the_user.py"
    path.write_text(CODE.format(version))
    os.utime(path, (version * 1000, version * 1000))  # the reloader compares times, and so do .pyc files


def change(here: Fleet, worker: Program) -> None:
    """Change the code until it is noticed: a reloader that has just begun takes what it finds for what was."""
    version = iter(range(2, 10**6))

    def noticed() -> bool:
        write(here, next(version))
        return "code_of_the_user.py has changed" in worker.log

    here.until(noticed, "the change is noticed")
    write(here, 10**6)


@pytest.mark.slow
def test_changed_code_lets_the_running_job_finish_and_runs_the_next_one(reloading: tuple[Fleet, Program]) -> None:
    here, worker = reloading
    change(here, worker)
    here.enqueue()
    here.open("gate")
    here.done(2)
    assert versions(here) == ["version-1", "version-1000000"]
    assert {entry.token for entry in here.ledger()} == {1}
    assert worker.terminate() == 0
    here.nobody_is_left(worker)
    here.conserved(2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_reloader_and_its_worker_when_the_job_is_done(
    reloading: tuple[Fleet, Program], number: signal.Signals
) -> None:
    here, worker = reloading
    if number == signal.SIGINT:
        os.killpg(worker.pid, number)  # as a terminal does
    else:
        worker.send(number)
    here.until(lambda: "stopping (" in worker.log, "it has heard")
    here.open("gate")
    assert worker.wait() == 0
    here.nobody_is_left(worker)
    assert [entry.mark for entry in here.ledger()] == ["version-1", "start", "end"]
    here.conserved(1)


@pytest.mark.slow
def test_a_signal_that_comes_during_a_reload_ends_it(reloading: tuple[Fleet, Program]) -> None:
    here, worker = reloading
    change(here, worker)
    worker.send(signal.SIGTERM)
    here.open("gate")
    assert worker.wait(20) in (0, 128 + signal.SIGTERM)
    here.nobody_is_left(worker)
