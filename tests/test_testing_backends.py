"""The backends for tests: they refuse and accept what EchoMQBackend does, and ask no server."""

import asyncio
import datetime as dt
import logging
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from echomq_django.exceptions import Discard, Retry
from echomq_django.tasks import EchoMQContext, EchoMQTask, TaskTimeout, api, task
from echomq_django.tasks.api import InvalidTask, TaskResultDoesNotExist, TaskResultStatus, default_task_backend
from echomq_django.testing import DummyBackend, ImmediateBackend, Note, run_until_empty
from tests.server import dump

REAL = "echomq_django.backend.EchoMQBackend"
IMMEDIATE = "echomq_django.testing.ImmediateBackend"
DUMMY = "echomq_django.testing.DummyBackend"

seen: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


@pytest.fixture(params=[IMMEDIATE, DUMMY], ids=["immediate", "dummy"])
def backend(request: pytest.FixtureRequest, settings: Any) -> Any:
    use(settings, request.param)
    return default_task_backend


@pytest.fixture
def immediate(settings: Any) -> Any:
    use(settings, IMMEDIATE)
    return default_task_backend


@pytest.fixture
def dummy(settings: Any) -> Any:
    use(settings, DUMMY)
    return default_task_backend


def use(settings: Any, path: str) -> None:
    settings.TASKS = {"default": {"BACKEND": path, "QUEUES": []}}


@task
def note(*args: Any, **kwargs: Any) -> Any:
    seen.append((args, kwargs))
    return {"args": list(args), "kwargs": kwargs}


@task
async def anote(value: Any) -> Any:
    seen.append(value)
    return value


@task
def fail(what: str) -> None:
    raise {
        "value": ValueError, "exit": SystemExit, "discard": Discard, "retry": Retry, "interrupt": KeyboardInterrupt,
    }[what]("no")  # fmt: skip


@task(takes_context=True, max_attempts=4, timeout=30)
def report(context: EchoMQContext, name: str) -> Any:
    context.progress(1, 2, "half")
    context.log(f"hello {name}")
    first = context.last_checkpoint
    context.checkpoint({"row": 7})
    context.raise_if_lost()
    return [context.attempt, context.token, context.lost, first, context.last_checkpoint]


@task(takes_context=True)
async def areport(context: EchoMQContext) -> Any:
    await context.aprogress(1)
    await context.alog("hello")
    await context.acheckpoint([1])
    return context.last_checkpoint


@task(timeout=0.05)
def slow() -> None:
    while True:
        pass


@task
def count_users() -> int:
    return User.objects.count()


def plain() -> str:
    return "plain"


hidden = [task(plain)]  # its path leads to the function, as a decorator written as a call may


class Colour(Enum):
    RED = "red"


# --- what is accepted and refused ------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, 0, -1, 2**70, 0.5, "", "text", "\x00", "\u2028", [1, [2, {}]], {"a": {"b": None}},
    (1, 2), {1, 2}, {1: "a"}, {True: "b"}, {None: 1}, float("nan"), float("inf"), b"bytes", "\ud800", 10**5000,
    Decimal("1.5"), UUID(int=1), dt.datetime(2030, 1, 1, tzinfo=dt.UTC), dt.datetime(2030, 1, 1), dt.date(2030, 1, 1),
    dt.timedelta(1), Colour.RED, Path("/"), gettext_lazy("lazy"), mark_safe("safe"), object(),
]  # fmt: skip


def outcome(value: Any) -> Any:
    """Enqueue a value, work, and tell what the task got of it, or how it was refused."""
    try:
        result = note.enqueue(value, key=[value])
    except Exception as error:
        return type(error), str(error)
    run_until_empty()
    return result.args, result.kwargs, [(args, kwargs) for args, kwargs in seen]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_taken_or_refused_as_the_real_backend_does_it(settings: Any, value: Any) -> None:
    told = {}
    for path in (REAL, IMMEDIATE, DUMMY):
        seen.clear()
        use(settings, path)
        told[path] = outcome(value)
    assert told[IMMEDIATE] == told[REAL]
    if isinstance(told[REAL][0], type):
        assert told[DUMMY] == told[REAL]
        assert seen == []
    else:
        assert told[DUMMY][:2] == told[REAL][:2]
        assert told[DUMMY][2] == []


