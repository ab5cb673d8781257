"""runner: a job in, an Outcome out, and clean database connections behind it."""

import ast
import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import OperationalError, ProgrammingError, connections, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper

from echomq_django import failure as failures
from echomq_django import jobs
from echomq_django.conf import QueueConfig
from echomq_django.exceptions import PayloadError
from echomq_django.job import Claim, ErrorRecord
from echomq_django.worker import databases, runner, tasking, work
from echomq_django.worker.held import HeldJob
from echomq_django.worker.outcome import Complete, Defer, Fail, Outcome, Release
from tests.handlers import ON_JOB, ledger

OWNER = "host:1:abcd1234"


@pytest.fixture(autouse=True)
def _ledger() -> None:
    ledger.clear()


def held(payload: bytes = b"{}", lease: float = 30.0, **fields: Any) -> HeldJob:
    claim = Claim(
        **{"queue": "default", "id": "JOB0MzT2a4Bc3D", "token": 1, "owner": f"{OWNER}:7", **fields}, payload=payload
    )
    return HeldJob(claim, time.monotonic() + lease)


def run_here(job: HeldJob, handler: str = ON_JOB) -> Outcome:
    """Run a job that has five attempts and three crashes."""
    config = QueueConfig(handler=handler)
    outcome = runner.run(job, lambda job: work.prepare_handler(job, config), config.max_crashes)
    return async_to_sync(finish)(outcome) if isinstance(outcome, Coroutine) else outcome


async def finish(outcome: Coroutine[Any, Any, Outcome]) -> Outcome:
    return await outcome


def run(do: Callable[[HeldJob], Any], job: HeldJob | None = None) -> Outcome:
    ledger.do = do
    return run_here(job or held())


def failure(error: BaseException, job: HeldJob | None = None) -> Fail:
    def do(job: HeldJob) -> None:
        raise error

    outcome = run(do, job)
    assert isinstance(outcome, Fail)
    return outcome


@pytest.fixture(autouse=True)
def _database_access(django_db_blocker: Any) -> Iterator[None]:
    """Let the runner look at whatever connections the tests before this one have left."""
    with django_db_blocker.unblock():
        yield


@pytest.mark.parametrize("module", [runner, work, tasking, databases])
def test_what_runs_a_job_imports_nothing_that_knows_a_server(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module or ''}.{alias.name}" for alias in node.names}
    forbidden = ("redis", "connection", "transitions", "jobs", "scripts", "keys")
    assert not {name for name in imported if any(part in forbidden for part in name.split("."))}


# --- how a job ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, object(), {1, 2}, float("nan"), (each for each in "abc")])
def test_a_handler_that_returns_has_completed_whatever_it_returns(value: Any) -> None:
    job = held()
    assert run(lambda job: value, job) == Complete()
    assert ledger.runs == [job]


def test_an_exception_is_a_failed_attempt_with_all_that_is_known_of_it() -> None:
    before = int(time.time() * 1000)
    outcome = failure(ValueError("the amount is empty"), held(token=7, spared=4))
    record = outcome.error
    assert not outcome.bury
    assert (record.error, record.message) == ("builtins.ValueError", "ValueError: the amount is empty")
    assert (record.attempt, record.worker) == (3, OWNER)
    assert before <= record.started_at <= record.finished_at <= int(time.time() * 1000)
    assert record.traceback.startswith("Traceback (most recent call last):")
    assert record.traceback.rstrip().endswith("ValueError: the amount is empty")
    assert "raise error" in record.traceback
    assert ErrorRecord.load(record.dump().encode()) == record


def test_the_class_of_an_error_is_told_with_its_module() -> None:
    class Odd(Exception):
        pass

    assert failure(Odd()).error.error == f"{__name__}.{Odd.__qualname__}"


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), GeneratorExit(), MemoryError(), BaseException("bare")],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_exception_is_a_failed_attempt_too(error: BaseException) -> None:
    outcome = failure(error)
    assert outcome.error.error == f"builtins.{type(error).__name__}"
    assert not outcome.bury


def test_a_handler_that_recurses_for_ever_fails_and_its_traceback_is_cut() -> None:
    def deeper(job: HeldJob) -> None:
        deeper(job)

    outcome = run(deeper)
    assert isinstance(outcome, Fail)
    assert outcome.error.error == "builtins.RecursionError"
    assert len(outcome.error.traceback) < failures.TRACEBACK_LIMIT + 100


def test_a_keyboard_interrupt_is_not_caught() -> None:
    with pytest.raises(KeyboardInterrupt):
        failure(KeyboardInterrupt())


