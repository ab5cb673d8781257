"""tasking: a task on a worker, from the claim to what Django and its receivers hear of it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connections
from django.utils import translation

from echomq_django import connection, envelope, jobs, keys
from echomq_django.backend import EchoMQBackend
from echomq_django.exceptions import LeaseLost, PayloadError, TaskTimeout
from echomq_django.job import Job, Location
from echomq_django.payload import KEPT_LIMIT
from echomq_django.tasks import EchoMQContext
from echomq_django.tasks.api import BUILT_IN, TaskResult, TaskResultStatus, task_finished, task_started
from echomq_django.worker.deadline import Deadline
from tests import tasks
from tests.handlers import PATIENCE, Worker, told

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
K = keys.of("default")
TASKS_LOGGER = "django.tasks" if BUILT_IN else "django_tasks"

Heard = list[tuple[str, type, TaskResultStatus, int]]


@pytest.fixture(autouse=True)
def _one_attempt(settings: Any, url: str, _settings: None) -> None:
    settings.ECHOMQ = {
        "default": {"LOCATION": url, "QUEUES": {"default": {"BACKOFF": "fixed", "BACKOFF_BASE": 0}, "mail": {}}}
    }
    tasks.script.clear()
    tasks.asked.clear()


@pytest.fixture(autouse=True)
def _database_access(django_db_blocker: Any) -> Iterator[None]:
    """Let the runner look at whatever connections the tests before this one have left."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Hear the signals of the worker: which, from whom, and how the task was told then."""
    found: Heard = []

    def started(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
        found.append(("started", sender, task_result.status, task_result.attempts))

    def finished(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
        found.append(("finished", sender, task_result.status, task_result.attempts))

    task_started.connect(started)
    task_finished.connect(finished)
    yield found
    task_started.disconnect(started)
    task_finished.disconnect(finished)


def burst(**options: Any) -> str:
    """Run a worker until nothing is left to do; its tally."""
    worker = Worker(burst=True, **options)
    worker.join()
    return worker.link.tally


def run(task: Any, *args: Any, **kwargs: Any) -> TaskResult[Any]:
    result: TaskResult[Any] = task.enqueue(*args, **kwargs)
    burst()
    result.refresh()
    return result


def scripted(do: Callable[[EchoMQContext], Any], task: Any = tasks.scripted) -> TaskResult[Any]:
    """Run a task that does this, with nobody beside it."""
    tasks.script.append(do)
    result: TaskResult[Any] = task.enqueue()
    burst(concurrency=1)
    result.refresh()
    return result


def job_of(result: TaskResult[Any]) -> Job:
    return jobs.get("default", result.id[:14])


# --- how a task ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [tasks.add, tasks.aadd])
def test_a_task_that_returns_has_succeeded_with_its_value(heard: Heard, task: Any) -> None:
    result = run(task, 1, right=2)
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 3, 1)
    assert heard == [("started", EchoMQBackend, RUNNING, 1), ("finished", EchoMQBackend, SUCCESSFUL, 1)]
    assert result.errors == []


@pytest.mark.parametrize(
    "value", [None, [], {}, [[], {"a": {}}], 2**70, 0.1 + 0.2, "", "x\x00y", {"": [None, True]}, "\N{SNOWMAN}" * 10_000]
)
def test_arguments_and_the_value_come_back_as_they_were(value: Any) -> None:
    result = run(tasks.echo, value, key=value)
    assert result.return_value == {"args": [value], "kwargs": {"key": value}}
    assert type(result.return_value["args"][0]) is type(value)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, (each for each in "ab"), float("nan"), "\ud800", (1, 2), {1: 2}, "x" * KEPT_LIMIT],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("task", [tasks.scripted, tasks.ascripted], ids=["thread", "loop"])
def test_a_value_that_cannot_be_kept_fails_the_task_for_good_since_its_work_is_done(
    heard: Heard, caplog: pytest.LogCaptureFixture, task: Any, value: Any
) -> None:
    result = scripted(lambda context: value, task)
    assert (result.status, result.attempts) == (FAILED, 1)
    [error] = result.errors
    assert issubclass(error.exception_class, TypeError)
    assert "the return value" in error.traceback
    assert "cannot be kept" in error.traceback
    assert len(error.traceback) < 20_000
    assert [each[0] for each in heard] == ["started", "finished"]
    [line] = [each for each in caplog.records if each.name == TASKS_LOGGER and each.levelname == "ERROR"]
    assert line.exc_info is not None
    assert line.exc_info[0] is TypeError