@pytest.mark.django_db
def test_a_model_instance_and_a_queryset_are_refused(backend: Any) -> None:
    user = User.objects.create(username="one")
    for value in (user, User.objects.all()):
        with pytest.raises(TypeError, match="Unsupported type"):
            note.enqueue(value)


@pytest.mark.parametrize(
    "change",
    [
        {"queue_name": "q" * 49}, {"queue_name": "white space"}, {"queue_name": "emq"}, {"priority": 101},
        {"priority": 0.5}, {"run_after": dt.datetime(2030, 1, 1)}, {"max_attempts": 0}, {"timeout": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_task_is_refused_as_the_real_backend_refuses_it(settings: Any, change: dict[str, Any]) -> None:
    told = set()
    for path in (REAL, IMMEDIATE, DUMMY):
        use(settings, path)
        with pytest.raises(InvalidTask) as caught:
            note.using(**change)
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_queue_with_a_handler_takes_no_tasks(settings: Any, url: str, backend: Any) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"default": {"HANDLER": "tests.handlers.on_job"}}}}
    with pytest.raises(InvalidTask, match="Queue 'default' has a HANDLER in ECHOMQ"):
        note.enqueue()


def test_a_queue_that_is_not_in_queues_is_refused(settings: Any, backend: Any) -> None:
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": ["default"]}}
    with pytest.raises(InvalidTask, match="Queue 'mail' is not valid for backend"):
        note.using(queue_name="mail")


def test_a_task_may_wait_until_later(backend: Any) -> None:
    result = note.using(run_after=timezone.now() + dt.timedelta(days=1)).enqueue()
    assert result.is_finished == isinstance(note.get_backend(), ImmediateBackend)
    assert note.using(run_after=dt.timedelta(days=1)).enqueue().args == []


def test_options_are_checked_as_for_the_real_backend(settings: Any, backend: Any) -> None:
    assert backend.check() == []
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"ALIAS": "other", "SPEED": 9}}}
    assert [each.id for each in default_task_backend.check()] == ["echomq.E012", "echomq.E013"]


def test_they_are_djangos_own_and_make_our_tasks(immediate: Any, settings: Any) -> None:
    assert isinstance(api.task_backends["default"], ImmediateBackend)
    assert issubclass(ImmediateBackend, api.ImmediateBackend)
    assert issubclass(DummyBackend, api.DummyBackend)
    assert ImmediateBackend.task_class is DummyBackend.task_class is EchoMQTask


@pytest.mark.django_db
def test_no_server_is_asked(client: redis.Redis, settings: Any, backend: Any) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}}
    report.enqueue("you")
    note.enqueue_on_commit(1)
    asyncio.run(anote.aenqueue(1))
    assert dump(client) == {}


# --- immediate -------------------------------------------------------------------------------------------------------


def test_a_task_is_run_at_once_with_arguments_of_its_own(immediate: Any) -> None:
    mine: dict[str, Any] = {"list": [1]}
    result = note.enqueue(mine, copy=True)
    mine["list"].append(2)
    assert seen == [(({"list": [1]},), {"copy": True})]
    assert (result.status, result.args, result.kwargs) == (
        TaskResultStatus.SUCCESSFUL, [{"list": [1]}], {"copy": True},
    )  # fmt: skip
    assert result.return_value == {"args": [{"list": [1]}], "kwargs": {"copy": True}}
    assert result.task == note
    assert result.attempts == 1
    assert result.id.endswith(".default")
    assert result.enqueued_at <= result.started_at <= result.finished_at


def test_a_coroutine_is_run_at_once(immediate: Any) -> None:
    assert anote.enqueue(1).return_value == 1
    assert asyncio.run(anote.aenqueue(2)).return_value == 2
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("what", "kind"), [("value", ValueError), ("exit", SystemExit), ("discard", Discard), ("retry", Retry)]
)
def test_a_task_that_raises_has_failed_after_one_attempt(immediate: Any, what: str, kind: type[BaseException]) -> None:
    result = fail.using(max_attempts=5).enqueue(what)
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert [error.exception_class for error in result.errors] == [kind]
    assert result.finished_at is not None
    assert result.task == fail.using(max_attempts=5)


