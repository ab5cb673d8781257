"""pool: the threads in which jobs run, and their database connections."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from echomq_django import ids
from echomq_django.conf import QueueConfig
from echomq_django.job import Claim
from echomq_django.worker import runner, work
from echomq_django.worker.held import HeldJob
from echomq_django.worker.outcome import Complete, Fail, Outcome
from echomq_django.worker.pool import Pool
from tests.handlers import ON_JOB, PATIENCE, Gate, ledger, until


@pytest.fixture(autouse=True)
def _ledger() -> None:
    ledger.clear()


class Reports:
    """Take what a pool reports."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[HeldJob, Outcome]] = queue.SimpleQueue()

    def __call__(self, job: HeldJob, outcome: Outcome, seconds: float) -> None:
        assert seconds >= 0
        self._queue.put((job, outcome))

    def take(self, number: int) -> list[tuple[HeldJob, Outcome]]:
        return [self._queue.get(timeout=PATIENCE) for _ in range(number)]

    @property
    def left(self) -> int:
        return self._queue.qsize()


def held(number: int) -> list[HeldJob]:
    return [
        HeldJob(
            Claim(queue="default", id=ids.brand("JOB", each), token=1, owner="host:1:abcd1234:7", payload=b"{}"),
            time.monotonic() + 1000,
        )
        for each in range(number)
    ]


def handle(job: HeldJob) -> Outcome:
    config = QueueConfig(handler=ON_JOB)
    outcome = runner.run(job, lambda job: work.prepare_handler(job, config), config.max_crashes)
    assert not isinstance(outcome, Coroutine)
    return outcome


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def pool(reports: Reports) -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(size: int, run: Callable[[HeldJob], Outcome] = handle) -> Pool:
        made.append(Pool(size, run, reports))
        return made[-1]

    yield make
    for each in made:
        each.close()
        each.join(PATIENCE)


def test_one_thread_runs_jobs_in_the_order_in_which_they_come(pool: Callable[..., Pool], reports: Reports) -> None:
    jobs = held(50)
    one = pool(1)
    one.put(jobs[:20])
    one.put(jobs[20:])
    assert reports.take(50) == [(job, Complete()) for job in jobs]
    assert ledger.runs == jobs


def test_as_many_jobs_run_at_once_as_there_are_threads(pool: Callable[..., Pool], reports: Reports) -> None:
    gate = Gate()
    ledger.do = gate.wait
    pool(3).put(held(7))
    until(lambda: ledger.running == 3)
    assert len(ledger.runs) == 3
    gate.open()
    assert len(reports.take(7)) == 7


def test_coroutines_and_functions_together_are_never_more_than_there_are_threads(
    pool: Callable[..., Pool], reports: Reports
) -> None:
    gate = threading.Event()
    begun: queue.SimpleQueue[HeldJob] = queue.SimpleQueue()

    async def wait(job: HeldJob) -> Outcome:
        begun.put(job)
        while not gate.is_set():
            await asyncio.sleep(0.001)
        return Complete()

    def run(job: HeldJob) -> Outcome | Coroutine[Any, Any, Outcome]:
        if job in coroutines:
            return wait(job)
        begun.put(job)
        assert gate.wait(PATIENCE)
        return Complete()

    jobs = held(6)
    coroutines = {jobs[0], jobs[2], jobs[3]}
    mixed = pool(3, run)
    mixed.put(jobs)
    assert {begun.get(timeout=PATIENCE) for _ in range(3)} == set(jobs[:3])
    assert mixed.take_back() == jobs[3:]
    mixed.put(jobs[3:])
    gate.set()
    assert {job for job, outcome in reports.take(6) if outcome == Complete()} == set(jobs)


def test_a_coroutine_that_raises_frees_its_place(pool: Callable[..., Pool], reports: Reports) -> None:
    async def fail(job: HeldJob) -> Outcome:
        raise KeyboardInterrupt

    pool(1, fail).put(held(3))
    assert [type(outcome) for _, outcome in reports.take(3)] == [Fail] * 3


def test_what_no_thread_has_begun_can_be_taken_back_in_order(pool: Callable[..., Pool], reports: Reports) -> None:
    gate = Gate()
    ledger.do = gate.wait
    jobs = held(6)
    two = pool(2)
    two.put(jobs)
    until(lambda: ledger.running == 2)
    assert two.take_back() == jobs[2:]
    assert two.take_back() == []
    gate.open()
    assert {job for job, _ in reports.take(2)} == set(jobs[:2])
    assert reports.left == 0


def test_a_closed_pool_finishes_what_it_runs_and_its_threads_end(pool: Callable[..., Pool], reports: Reports) -> None:
    gate = Gate()
    ledger.do = gate.wait
    two = pool(2)
    two.put(held(2))
    until(lambda: ledger.running == 2)
    two.close()
    two.join(0.01)
    assert reports.left == 0
    gate.open()
    two.join(PATIENCE)
    assert len(reports.take(2)) == 2
    assert not any(thread.is_alive() for thread in two._threads)


