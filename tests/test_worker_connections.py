"""Connections of a worker: few of them are enough, and each belongs to one process and one thread."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from echomq_django import jobs, sending
from tests.handlers import ON_JOB, Bench, Worker, ledger, until
from tests.processes import Fleet, make_fleet, reaps_at_once  # noqa: F401


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        yield bench


# --- to the server ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2])
def test_a_pool_smaller_than_the_number_of_threads_and_queues_loses_no_lease_and_no_job(
    bench: Bench,
    settings: Any,
    url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
) -> None:
    monkeypatch.setattr(sending, "RESEND_FOR", 0.05)  # they wait for a connection, and do not merely try again
    queues = [f"queue{number}" for number in range(5)]
    settings.ECHOMQ = {
        "default": {
            "LOCATION": url,
            "OPTIONS": {"max_connections": most},
            "QUEUES": {name: {"HANDLER": ON_JOB, "LEASE": 2} for name in queues},
        }
    }
    # The handlers use the queue themselves, on the connections that the process has for its own calls.
    ledger.do = lambda job: jobs.counts(job.queue)
    for name in queues:
        jobs.enqueue_many(name, [{}] * 100)
    worker = bench.worker(queues=tuple(queues), concurrency=20, reap=True)
    until(lambda: len(ledger.ended) == 500)
    worker.stop()
    assert worker.join() == 0
    assert {job.token for job in ledger.runs} == {1}
    assert worker.link.tally == "500 completed"
    assert [record for record in caplog.records if record.levelname != "INFO"] == []


# --- to databases -------------------------------------------------------------------------------------------------


@pytest.fixture
def openers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> Iterator[list[str]]:
    """Add a database "work", in a file, and list the threads that open a connection to any database."""
    opened: list[str] = []
    connect = DatabaseWrapper.get_new_connection

    def opening(self: DatabaseWrapper, params: dict[str, Any]) -> Any:
        opened.append(threading.current_thread().name)
        return connect(self, params)

    monkeypatch.setattr(DatabaseWrapper, "get_new_connection", opening)
    whole = connections.configure_settings({"default": {}, "work": {"ENGINE": "django.db.backends.sqlite3"}})["work"]
    connections.settings["work"] = {**whole, "NAME": str(tmp_path / "work.sqlite3"), "CONN_MAX_AGE": None}
    with django_db_blocker.unblock():
        yield opened
    del connections.settings["work"]


def test_only_the_threads_that_run_jobs_hold_database_connections(
    bench: Bench, client: redis.Redis, openers: list[str]
) -> None:
    bench.queues(default={"LEASE": 0.6, "DEAD_TTL": 1})

    def query(job: Any) -> None:
        with connections["work"].cursor() as cursor:
            cursor.execute("SELECT 1")
        if job.id == lost[0].id:
            first = job.valid_until
            until(lambda: job.valid_until > first, "for a heartbeat")

    ledger.do = query
    jobs.enqueue_many("default", [{}] * 200)
    lost = jobs.claim("default", 1, 0.1)  # so that the reaper has something to do
    reaps_at_once(client, "default")
    worker: Worker = bench.worker(concurrency=20, reap=True)
    until(lambda: len(ledger.ended) == 200)
    worker.stop()
    worker.join()
    assert 1 <= len(openers) <= 20
    assert len(set(openers)) == len(openers)
    assert {name.rpartition("-")[0] for name in openers} == {"echomq-job"}


# --- of several processes -----------------------------------------------------------------------------------------


SUPERVISOR = """
from django.core.management import call_command
from echomq_django import jobs, sending
jobs.counts("q")
call_command("echomq_worker", "--processes", "2")
"""


def sockets(pid: int) -> set[str]:
    found = (os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir())
    return {each for each in found if each.startswith("socket:")}


@pytest.mark.slow
def test_the_processes_of_a_supervisor_share_no_socket(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    # A project that uses the queue while it starts, so that its supervisor has a connection too.
    supervisor = here.program("shell", "-c", SUPERVISOR)
    here.ready(number=2)
    held = [sockets(pid) for pid in (supervisor.pid, *supervisor.children())]
    assert len(held) == 3
    assert all(held)
    assert len(set.union(*held)) == sum(map(len, held))
    assert supervisor.terminate() == 0


def test_a_bound_on_connections_makes_no_queue_wait_for_another_that_is_idle(bench: Bench) -> None:
    names = tuple(f"queue{number}" for number in range(6))
    bench.queues(**{name: {} for name in names})
    config = bench._settings.ECHOMQ["default"]
    bench._settings.ECHOMQ = {"default": {**config, "OPTIONS": {"max_connections": 1, "timeout": 5}}}
    worker = bench.worker(queues=names, concurrency=4)

    def waiting() -> int:
        pool = worker.link._waiting_client._pool
        return len(pool._in_use_connections) if pool is not None else 0

    until(lambda: waiting() == len(names))