def test_a_keyboard_interrupt_is_raised(immediate: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail.enqueue("interrupt")


def test_a_task_that_takes_too_long_is_stopped(immediate: Any) -> None:
    result = slow.enqueue()
    assert [error.exception_class for error in result.errors] == [TaskTimeout]


def test_the_context_is_that_of_a_first_attempt_and_what_it_writes_is_kept(immediate: Any) -> None:
    result = report.enqueue("you")
    assert result.return_value == [1, 1, False, None, {"row": 7}]
    assert list(immediate.notes) == [
        Note(result.id, "progress", {"done": 1, "total": 2, "note": "half"}),
        Note(result.id, "log", "hello you"),
        Note(result.id, "checkpoint", {"row": 7}),
    ]


def test_the_context_of_a_coroutine_writes_as_well(immediate: Any) -> None:
    result = areport.enqueue()
    assert result.return_value == [1]
    assert [(each.kind, each.value) for each in immediate.notes if each.kind != "progress"] == [
        ("log", "hello"), ("checkpoint", [1]),
    ]  # fmt: skip


def test_a_return_value_that_could_not_be_kept_fails_the_task(immediate: Any, settings: Any) -> None:
    result = give_tuple.enqueue()
    assert [error.exception_class for error in result.errors] == [TypeError]


@task
def give_tuple() -> Any:
    return (1, 2)


def test_the_signals_are_sent_with_the_backend_and_nothing_else_logs_an_error(
    immediate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []

    def listen(name: str) -> Any:
        return lambda sender, task_result, **kwargs: heard.append((name, sender, task_result.status))

    receivers = {
        signal: listen(name)
        for name, signal in [
            ("enqueued", api.task_enqueued), ("started", api.task_started), ("finished", api.task_finished),
        ]
    }  # fmt: skip
    try:
        for signal, receiver in receivers.items():
            signal.connect(receiver)
        with caplog.at_level(logging.ERROR):
            note.enqueue()
    finally:
        for signal, receiver in receivers.items():
            signal.disconnect(receiver)
    assert heard == [
        ("enqueued", ImmediateBackend, TaskResultStatus.READY),
        ("started", ImmediateBackend, TaskResultStatus.RUNNING),
        ("finished", ImmediateBackend, TaskResultStatus.SUCCESSFUL),
    ]
    assert caplog.records == []


def test_a_task_whose_path_leads_to_something_else_is_refused_as_by_the_real_backend(immediate: Any) -> None:
    with pytest.raises(InvalidTask, match=r"'tests\.test_testing_backends\.plain' is a function, not a Task"):
        hidden[0].enqueue()


@pytest.mark.django_db
def test_it_runs_in_the_transaction_of_its_caller(immediate: Any, django_assert_num_queries: Any) -> None:
    User.objects.create(username="not committed")
    with django_assert_num_queries(1):
        assert count_users.enqueue().return_value == 1
    assert connection.in_atomic_block


# --- on commit -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_on_commit_a_task_runs_at_the_commit_and_its_result_is_brought_up_to_date(
    immediate: Any, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        result = note.enqueue_on_commit(1)
        assert (seen, result.status) == ([], TaskResultStatus.READY)
    assert seen == [((1,), {})]
    assert (result.status, result.return_value["args"]) == (TaskResultStatus.SUCCESSFUL, [1])


@pytest.mark.django_db
def test_on_commit_a_result_is_kept_at_the_commit(dummy: Any, django_capture_on_commit_callbacks: Any) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        result = note.enqueue_on_commit(1)
        assert dummy.results == []
    assert dummy.results == [result]


@pytest.mark.django_db(transaction=True)
def test_nothing_happens_after_a_rollback(backend: Any) -> None:
    with transaction.atomic():
        note.enqueue_on_commit(1)
        transaction.set_rollback(True)
    assert seen == []
    assert not getattr(backend, "results", [])


@pytest.mark.django_db
def test_on_commit_what_is_wrong_is_said_at_once(backend: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        note.enqueue_on_commit({1, 2})


# --- dummy -----------------------------------------------------------------------------------------------------------


def test_dummy_keeps_what_was_enqueued_and_runs_nothing(dummy: Any) -> None:
    first, second = note.enqueue(1), asyncio.run(anote.aenqueue(2))
    assert dummy.results == [first, second]
    assert dummy.get_result(first.id) == first
    assert asyncio.run(dummy.aget_result(second.id)) == second
    assert first.status == TaskResultStatus.READY
    assert seen == []
    first.args.append("changed")
    assert dummy.results[0].args == [1]
    dummy.clear()
    with pytest.raises(TaskResultDoesNotExist):
        dummy.get_result(first.id)