def test_a_thread_that_hangs_does_not_hold_whoever_joins_or_the_process(pool: Callable[..., Pool]) -> None:
    gate = Gate()
    ledger.do = gate.wait
    one = pool(1)
    one.put(held(1))
    one.close()
    one.join(0.01)
    assert all(thread.daemon for thread in one._threads)
    gate.open()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()], ids=lambda one: type(one).__name__
)
def test_nothing_that_a_handler_raises_ends_its_thread(
    pool: Callable[..., Pool], reports: Reports, error: BaseException
) -> None:
    def raise_it(job: HeldJob) -> None:
        raise error

    one = pool(1)
    ledger.do = raise_it
    one.put(held(2))
    for _, outcome in reports.take(2):
        assert isinstance(outcome, Fail)
        assert not outcome.bury
        assert outcome.error.error == f"builtins.{type(error).__name__}"
    ledger.do = lambda job: None
    one.put(held(1))
    assert reports.take(1)[0][1] == Complete()


def test_a_run_that_fails_itself_is_a_failed_attempt(pool: Callable[..., Pool], reports: Reports) -> None:
    def run(job: HeldJob) -> Outcome:
        raise RuntimeError("the database settings are broken")

    pool(1, run).put(held(1))
    [(_, outcome)] = reports.take(1)
    assert isinstance(outcome, Fail)
    assert outcome.error.message == "RuntimeError: the database settings are broken"


# --- database connections -----------------------------------------------------------------------------------------


class Open:
    """Know the connections to the database "work" that are open, and the most there were at once."""

    def __init__(self) -> None:
        self.now: set[sqlite3.Connection] = set()
        self.most = self.ever = 0
        self._lock = threading.Lock()

    def opened(self, raw: sqlite3.Connection) -> None:
        with self._lock:
            self.now.add(raw)
            self.most = max(self.most, len(self.now))
            self.ever += 1

    def closed(self, raw: sqlite3.Connection) -> None:
        with self._lock:
            self.now.discard(raw)


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """Give the settings of a database "work", in a file: one in memory is never closed."""
    whole = connections.configure_settings({"default": {}, "work": {"ENGINE": "django.db.backends.sqlite3"}})["work"]
    connections.settings["work"] = {**whole, "NAME": str(tmp_path / "work.sqlite3")}
    with django_db_blocker.unblock():
        yield connections.settings["work"]
    del connections.settings["work"]


@pytest.fixture
def open_ones(monkeypatch: pytest.MonkeyPatch) -> Open:
    count = Open()
    connect, close = DatabaseWrapper.get_new_connection, DatabaseWrapper._close

    def opening(self: DatabaseWrapper, params: dict[str, Any]) -> Any:
        raw = connect(self, params)
        if self.alias == "work":
            count.opened(raw)
        return raw

    def closing(self: DatabaseWrapper) -> Any:
        if self.connection is not None:
            count.closed(self.connection)
        return close(self)

    monkeypatch.setattr(DatabaseWrapper, "get_new_connection", opening)
    monkeypatch.setattr(DatabaseWrapper, "_close", closing)
    return count


def query(job: HeldJob) -> None:
    with connections["work"].cursor() as cursor:
        cursor.execute("SELECT 1")
        time.sleep(0.001)  # let the others have their turn


@pytest.mark.parametrize("max_age", [0, 1, None])
def test_twenty_threads_have_at_most_twenty_database_connections(
    database: dict[str, Any], open_ones: Open, pool: Callable[..., Pool], reports: Reports, max_age: int | None
) -> None:
    database["CONN_MAX_AGE"] = max_age
    ledger.do = query
    pool(20).put(held(200))
    assert {type(outcome) for _, outcome in reports.take(200)} == {Complete}
    assert 1 <= open_ones.most <= 20


@pytest.mark.parametrize("max_age", [0, 1])
def test_an_idle_pool_keeps_no_database_connection_beyond_its_age(
    database: dict[str, Any], open_ones: Open, pool: Callable[..., Pool], reports: Reports, max_age: int
) -> None:
    database["CONN_MAX_AGE"] = max_age
    ledger.do = query
    pool(20).put(held(200))
    reports.take(200)
    until(lambda: not open_ones.now, "for the connections to close")
    assert open_ones.ever >= 1


def test_a_connection_within_its_age_serves_the_next_job_of_its_thread(
    database: dict[str, Any], open_ones: Open, pool: Callable[..., Pool], reports: Reports
) -> None:
    database["CONN_MAX_AGE"] = 600
    ledger.do = query
    pool(1).put(held(20))
    reports.take(20)
    assert (open_ones.ever, len(open_ones.now)) == (1, 1)


def test_a_thread_that_ends_closes_its_database_connection(
    database: dict[str, Any], open_ones: Open, pool: Callable[..., Pool], reports: Reports
) -> None:
    database["CONN_MAX_AGE"] = None
    ledger.do = query
    two = pool(2)
    two.put(held(20))
    reports.take(20)
    assert open_ones.now
    two.close()
    two.join(PATIENCE)
    assert not open_ones.now