def test_an_error_whose_text_cannot_be_had_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    record = failure(Mute()).error
    assert record.message == "Mute (its text cannot be had: RuntimeError)"
    assert "Mute" in record.traceback


def test_half_characters_and_nul_are_escaped() -> None:
    record = failure(ValueError("half \ud800, nul \0, whole 🎉")).error
    assert record.message == "ValueError: half \\ud800, nul \\x00, whole 🎉"
    for text in (record.message, record.traceback):
        assert "\0" not in text
        text.encode()


def test_a_long_message_is_cut_and_the_traceback_keeps_both_ends() -> None:
    record = failure(ValueError("x" * 5_000_000 + "the end")).error
    assert len(record.message) == failures.MESSAGE_LIMIT
    assert len(record.traceback) < failures.TRACEBACK_LIMIT + 100
    assert record.traceback.startswith("Traceback")
    assert record.traceback.rstrip().endswith("the end")
    assert "characters left out" in record.traceback


def test_a_traceback_of_the_limit_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = failure(ValueError("x")).error.traceback
    monkeypatch.setattr(failures, "TRACEBACK_LIMIT", len(whole))
    assert failure(ValueError("x")).error.traceback == whole


def test_a_chain_of_errors_is_in_the_traceback() -> None:
    def do(job: HeldJob) -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    outcome = run(do)
    assert isinstance(outcome, Fail)
    assert "KeyError: 'first'" in outcome.error.traceback
    assert outcome.error.message == "ValueError: second"


# --- payloads -----------------------------------------------------------------------------------------------------


def test_a_payload_that_cannot_be_decoded_buries_the_job() -> None:
    job = held(b"\x80\x04junk")
    outcome = run(lambda job: job.data, job)
    assert isinstance(outcome, Fail)
    assert outcome.bury
    assert outcome.error.error == "echomq_django.exceptions.PayloadError"
    assert job.payload == b"\x80\x04junk"


def test_a_payload_error_of_something_else_is_an_ordinary_failure() -> None:
    assert not failure(PayloadError("of a job that was to be enqueued")).bury


def test_a_handler_that_wants_bytes_may_get_any() -> None:
    seen = []
    assert run(lambda job: seen.append(job.payload), held(b"\x80\x04junk")) == Complete()
    assert seen == [b"\x80\x04junk"]


# --- jobs that are not run ----------------------------------------------------------------------------------------


@pytest.fixture
def broken_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "broken_at_import.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "broken_at_import.on_job"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no_such_module.on_job", "No module named 'no_such_module'"),
        ("tests.no_such_module.on_job", "No module named 'tests.no_such_module'"),
        ("tests.handlers.no_such_handler", '"no_such_handler"'),
        ("broken", "doesn't look like a module path"),
    ],
)
def test_a_handler_that_is_not_here_defers_the_job(path: str, why: str) -> None:
    outcome = run_here(held(), path)
    assert isinstance(outcome, Defer)
    assert repr(path) in outcome.reason
    assert why in outcome.reason
    assert outcome.delay == 5.0


def test_a_module_that_raises_at_import_defers_the_job(broken_module: str) -> None:
    for _ in range(2):
        outcome = run_here(held(), broken_module)
        assert isinstance(outcome, Defer)
        assert "RuntimeError: not today" in outcome.reason


@pytest.mark.parametrize(
    ("age_ms", "delay"), [(0, 5.0), (4_000, 5.0), (20_000, 20.0), (61_000, 60.0), (86_399_000, 60.0)]
)
def test_a_job_is_deferred_ever_longer_up_to_a_minute(age_ms: int, delay: float) -> None:
    outcome = run_here(held(deferred_ms=age_ms), "no_such_module.on_job")
    assert isinstance(outcome, Defer)
    assert outcome.delay == delay


def test_a_job_that_nobody_knew_for_a_day_is_buried() -> None:
    outcome = run_here(held(deferred_ms=86_400_000), "no_such_module.on_job")
    assert isinstance(outcome, Fail)
    assert outcome.bury
    assert outcome.error.error == "unknown"
    assert "'no_such_module.on_job' cannot be imported" in outcome.error.message
    assert "ModuleNotFoundError" in outcome.error.traceback


def test_a_job_whose_lease_has_lapsed_is_released_and_not_run() -> None:
    assert run(lambda job: None, held(lease=0)) == Release()
    assert ledger.runs == []


