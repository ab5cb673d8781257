"""EchoMQBackend: what is enqueued, and how a task is told from it at every moment of its life."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy

from echomq_django import connection, ids, jobs, keys
from echomq_django.backend import EchoMQBackend
from echomq_django.exceptions import PayloadError, QueueFull, ServerUnavailable
from echomq_django.job import Location
from echomq_django.tasks import EchoMQTask
from echomq_django.tasks.api import (
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from tests import tasks
from tests.handlers import Worker
from tests.places import dump

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


@pytest.fixture
def enqueued() -> Iterator[list[tuple[type, TaskResult[Any]]]]:
    heard: list[tuple[type, TaskResult[Any]]] = []

    def receiver(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
        heard.append((sender, task_result))

    task_enqueued.connect(receiver)
    yield heard
    task_enqueued.disconnect(receiver)


def settle(client: redis.Redis) -> Any:
    """Claim the only job."""
    [claim] = jobs.claim("default")
    return claim


# --- enqueue ------------------------------------------------------------------------------------------------------


def test_a_task_is_stored_as_its_envelope_under_its_name(client: redis.Redis) -> None:
    result = tasks.fail.using(priority=7, max_attempts=4).enqueue("oh")
    job_id, _, queue = result.id.partition(".")
    job = jobs.get(queue, job_id)
    assert json.loads(job.payload) == {"v": 1, "task": "tests.tasks.fail", "args": ["oh"], "kwargs": {}}
    assert (job.name, job.priority, job.max_attempts, job.location) == ("tests.tasks.fail", 7, 4, Location.PENDING)


def test_the_result_of_an_enqueue_is_ready_and_equal_to_what_is_found() -> None:
    result = tasks.echo.enqueue([1, {"a": None}], 2**60, big=2**53 + 1, empty=[])
    assert (result.status, result.args, result.kwargs) == (
        READY,
        [[1, {"a": None}], 2**60],
        {"big": 2**53 + 1, "empty": []},
    )
    assert result.task is tasks.echo
    assert result.enqueued_at is not None
    assert abs(result.enqueued_at - timezone.now()) < timedelta(seconds=60)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert len(result.id) < 64
    assert tasks.echo.get_result(result.id) == result


def test_what_the_caller_does_to_its_arguments_afterwards_changes_no_result() -> None:
    rows: list[Any] = [1]
    result = tasks.echo.enqueue(rows)
    rows.append(2)
    result.args.append(3)
    assert tasks.echo.get_result(result.id).args == [[1]]


def test_a_task_with_everything_changed_is_found_as_it_was_enqueued(settings: Any) -> None:
    settings.TASKS = {
        name: {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": []} for name in ("default", "other")
    }
    at = timezone.now() + timedelta(days=400)
    one = tasks.fail.using(priority=-3, queue_name="mail", run_after=at, max_attempts=9, timeout=1.5, backend="other")
    result = one.enqueue()
    assert result.backend == "other"
    assert one.get_result(result.id) == result
    assert one.get_result(result.id).task == one


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_task_for_later_waits_on_the_schedule(settings: Any, use_tz: bool) -> None:
    settings.USE_TZ = use_tz
    at = timezone.now().replace(microsecond=0) + timedelta(days=2)
    result = tasks.add.using(run_after=at).enqueue(1, 2)
    job = jobs.get("default", result.id[:14])
    assert job.location is Location.SCHEDULE
    assert job.time == int((at if use_tz else timezone.make_aware(at)).timestamp() * 1000)
    found = tasks.add.get_result(result.id)
    assert (found, found.status, found.task.run_after) == (result, READY, at)


def test_a_delay_counts_on_the_servers_clock_and_from_the_enqueue(client: redis.Redis) -> None:
    seconds, micros = client.time()
    result = tasks.add.using(run_after=timedelta(hours=1)).enqueue(1, 2)
    time = jobs.get("default", result.id[:14]).time
    assert time is not None
    assert 0 <= time - (seconds * 1000 + micros // 1000 + 3_600_000) < 60_000


@pytest.mark.parametrize(("given", "stored"), [(True, 1), (5.0, 5), (-100, -100)])
def test_a_priority_is_a_whole_number_whatever_its_type(given: Any, stored: int) -> None:
    result = tasks.add.using(priority=given).enqueue(1, 2)
    assert jobs.get("default", result.id[:14]).priority == stored
    assert type(tasks.add.get_result(result.id).task.priority) is int


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        (1, 2), {1, 2}, {1: "a"}, {None: 1}, float("nan"), float("inf"), b"bytes", "\ud800", uuid4(),
        datetime(2030, 1, 1, tzinfo=UTC), timedelta(1), Colour.RED, Path("/"), gettext_lazy("lazy"), object(), 10**5000,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_argument_that_does_not_survive_is_refused_and_nothing_is_stored(client: redis.Redis, value: Any) -> None:
    before = dump(client)
    for call in (
        tasks.echo.enqueue,
        lambda value: asyncio.run(tasks.echo.aenqueue(value)),
        tasks.echo.enqueue_on_commit,
    ):
        with pytest.raises(PayloadError, match=r"tests\.tasks\.echo was not enqueued to queue 'default'"):
            call(value)
    assert dump(client) == before


def test_a_refused_argument_is_a_type_error_as_with_djangos_backends() -> None:
    with pytest.raises(TypeError):
        tasks.echo.enqueue(object())


def test_a_task_is_validated_again_when_it_is_enqueued(settings: Any) -> None:
    mail = tasks.add.using(queue_name="mail")
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"]}}
    with pytest.raises(InvalidTask, match="mail"):
        mail.enqueue(1, 2)


def test_a_queue_that_has_a_handler_takes_no_tasks(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"default": {"HANDLER": "tests.handlers.on_job"}}}}
    with pytest.raises(InvalidTask, match="HANDLER"):
        tasks.add.enqueue(1, 2)


def test_a_full_server_takes_no_task_and_says_so(client: redis.Redis) -> None:
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueFull):
            tasks.add.enqueue(1, 2)
    finally:
        client.config_set("maxmemory", 0)


def test_a_plain_task_of_djangos_is_taken_too(settings: Any) -> None:
    plain = Task(func=tasks.add.func, priority=0, backend="default", queue_name="default", run_after=None)
    result = plain.enqueue(1, 2)
    assert type(result.task) is Task
    # What is found is the task that its path names.
    assert type(EchoMQBackend("default", {}).get_result(result.id).task) is EchoMQTask


def test_a_coroutine_enqueues_and_asks_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "client", None)  # the sync client is not to be used

    async def both() -> tuple[TaskResult[Any], TaskResult[Any]]:
        result = await tasks.add.aenqueue(1, 2)
        return result, await tasks.add.aget_result(result.id)

    result, found = asyncio.run(both())
    assert result == found


# --- enqueue_on_commit --------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_task_is_stored_when_the_transaction_commits_and_its_result_is_there_at_once(enqueued: list[Any]) -> None:
    with transaction.atomic():
        result = tasks.add.enqueue_on_commit(1, 2)
        assert result.status == READY
        assert enqueued == []
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    result.refresh()
    assert tasks.add.get_result(result.id) == result
    assert enqueued == [(EchoMQBackend, result)]


@pytest.mark.django_db(transaction=True)
def test_a_rollback_stores_no_task_and_tells_nobody(client: redis.Redis, enqueued: list[Any]) -> None:
    with transaction.atomic():
        tasks.add.enqueue_on_commit(1, 2)
        transaction.set_rollback(True)
    assert enqueued == []
    assert jobs.counts("default").pending == 0


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_away_at_the_commit_is_a_loud_error_with_the_task_and_its_arguments(
    private_server: Callable[..., Any], settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}

    def commit() -> None:
        with transaction.atomic():
            tasks.echo.enqueue_on_commit("precious")
            server.stop()

    with pytest.raises(ServerUnavailable) as caught:
        commit()
    assert any("tests.tasks.echo" in note and "precious" in note for note in caught.value.__notes__)


# --- results ------------------------------------------------------------------------------------------------------


def test_a_running_task_is_told_with_its_worker_and_its_start() -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids) == (RUNNING, 1, [claim.owner.rpartition(":")[0]])
    assert result.started_at == result.last_attempted_at
    assert result.started_at is not None
    assert result.finished_at is None
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value


def test_a_task_that_succeeded_is_told_with_its_value() -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.complete(claim, {"sum": 3})
    found = tasks.add.get_result(result.id)
    assert (found.status, found.return_value, found.attempts) == (SUCCESSFUL, {"sum": 3}, 1)
    assert found.finished_at is not None
    assert found.started_at is not None
    assert found.started_at <= found.finished_at
    assert (found.args, found.task) == ([1, 2], tasks.add)


def test_a_task_that_is_tried_again_is_ready_with_its_error() -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.retry(claim, ValueError("no"), delay=60)
    result.refresh()
    assert (result.status, result.attempts) == (READY, 1)
    [error] = result.errors
    assert error.exception_class is ValueError
    assert "ValueError: no" in error.traceback


def test_a_task_that_is_dead_has_failed_with_every_error() -> None:
    result = tasks.add.enqueue(1, 2)
    for number in range(2):
        [claim] = jobs.claim("default")
        jobs.retry(claim, KeyError(number), delay=0, max_attempts=2)
        jobs.promote("default")
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)
    assert result.finished_at is not None
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_lost_lease_is_an_error_and_no_attempt(client: redis.Redis) -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.reap("default")  # it makes this run of the server known
    client.hset(keys.of("default").meta, "reap_after", 0)
    client.zadd(keys.of("default").active, {claim.id: 1})
    assert jobs.reap("default").pending == 1
    result.refresh()
    assert (result.status, result.attempts) == (READY, 0)
    [error] = result.errors
    assert error.exception_class.__name__ == "WorkerLost"
    assert claim.owner.rpartition(":")[0] in error.traceback


def test_a_task_that_was_requeued_starts_counting_anew_and_keeps_its_errors() -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.retry(claim, ValueError("no"), max_attempts=1)
    jobs.requeue("default", claim.id)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (READY, 0, 1)
    [claim] = jobs.claim("default")
    result.refresh()
    assert (result.attempts, result.worker_ids) == (1, [claim.owner.rpartition(":")[0]])


def test_more_attempts_than_records_are_counted_all_the_same(client: redis.Redis) -> None:
    result = tasks.add.enqueue(1, 2)
    client.hset(keys.of("default").row(result.id[:14]), "attempts", 40)
    result.refresh()
    assert (result.attempts, set(result.worker_ids)) == (40, {"unknown"})


@pytest.mark.parametrize(
    "result_id", ["", "x", "JOB0MzT2a4Bc3D", "JOB0MzT2a4Bc3D.", "JOB0MzT2a4Bc3D.a{b", "JOB.default", ".default", None]
)
def test_what_is_no_id_is_unknown(result_id: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result_id)


def test_an_id_that_was_never_given_or_whose_result_has_expired_is_unknown(client: redis.Redis) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(f"{ids.mint()}.default")
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.complete(claim, 3)
    client.delete(keys.of("default").result(claim.id))
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()
    with pytest.raises(TaskResultDoesNotExist):
        asyncio.run(result.arefresh())


def test_a_result_of_a_queue_that_the_backend_does_not_have_is_unknown(settings: Any) -> None:
    result = tasks.add.using(queue_name="mail").enqueue(1, 2)
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"]}}
    with pytest.raises(TaskResultDoesNotExist, match="does not have"):
        task_backends["default"].get_result(result.id)


def test_a_job_that_is_no_task_has_no_result() -> None:
    done = jobs.enqueue("default", b"\xff raw")
    with pytest.raises(TaskResultDoesNotExist, match="not of a task"):
        task_backends["default"].get_result(f"{done.id}.default")


def test_the_result_of_another_task_is_a_mismatch() -> None:
    result = tasks.add.enqueue(1, 2)
    with pytest.raises(TaskResultMismatch):
        tasks.echo.get_result(result.id)


@pytest.mark.parametrize("path", ["no_such_module.task", "tests.tasks.gone", "tests.tasks.not_a_task", "os.system"])
def test_the_result_of_a_task_that_is_not_here_is_told_and_nothing_is_called(path: str) -> None:
    done = jobs.enqueue("default", {"task": path, "args": ["echo"]})
    result = task_backends["default"].get_result(f"{done.id}.default")
    assert (result.status, result.args) == (READY, ["echo"])
    with pytest.raises(ImportError, match="cannot be imported here"):
        result.task.call()


@pytest.mark.parametrize(
    "extra",
    ['"timeout": -5', '"timeout": 1e300', '"timeout": NaN', '"run_after": "2030-01-01T00:00:00"', '"run_after": "x"'],
)
def test_what_a_careless_producer_adds_costs_neither_the_result_nor_the_run(extra: str) -> None:
    done = jobs.enqueue("default", f'{{"task": "tests.tasks.add", "args": [1, 2], {extra}}}')
    assert task_backends["default"].get_result(f"{done.id}.default").status == READY
    Worker(burst=True).join()
    assert task_backends["default"].get_result(f"{done.id}.default").return_value == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 500),
        ("max_attempts", 0),
        ("max_attempts", -3),
        ("started_at", 10**15 - 1),
        ("started_at", 1 - 10**15),
    ],
)
def test_a_row_that_says_what_no_task_may_say_has_a_result(client: redis.Redis, name: str, value: int) -> None:
    result = tasks.add.enqueue(1, 2)
    client.hset(keys.of("default").row(result.id[:14]), name, value)
    assert tasks.add.get_result(result.id).status == READY
    Worker(burst=True).join()
    assert tasks.add.get_result(result.id).return_value == 3


def test_a_single_attempt_was_started_when_it_was_last_attempted() -> None:
    result = tasks.add.enqueue(1, 2)
    [claim] = jobs.claim("default")
    jobs.retry(claim, ValueError("no"), delay=60)
    result.refresh()
    assert result.started_at == result.last_attempted_at


# --- the backend itself -------------------------------------------------------------------------------------------


def test_it_says_what_it_can() -> None:
    backend = task_backends["default"]
    assert isinstance(backend, EchoMQBackend)
    can = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
    assert [getattr(backend, name) for name in can] == [True] * 4


def test_each_thread_has_its_own_and_all_reach_the_same_queue() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append((task_backends["default"], tasks.add.enqueue(1, 2))))
    thread.start()
    thread.join()
    [(backend, result)] = found
    assert backend is not task_backends["default"]
    assert task_backends["default"].get_result(result.id) == result


def test_tasks_are_imported_before_there_is_a_server_or_an_app(tmp_path: Path) -> None:
    code = (
        "from django.conf import settings\n"
        "settings.configure(ECHOMQ={'default': {'LOCATION': 'redis://127.0.0.1:1'}}, USE_TZ=True,\n"
        "    TASKS={'default': {'BACKEND': 'echomq_django.backend.EchoMQBackend', 'QUEUES': []}})\n"
        "import tests.tasks, sys\n"
        "from django.apps import apps\n"
        "assert not apps.ready\n"
        "assert 'echomq_django.models' not in sys.modules\n"
        "print(tests.tasks.add.using(priority=3).priority)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_the_backend_is_the_sender_and_a_receiver_that_raises_changes_nothing(
    enqueued: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def bad(sender: type, **_: Any) -> None:
        raise RuntimeError("a bad receiver")

    task_enqueued.connect(bad)
    try:
        result = tasks.add.enqueue(1, 2)
        again = asyncio.run(tasks.add.aenqueue(1, 2))
    finally:
        task_enqueued.disconnect(bad)
    assert enqueued == [(EchoMQBackend, result), (EchoMQBackend, again)]
    assert "a bad receiver" in caplog.text
    assert jobs.counts("default").pending == 2


def test_another_server_is_named_by_its_alias(settings: Any, private_server: Callable[..., Any], url: str) -> None:
    other = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": url}, "other": {"LOCATION": other.url}}
    settings.TASKS = {
        "default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": [], "OPTIONS": {"ALIAS": "other"}}
    }
    result = tasks.add.enqueue(1, 2)
    assert jobs.get("default", result.id[:14], using="other").name == "tests.tasks.add"
    assert jobs.counts("default").pending == 0
    result.refresh()


# --- checks -------------------------------------------------------------------------------------------------------


def problems(settings: Any, **params: Any) -> list[str]:
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"], **params}}
    return [each.id or "" for each in task_backends["default"].check()]


def test_good_settings_are_not_complained_about_and_no_server_is_asked(settings: Any) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1"}}
    assert problems(settings) == []
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend"}}
    call_command("check", stdout=io.StringIO(), stderr=io.StringIO())


def test_each_mistake_has_a_check(settings: Any, url: str) -> None:
    assert problems(settings, OPTIONS={"ALIASS": "x"}) == ["echomq.E012"]
    assert problems(settings, OPTIONS={"ALIAS": "elsewhere"}) == ["echomq.E013"]
    assert problems(settings, QUEUES=["q" * 49]) == ["echomq.E014"]
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"default": {"HANDLER": "a.b"}}}}
    assert problems(settings) == ["echomq.E015"]
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"default": {"RESULT_TTL": 0}}}}
    assert problems(settings) == ["echomq.W011"]