class Strange(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("\ud800 and \x00"), KeyError("x"), Strange(), ValueError("m" * 5_000_000), RecursionError(),
        MemoryError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(),
        BaseException("bare"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("task", [tasks.scripted, tasks.ascripted], ids=["thread", "loop"])
def test_whatever_a_task_raises_is_a_failed_attempt_and_the_worker_lives(
    task: Any, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, TASKS_LOGGER)  # pytest-xdist cannot pass half characters on

    def do(context: EchoMQContext) -> None:
        raise error

    tasks.script.append(do)
    result, after = task.using(max_attempts=1).enqueue(), tasks.add.enqueue(1, 2)
    burst()
    result.refresh()
    after.refresh()
    assert (result.status, result.attempts, after.status) == (FAILED, 1, SUCCESSFUL)
    assert result.errors[0].exception_class is type(error)
    assert "\x00" not in result.errors[0].traceback


def test_a_task_is_tried_again_until_its_attempts_are_used_up(heard: Heard) -> None:
    result = run(tasks.fail)
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 3, 3)
    assert [error.exception_class for error in result.errors] == [ValueError] * 3
    assert len(result.worker_ids) == 3
    assert result.started_at is not None
    assert result.last_attempted_at is not None
    assert result.started_at < result.last_attempted_at
    # No attempt but the last is the end of the task.
    assert [(name, attempts) for name, _, _, attempts in heard] == [
        ("started", 1), ("started", 2), ("started", 3), ("finished", 3),
    ]  # fmt: skip
    assert heard[-1][2] == FAILED


def test_the_attempts_of_an_enqueue_come_before_the_tasks_and_those_before_the_queues(settings: Any, url: str) -> None:
    settings.ECHOMQ["default"]["QUEUES"]["default"]["MAX_ATTEMPTS"] = 2
    settings.ECHOMQ = settings.ECHOMQ
    assert run(tasks.fail.using(max_attempts=4)).attempts == 4
    assert run(tasks.fail).attempts == 3
    assert run(tasks.scripted_to_fail).attempts == 2


def test_a_task_that_another_program_enqueued_has_the_attempts_of_its_declaration() -> None:
    done = jobs.enqueue("default", '{"task": "tests.tasks.fail"}')
    burst()
    job = jobs.get("default", done.id)
    assert (job.location, job.attempt) == (Location.DEAD, 3)


# --- retries ------------------------------------------------------------------------------------------------------


def backoff_of(value: Any) -> Any:
    tasks.backoffs[:] = [value]
    return tasks.backing_off


@pytest.mark.parametrize("value", [300, 300.5, timedelta(seconds=300)])
def test_the_backoff_of_a_task_says_when_it_is_tried_again(client: redis.Redis, value: Any) -> None:
    tasks.script.append(lambda context: 1 / 0)
    result = backoff_of(value).enqueue()
    Worker(max_jobs=1).join()
    job = job_of(result)
    seconds, micros = client.time()
    assert job.location is Location.SCHEDULE
    assert job.time is not None
    assert 290_000 < job.time - (seconds * 1000 + micros // 1000) <= 300_500
    [(error, seen)] = tasks.asked
    assert isinstance(error, ZeroDivisionError)
    assert (seen["status"], seen["attempts"], seen["errors"]) == (FAILED, 1, ["builtins.ZeroDivisionError"])


def test_a_backoff_of_none_is_the_end(heard: Heard) -> None:
    tasks.script.append(lambda context: 1 / 0)
    result = run(backoff_of(None))
    assert (result.status, result.attempts) == (FAILED, 1)
    assert heard[-1][0] == "finished"


def test_the_last_attempt_asks_no_backoff() -> None:
    tasks.script.append(lambda context: 1 / 0)
    assert run(backoff_of(0).using(max_attempts=1)).status == FAILED
    assert tasks.asked == []


@pytest.mark.parametrize("value", [-1, float("nan"), "soon", ZeroDivisionError()])
def test_a_backoff_that_fails_is_logged_and_the_queues_is_used(caplog: pytest.LogCaptureFixture, value: Any) -> None:
    tasks.script += [lambda context: 1 / 0, lambda context: "done"]
    result = run(backoff_of(value))
    assert (result.status, result.attempts) == (SUCCESSFUL, 2)
    assert "the backoff of task tests.tasks.backing_off failed" in caplog.text


def test_a_retry_says_when_and_counts(client: redis.Redis) -> None:
    result = tasks.again.enqueue(300)
    Worker(max_jobs=1).join()
    job = job_of(result)
    seconds, _ = client.time()
    assert job.time is not None
    assert 290 < job.time / 1000 - seconds <= 301
    assert (job.attempt, job.errors[0].error) == (1, "echomq_django.exceptions.Retry")


def test_a_retry_without_a_delay_takes_the_backoff_and_ends_with_the_attempts() -> None:
    result = run(tasks.again.using(max_attempts=2))
    assert (result.status, result.attempts) == (FAILED, 2)


def test_a_discarded_task_is_dead_at_once_with_its_reason(heard: Heard) -> None:
    result = run(tasks.discard)
    assert (result.status, result.attempts) == (FAILED, 1)
    assert job_of(result).last_error == "Discard: no use"
    assert heard[-1][0] == "finished"


# --- timeouts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [tasks.slow, tasks.aslow], ids=["thread", "loop"])
def test_a_task_that_takes_too_long_is_a_failed_attempt(task: Any) -> None:
    result = run(task)
    assert (result.status, result.attempts) == (FAILED, 1)
    [error] = result.errors
    assert error.exception_class.__name__ == "TaskTimeout"
    assert "longer than its timeout of 0.05 s" in error.traceback


def test_a_timeout_at_the_very_end_of_a_task_is_told_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = Deadline.__exit__

    def late(deadline: Deadline, *error: Any) -> None:
        leave(deadline, *error)
        raise TaskTimeout

    monkeypatch.setattr(Deadline, "__exit__", late)
    [error] = run(tasks.add.using(timeout=20, max_attempts=1), 1, 2).errors
    assert "TaskTimeout: it ran longer than its timeout of 20 s" in error.traceback


def test_the_timeout_of_an_enqueue_comes_before_the_tasks() -> None:
    result = run(tasks.slow.using(timeout=0.01))
    assert "longer than its timeout of 0.01 s" in result.errors[0].traceback
    tasks.script.append(lambda context: time.sleep(0.1))
    assert run(tasks.brief.using(timeout=None)).status == SUCCESSFUL


def test_a_timeout_error_of_the_tasks_own_is_its_own() -> None:
    def do(context: EchoMQContext) -> None:
        raise TimeoutError("its own")

    tasks.script.append(do)
    [error] = run(tasks.ascripted.using(max_attempts=1, timeout=20)).errors
    assert error.exception_class is TimeoutError


# --- the context --------------------------------------------------------------------------------------------------


def test_the_context_knows_the_attempt_and_the_token() -> None:
    seen = []

    def note(context: EchoMQContext) -> None:
        seen.append(
            (context.attempt, context.token, context.lost, context.task_result.status, len(context.task_result.errors))
        )
        if len(seen) < 3:
            raise ValueError("no")

    tasks.script += [note] * 3
    assert run(tasks.scripted).return_value is None
    assert seen == [(1, 1, False, RUNNING, 0), (2, 2, False, RUNNING, 1), (3, 3, False, RUNNING, 2)]


@pytest.mark.parametrize("task", [tasks.about, tasks.aabout], ids=["thread", "loop"])
def test_progress_and_log_lines_are_there_for_the_people_who_look(task: Any) -> None:
    result = run(task)
    assert result.return_value == [1, 1, False, {"row": 7}]
    job = job_of(result)
    assert job.progress == '{"done":1,"total":2,"note":"half"}'
    assert jobs.logs("default", job.id) == ["a line"]
    assert job.checkpoint == b'{"row":7}'


def test_a_later_attempt_goes_on_from_the_checkpoint() -> None:
    seen = []

    def step(context: EchoMQContext) -> None:
        seen.append(context.last_checkpoint)
        context.checkpoint([*(context.last_checkpoint or []), context.attempt])
        if context.attempt < 3:
            raise ValueError("no")

    tasks.script += [step] * 3
    assert run(tasks.scripted).status == SUCCESSFUL
    assert seen == [None, [1], [1, 2]]


@pytest.mark.parametrize("value", [(1, 2), float("nan"), object(), {1: 2}, "x" * KEPT_LIMIT])
def test_a_checkpoint_that_would_change_is_refused_and_the_old_one_kept(value: Any) -> None:
    def do(context: EchoMQContext) -> Any:
        context.checkpoint("first")
        with pytest.raises(PayloadError, match="the checkpoint was not saved"):
            context.checkpoint(value)
        return context.last_checkpoint

    assert scripted(do).return_value == "first"


@pytest.mark.parametrize("what", ["progress", "log", "checkpoint"])
def test_a_task_that_lost_its_job_writes_nothing_more_and_hears_of_it(client: redis.Redis, what: str) -> None:
    seen: list[Any] = []

    def do(context: EchoMQContext) -> None:
        job_id = context.task_result.id[:14]
        client.zadd(K.active, {job_id: 1})
        client.hset(K.meta, "reap_after", 0)
        jobs.reap("default")
        jobs.reap("default")
        [other] = jobs.claim("default")
        before = client.hgetall(K.row(job_id))
        try:
            getattr(context, what)(7)
        except LeaseLost:
            seen.append((context.lost, client.hgetall(K.row(job_id)) == before, client.exists(K.logs(job_id))))
            with pytest.raises(LeaseLost):
                context.raise_if_lost()
        jobs.complete(other, "the other's")

    jobs.reap("default")
    result = scripted(do)
    assert seen == [(True, True, 0)]
    assert (result.status, result.return_value) == (SUCCESSFUL, "the other's")


def test_a_server_that_is_away_fails_no_task_for_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    from echomq_django.worker import notes  # noqa: PLC0415

    def away(using: str) -> Any:
        raise notes.ServerUnavailable("away")

    def do(context: EchoMQContext) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(notes.connection, "client", away)
            context.progress(1)
            context.log("a line")
            with pytest.raises(notes.ServerUnavailable):
                context.checkpoint(1)
        return "done"

    assert scripted(do).return_value == "done"


# --- what is no task ----------------------------------------------------------------------------------------------


def test_a_payload_that_cannot_be_read_is_dead_at_once_and_kept() -> None:
    bad = [jobs.enqueue("default", body) for body in (b"\xff", "[]", '{"task": 1}', '{"task": "a.b", "v": 99}')]
    good = tasks.add.enqueue(1, 2)
    burst()
    for done, body in zip(bad, (b"\xff", b"[]", b'{"task": 1}', b'{"task": "a.b", "v": 99}'), strict=True):
        job = jobs.get("default", done.id)
        assert (job.location, job.payload, job.attempts) == (Location.DEAD, body, 1)
        assert job.errors[0].error == "echomq_django.exceptions.PayloadError"
    good.refresh()
    assert good.status == SUCCESSFUL


@pytest.mark.parametrize("path", ["os.system", "tests.tasks.not_a_task", "tests.tasks.asyncio", "builtins.print"])
def test_what_is_no_task_is_never_called_and_dead_at_once(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = jobs.enqueue("default", {"task": path, "args": ["echo called"]})
    burst()
    job = jobs.get("default", done.id)
    assert job.location is Location.DEAD
    assert "not a Task" in job.last_error
    assert "called" not in capfd.readouterr().out


@pytest.mark.parametrize("path", ["no_such_module.task", "tests.tasks.not_yet", "tests.broken.task"])
def test_a_task_that_is_not_here_is_put_off_at_no_cost(caplog: pytest.LogCaptureFixture, path: str) -> None:
    done = jobs.enqueue("default", {"task": path})
    good = tasks.add.enqueue(1, 2)
    Worker(max_jobs=2).join()
    job = jobs.get("default", done.id)
    assert (job.location, job.attempts, job.attempt) == (Location.SCHEDULE, 1, 0)
    assert any(path in line for line in told(caplog))
    assert job.last_error.startswith(f"task {path!r} cannot be imported")
    good.refresh()
    assert good.status == SUCCESSFUL


def test_a_task_that_comes_with_a_deploy_is_run_then(monkeypatch: pytest.MonkeyPatch, client: redis.Redis) -> None:
    done = jobs.enqueue("default", envelope.encode("tests.tasks.comes_later", (1, 2), {}))
    Worker(max_jobs=1).join()
    monkeypatch.setattr(tasks, "comes_later", tasks.add, raising=False)
    client.zadd(K.schedule, {done.id: 1})
    burst()
    assert jobs.get("default", done.id).result == b"3"


def test_a_changed_signature_is_a_failed_attempt() -> None:
    result = run(tasks.add.using(max_attempts=2), 1, 2, 3)
    assert (result.status, result.attempts) == (FAILED, 2)
    assert result.errors[0].exception_class is TypeError


def test_a_task_that_was_changed_to_what_its_backend_refuses_here_is_put_off(settings: Any) -> None:
    result = tasks.add.using(priority=3).enqueue(1, 2)
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["mail"]}}
    Worker(max_jobs=1).join()
    assert job_of(result).location is Location.SCHEDULE


def test_a_task_that_kills_its_worker_again_and_again_is_dead_unrun(client: redis.Redis) -> None:
    result = tasks.add.enqueue(1, 2)
    client.hset(K.row(result.id[:14]), "attempts", 50)
    burst()
    assert "it seems to kill its worker" in job_of(result).last_error


# --- signals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
@pytest.mark.parametrize("task", [tasks.add, tasks.aadd], ids=["thread", "loop"])
def test_a_receiver_that_raises_or_exits_changes_nothing(
    caplog: pytest.LogCaptureFixture, task: Any, kind: type[BaseException]
) -> None:
    def bad(sender: type, **_: Any) -> None:
        raise kind("a bad receiver")

    task_started.connect(bad)
    task_finished.connect(bad)
    try:
        result = run(task, 1, 2)
    finally:
        task_started.disconnect(bad)
        task_finished.disconnect(bad)
    assert (result.status, result.attempts) == (SUCCESSFUL, 1)
    assert caplog.text.count(f"{kind.__name__}: a bad receiver") == 2


@pytest.mark.parametrize("task", [tasks.fail, tasks.afail], ids=["thread", "loop"])
def test_the_log_of_a_failure_has_its_traceback(caplog: pytest.LogCaptureFixture, task: Any) -> None:
    run(task.using(max_attempts=1), "in the log")
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_an_async_receiver_hears_of_both_kinds_of_tasks() -> None:
    found = []

    async def receiver(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
        await asyncio.sleep(0)
        found.append(task_result.return_value)

    task_finished.connect(receiver)
    try:
        run(tasks.add, 1, 2)
        run(tasks.aadd, 3, 4)
    finally:
        task_finished.disconnect(receiver)
    assert found == [3, 7]


def test_receivers_of_the_project_run_where_a_coroutine_may_use_the_database_and_logs_run_on_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            threads.append(threading.current_thread().name)

    def receiver(**_: Any) -> None:
        threads.append("asked of " + threading.current_thread().name.partition("_")[0])

    listening = Listening(logging.INFO)
    log = logging.getLogger("django.tasks" if BUILT_IN else "django_tasks")
    caplog.set_level(logging.INFO, log.name)
    log.addHandler(listening)
    try:
        run(tasks.aadd, 1, 2)
        alone = threads.copy()
        task_finished.connect(receiver)
        run(tasks.aadd, 3, 4)
    finally:
        log.removeHandler(listening)
        task_finished.disconnect(receiver)
    assert alone[-2:] == ["echomq-loop", "echomq-loop"]
    assert threads[-1].startswith("asked of ThreadPoolExecutor")


def test_a_worker_that_was_told_that_its_job_is_lost_tells_no_end(heard: Heard, client: redis.Redis) -> None:
    def do(context: EchoMQContext) -> None:
        context.lease._job.lost = True  # type: ignore[attr-defined]  # as the heartbeat does

    scripted(do)
    assert [each[0] for each in heard] == ["started"]


# --- coroutines ---------------------------------------------------------------------------------------------------


def test_as_many_coroutines_run_at_once_as_the_concurrency_says() -> None:
    running, most, gate = [0], [0], threading.Event()

    async def do(context: EchoMQContext) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        if most[0] == 3:
            gate.set()
        while not gate.is_set():
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.01)
        running[0] -= 1

    tasks.script += [do] * 12
    results = [tasks.ascripted.enqueue() for _ in range(12)]
    burst(concurrency=3)
    assert most == [3]
    for result in results:
        result.refresh()
        assert result.status == SUCCESSFUL


def test_jobs_that_are_fetched_ahead_are_not_begun_ahead() -> None:
    running, most = [0], [0]

    async def do(context: EchoMQContext, seconds: float = 0) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(seconds)
        running[0] -= 1

    quick, slow = 300, 30
    tasks.script += [do] * quick + [partial(do, seconds=0.02)] * slow
    jobs.enqueue_many("default", [envelope.encode("tests.tasks.ascripted", [], {})] * (quick + slow))
    worker = Worker(burst=True, concurrency=3)
    worker.link._prefetch = lambda: 20  # type: ignore[method-assign]
    worker.join()
    assert (most, tasks.script) == ([3], [])


def test_a_task_that_a_coroutine_starts_and_that_exits_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    async def do(context: EchoMQContext) -> None:
        await asyncio.gather(leave())

    async def nothing(context: EchoMQContext) -> str:
        return "there"

    tasks.script += [do, nothing]
    exits, stays = (tasks.ascripted.using(max_attempts=1).enqueue() for _ in range(2))
    burst(concurrency=1)
    exits.refresh()
    stays.refresh()
    assert (exits.status, exits.errors[0].exception_class) == (FAILED, SystemExit)
    assert (stays.status, stays.return_value) == (SUCCESSFUL, "there")
    assert "a coroutine raised SystemExit(3); the loop goes on" in caplog.text


def test_a_worker_that_ends_closes_what_its_coroutines_have_opened(client: redis.Redis) -> None:
    left_behind: list[asyncio.Task[bool]] = []

    async def do(context: EchoMQContext) -> None:
        await jobs.aenqueue("mail", {})
        left_behind.append(asyncio.create_task(asyncio.Event().wait()))

    before = len(client.client_list())
    assert scripted(do, tasks.ascripted).status == SUCCESSFUL
    connection.client().close()
    assert len(client.client_list()) <= before
    assert left_behind[0].cancelled()


def test_a_language_that_a_task_activates_is_not_that_of_the_next_one() -> None:
    def do(context: EchoMQContext) -> str | None:
        before = translation.get_language()
        translation.activate("de")
        return before

    tasks.script += [do, do]
    results = [tasks.scripted.enqueue() for _ in range(2)]
    burst(concurrency=1)
    for result in results:
        result.refresh()
        assert result.return_value == "en-us"


def test_a_coroutine_that_blocks_the_loop_does_not_stop_the_heartbeat(settings: Any, client: redis.Redis) -> None:
    settings.ECHOMQ["default"]["QUEUES"]["default"]["LEASE"] = 0.6
    settings.ECHOMQ = settings.ECHOMQ

    async def do(context: EchoMQContext) -> None:
        first = client.zscore(K.active, context.task_result.id[:14])
        deadline = time.monotonic() + PATIENCE
        while client.zscore(K.active, context.task_result.id[:14]) == first:  # it never gives the loop back
            assert time.monotonic() < deadline

    assert scripted(do, tasks.ascripted).status == SUCCESSFUL


def test_each_coroutine_has_a_context_of_its_own() -> None:
    mark: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=0)

    async def do(context: EchoMQContext) -> int:
        before = mark.get()
        mark.set(7)
        await asyncio.sleep(0)
        return before

    tasks.script += [do] * 3
    results = [tasks.ascripted.enqueue() for _ in range(3)]
    burst()
    for result in results:
        result.refresh()
        assert result.return_value == 0