def test_a_job_that_used_up_its_claims_is_buried_and_not_run() -> None:
    assert run_here(held(token=8)) == Complete()
    outcome = run_here(held(token=9))
    assert isinstance(outcome, Fail)
    assert outcome.bury
    assert (outcome.error.error, outcome.error.attempt) == ("crashed", 9)
    assert "claimed 9 times" in outcome.error.message
    assert len(ledger.runs) == 1


def test_spared_claims_do_not_count_against_the_budget() -> None:
    assert run_here(held(token=5000, spared=4992)) == Complete()


# --- what a handler gets ------------------------------------------------------------------------------------------


def test_a_handler_gets_all_that_is_known_of_its_job() -> None:
    job = held(b'{"order": 7}', token=5, spared=2, name="shop.on_order", group="TEN00000000001")
    assert (job.id, job.queue, job.name, job.group) == ("JOB0MzT2a4Bc3D", "default", "shop.on_order", "TEN00000000001")
    assert (job.payload, job.data, job.attempt, job.token, job.lost) == (b'{"order": 7}', {"order": 7}, 3, 5, False)
    assert repr(job) == "<job JOB0MzT2a4Bc3D of queue 'default', attempt 3>"


# --- the database -------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Give the settings of a database "work", in a file: one in memory is never closed."""
    whole = connections.configure_settings({"default": {}, "work": {"ENGINE": "django.db.backends.sqlite3"}})["work"]
    connections.settings["work"] = {**whole, "NAME": str(tmp_path / "work.sqlite3")}
    with django_db_blocker.unblock():
        sql("CREATE TABLE row (name TEXT)")
        connections["work"].close()
        del connections["work"]
        yield connections.settings["work"]
        if hasattr(connections._connections, "work"):
            connections["work"].close()
            del connections["work"]
    del connections.settings["work"]


def sql(statement: str, *values: Any) -> list[Any]:
    with connections["work"].cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def insert(job: HeldJob) -> None:
    sql("INSERT INTO row VALUES (%s)", job.id)


def rows() -> int:
    return int(sql("SELECT count(*) FROM row")[0][0])


def is_usable(self: DatabaseWrapper) -> bool:
    """Ask, as Django's other backends do; its SQLite backend believes."""
    try:
        self.connection.execute("SELECT 1")
    except sqlite3.Error:
        return False
    return True


def test_a_connection_is_closed_after_a_job_unless_it_may_live_on(database: dict[str, Any]) -> None:
    assert run(insert) == Complete()
    assert connections["work"].connection is None
    del connections["work"]
    database["CONN_MAX_AGE"] = None
    assert run(insert) == Complete()
    assert connections["work"].connection is not None


@pytest.mark.parametrize(
    "settings_",
    [
        {"CONN_MAX_AGE": 0},
        {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True},
        {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True},
    ],
    ids=str,
)
def test_a_connection_that_died_between_two_jobs_does_not_harm_the_second(
    database: dict[str, Any], monkeypatch: pytest.MonkeyPatch, settings_: dict[str, Any]
) -> None:
    monkeypatch.setattr(DatabaseWrapper, "is_usable", is_usable)
    database.update(settings_)
    assert run(insert) == Complete()
    if (raw := connections["work"].connection) is not None:
        raw.close()
    assert run(insert) == Complete()
    assert rows() == 2


@pytest.mark.parametrize("idle", [0.0, 60.0])
def test_without_health_checks_a_dead_connection_is_met_by_no_job_after_a_pause_and_by_one_at_most(
    database: dict[str, Any], monkeypatch: pytest.MonkeyPatch, idle: float
) -> None:
    monkeypatch.setattr(DatabaseWrapper, "is_usable", is_usable)
    monkeypatch.setattr(databases, "IDLE", idle)
    database["CONN_MAX_AGE"] = None
    assert run(insert) == Complete()
    connections["work"].connection.close()
    outcome = run(insert)
    if idle:
        assert isinstance(outcome, Fail)
        assert "closed database" in outcome.error.message
        assert run(insert) == Complete()
    else:
        assert outcome == Complete()
    assert rows() == 2


def test_a_connection_that_died_in_a_job_does_not_harm_the_next(
    database: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DatabaseWrapper, "is_usable", is_usable)
    database["CONN_MAX_AGE"] = None

    def lose_it(job: HeldJob) -> None:
        insert(job)
        connections["work"].connection.close()
        with pytest.raises(ProgrammingError):
            insert(job)

    assert run(lose_it) == Complete()
    assert run(insert) == Complete()


