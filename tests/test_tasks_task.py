"""EchoMQTask: what a task says of itself, and what `using` changes."""

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from echomq_django.tasks import EchoMQTask, task
from echomq_django.tasks.api import BUILT_IN, InvalidTask, Task
from tests import tasks

DJANGOS = "django.tasks" if BUILT_IN else "django_tasks"
OURS = "echomq_django.backend.EchoMQBackend"
BOTH = {
    "default": {"BACKEND": OURS, "QUEUES": []},
    "stock": {"BACKEND": f"{DJANGOS}.backends.dummy.DummyBackend", "QUEUES": []},
}


def function() -> None: ...


def test_a_bare_decorator_gives_a_task_with_the_defaults() -> None:
    assert type(tasks.add) is EchoMQTask
    assert (tasks.add.priority, tasks.add.queue_name, tasks.add.backend, tasks.add.run_after) == (
        0,
        "default",
        "default",
        None,
    )
    assert (tasks.add.max_attempts, tasks.add.backoff, tasks.add.timeout, tasks.add.takes_context) == (
        None,
        None,
        None,
        False,
    )
    assert tasks.add.call(1, 2) == 3


def test_a_decorator_with_options_gives_a_task_that_has_them() -> None:
    def backoff(error: BaseException, result: Any) -> float:
        return 3

    made = task(priority=5, queue_name="mail", max_attempts=7, backoff=backoff, timeout=30)(function)
    assert (made.priority, made.queue_name, made.max_attempts, made.backoff, made.timeout) == (
        5,
        "mail",
        7,
        backoff,
        30,
    )


def test_the_decorator_gives_the_same_whatever_the_backend_is(settings: Any) -> None:
    settings.TASKS = {"default": BOTH["stock"]}
    assert type(task(max_attempts=3)(function)) is EchoMQTask


@pytest.mark.skipif(not BUILT_IN, reason="the backport's decorator is tried below")
def test_djangos_own_decorator_gives_our_task(settings: Any) -> None:
    from django.tasks import task as own  # noqa: PLC0415

    assert type(own(function)) is EchoMQTask


def test_the_decorator_takes_no_run_after() -> None:
    with pytest.raises(TypeError, match=r"\.using\(run_after"):
        task(run_after=timezone.now())(function)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_attempts", 0), ("max_attempts", True), ("max_attempts", 1.0), ("max_attempts", "3"),
        ("max_attempts", 10**12),
        ("timeout", 0), ("timeout", -1), ("timeout", True), ("timeout", "30"), ("timeout", float("nan")),
        ("timeout", 1e300),
        ("backoff", 3), ("priority", 101), ("priority", 0.5), ("queue_name", "a{b"), ("queue_name", "emq"),
        ("queue_name", "q" * 49),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_where_the_task_is_declared(option: str, value: Any) -> None:
    with pytest.raises(InvalidTask):
        task(**{option: value})(function)


def test_using_changes_our_fields_too_and_leaves_the_task_alone() -> None:
    other = tasks.fail.using(max_attempts=9, timeout=4, priority=7, queue_name="mail")
    assert (other.max_attempts, other.timeout, other.priority, other.queue_name) == (9, 4, 7, "mail")
    assert (tasks.fail.max_attempts, tasks.fail.timeout, tasks.fail.priority) == (3, None, 0)
    assert other.func is tasks.fail.func


def test_using_resets_to_none_what_may_be_none() -> None:
    later = tasks.fail.using(run_after=timezone.now() + timedelta(days=1), max_attempts=9, timeout=4)
    again = later.using(run_after=None, max_attempts=None, timeout=None)
    assert (again.run_after, again.max_attempts, again.timeout) == (None, None, None)
    assert later.using(priority=3).run_after == later.run_after


def test_none_leaves_alone_what_cannot_be_none() -> None:
    assert tasks.add.using(priority=3).using(priority=None, queue_name=None, backend=None).priority == 3


def test_a_backoff_is_not_for_using() -> None:
    with pytest.raises(TypeError):
        tasks.fail.using(backoff=lambda error, result: 1)  # type: ignore[call-arg]


def test_a_run_after_may_be_a_timedelta() -> None:
    before = timezone.now()
    later = tasks.add.using(run_after=timedelta(hours=1))
    assert later.run_after is not None
    assert before + timedelta(hours=1) <= later.run_after <= timezone.now() + timedelta(hours=1)
    assert later.delay == timedelta(hours=1)
    # A time that is given afterwards is the time.
    at = datetime(2100, 1, 1, tzinfo=UTC)
    assert (later.using(run_after=at).run_after, later.using(run_after=at).delay) == (at, None)


def test_a_timedelta_that_is_past_means_now_as_a_past_datetime_does() -> None:
    now = tasks.add.using(run_after=timedelta(seconds=-5))
    assert now.delay == timedelta(0)
    assert now.run_after is not None
    assert now.run_after <= timezone.now()


def test_a_task_in_a_class_is_refused_since_no_worker_would_find_it() -> None:
    def function() -> None: ...

    function.__qualname__ = "Shop.function"
    with pytest.raises(InvalidTask, match=r"Shop\.function is not at the top of a module"):
        task(function)


def test_a_naive_time_is_refused_as_django_does() -> None:
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=datetime(2100, 1, 1))


def test_a_task_of_another_backend_stays_of_its_class(settings: Any) -> None:
    settings.TASKS = BOTH
    assert type(tasks.add.using(backend="stock")) is EchoMQTask
    plain = Task(func=function, priority=0, backend="stock", queue_name="default", run_after=None)
    assert type(plain.using(backend="default")) is Task


def test_equal_tasks_are_equal_whatever_they_were_told_the_delay_in() -> None:
    at = timezone.now()
    assert tasks.add.using(run_after=at) == tasks.add.using(run_after=at)
    assert tasks.add.using(max_attempts=3) != tasks.add
    assert tasks.add.using() == tasks.add


@pytest.mark.skipif(not hasattr(Task, "_reconstruct"), reason="tasks can be pickled from Django 6.1 on")
def test_a_task_survives_a_pickle() -> None:
    one = tasks.fail.using(priority=3, max_attempts=8)
    assert pickle.loads(pickle.dumps(one)) == one


def test_without_a_backend_of_ours_enqueue_on_commit_says_what_to_do(settings: Any) -> None:
    settings.TASKS = BOTH
    with pytest.raises(InvalidTask, match="has no enqueue_on_commit"):
        tasks.add.using(backend="stock").enqueue_on_commit(1, 2)