def test_a_raw_coroutine_handler_runs_on_the_loop_too(settings: Any) -> None:
    settings.ECHOMQ["default"]["QUEUES"]["mail"] = {"HANDLER": "tests.tasks.on_mail", "RESULT_TTL": 60}
    settings.ECHOMQ = settings.ECHOMQ
    done = jobs.enqueue("mail", {"to": "a"})
    burst(queues=("mail",))
    assert jobs.get("mail", done.id).result == b'["a","echomq-loop"]'


def test_a_worker_that_stops_releases_what_a_coroutine_does_not_finish_and_cancels_it() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def do(context: EchoMQContext) -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE * 2)
        finally:
            cancelled.set()

    tasks.script.append(do)
    result = tasks.ascripted.enqueue()
    worker = Worker(shutdown_timeout=0.1)
    assert begun.wait(PATIENCE)
    worker.stop()
    assert worker.join() == 0
    job = job_of(result)
    assert (job.location, job.attempt, job.attempts) == (Location.PENDING, 0, 1)
    assert cancelled.wait(PATIENCE)


@pytest.mark.parametrize("task", [tasks.query, tasks.aquery], ids=["thread", "loop"])
def test_a_task_may_use_the_database(task: Any, tmp_path: Path) -> None:
    # In a file: one in memory is never closed.
    whole = connections.configure_settings({"default": {}, "work": {"ENGINE": "django.db.backends.sqlite3"}})["work"]
    connections.settings["work"] = {**whole, "NAME": str(tmp_path / "work.sqlite3")}
    result = run(task)
    assert (result.status, result.return_value) == (SUCCESSFUL, 1)