@pytest.mark.parametrize("max_age", [0, None])
def test_a_transaction_that_a_job_left_open_is_rolled_back_with_a_warning(
    database: dict[str, Any], caplog: pytest.LogCaptureFixture, max_age: int | None
) -> None:
    database["CONN_MAX_AGE"] = max_age

    def leave_open(job: HeldJob) -> None:
        transaction.atomic(using="work").__enter__()
        insert(job)

    assert run(leave_open) == Complete()
    assert [record.getMessage() for record in caplog.records] == [
        "a job left a transaction open on database 'work': it is rolled back"
    ]
    assert not connections["work"].in_atomic_block
    assert rows() == 0
    assert run(insert) == Complete()
    assert rows() == 1


def test_a_broken_transaction_does_not_harm_the_next_job(database: dict[str, Any]) -> None:
    database["CONN_MAX_AGE"] = None

    def break_it(job: HeldJob) -> None:
        transaction.atomic(using="work").__enter__()
        transaction.set_rollback(True, using="work")
        raise OperationalError("half-way")

    assert isinstance(run(break_it), Fail)
    assert run(insert) == Complete()
    assert rows() == 1


@pytest.mark.parametrize("max_age", [0, None])
def test_a_job_that_turns_autocommit_off_does_not_harm_the_next(database: dict[str, Any], max_age: int | None) -> None:
    database["CONN_MAX_AGE"] = max_age

    def turn_off(job: HeldJob) -> None:
        transaction.set_autocommit(False, using="work")
        insert(job)

    assert run(turn_off) == Complete()
    assert run(insert) == Complete()
    assert transaction.get_autocommit(using="work")
    connections["work"].close()
    assert rows() == 1


def test_queries_are_not_hoarded_under_debug(database: dict[str, Any], settings: Any) -> None:
    settings.DEBUG = True
    seen = []

    def count(job: HeldJob) -> None:
        rows()
        seen.append(len(connections["work"].queries))

    for _ in range(3):
        run(count)
    assert seen == [1, 1, 1]
    assert connections["work"].queries == []


def test_a_job_may_use_the_queue_itself() -> None:
    assert run(lambda job: jobs.enqueue("mail", b"child")) == Complete()
    assert jobs.counts("mail").pending == 1


def test_inside_a_transaction_of_the_callers_nothing_is_closed(
    database: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with transaction.atomic(using="work"):
        raw = connections["work"].connection
        insert(held())
        assert run(insert) == Complete()
        assert isinstance(failure(ValueError("x")), Fail)
        assert rows() == 2
        assert connections["work"].connection is raw
        transaction.set_rollback(True, using="work")
    assert rows() == 0
    assert caplog.records == []


def test_a_coroutine_is_handed_out_and_its_connections_are_in_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    async def handler(job: HeldJob) -> None:
        await asyncio.sleep(0)
        seen.append((job.data, await sync_to_async(threading.get_ident)()))

    monkeypatch.setattr(work, "import_string", lambda path: handler)
    assert run(handler) == Complete()
    assert [thread for _, thread in seen] == [threading.get_ident()]


def test_a_coroutine_that_raises_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(job: HeldJob) -> None:
        raise ValueError("no")

    monkeypatch.setattr(work, "import_string", lambda path: handler)
    outcome = run(handler)
    assert isinstance(outcome, Fail)
    assert outcome.error.message == "ValueError: no"


def test_a_coroutine_goes_to_the_thread_of_databases_only_when_one_was_used_outside_of_jobs_threads(
    database: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = []

    async def go(function: Callable[..., Any], *args: Any) -> Any:
        gone.append(function.__name__)
        return function(*args)

    async def handler(job: HeldJob) -> None:
        if job.data:
            databases.connection_created.send(None)

    monkeypatch.setattr(databases, "_elsewhere", threading.Event())
    monkeypatch.setattr(runner, "sync_to_async", lambda function: partial(go, function))
    monkeypatch.setattr(work, "import_string", lambda path: handler)
    assert (run(handler, held(b"0")), gone) == (Complete(), [])
    assert (run(handler, held(b"1")), gone) == (Complete(), ["after"])
    assert (run(handler, held(b"0")), gone) == (Complete(), ["after", "before", "after"])


def test_what_cannot_be_cleaned_after_a_job_does_not_change_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OSError("no more")

    steps = iter([lambda: None, fail])
    monkeypatch.setattr(databases, "_close_stale", lambda each: next(steps)())
    assert run(lambda job: None) == Complete()
    assert "could not be cleaned" in caplog.text
