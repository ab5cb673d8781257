"""run_until_empty: a worker's way of running, inside a test."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection

from echomq_django import jobs
from echomq_django.exceptions import EchoMQError
from echomq_django.job import Location
from echomq_django.tasks import EchoMQContext, Retry, task
from echomq_django.tasks.api import TaskResultStatus
from echomq_django.testing import run_until_empty
from tests.server import dump

seen: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


@task
def note(value: Any) -> Any:
    seen.append(value)
    return value


@task
async def anote(value: Any) -> Any:
    await asyncio.sleep(0)
    seen.append(value)
    return value


@task
def count_users() -> int:
    return User.objects.count()


@task
async def acount_users() -> int:
    return await User.objects.acount()


@task
def chain(left: int) -> None:
    seen.append(left)
    if left:
        chain.enqueue(left - 1)


@task
def for_ever() -> None:
    for_ever.enqueue()


@task(max_attempts=3, takes_context=True)
def refuse(context: EchoMQContext) -> None:
    seen.append(context.attempt)
    raise ValueError("no")


@task(takes_context=True)
def later(context: EchoMQContext) -> None:
    seen.append(context.attempt)
    if context.attempt < 3:
        raise Retry(delay=3600)


@task
def interrupt() -> None:
    seen.append("interrupt")
    raise KeyboardInterrupt


@task
async def ainterrupt() -> None:
    seen.append("interrupt")
    raise KeyboardInterrupt


@task(max_attempts=1)
def leave() -> None:
    raise SystemExit(3)


def on_mail(job: Any) -> None:
    seen.append(job.data)


def places(queue: str = "default") -> dict[str, int]:
    counts = jobs.counts(queue)
    return {place: number for place in Location if (number := getattr(counts, place))}


def test_what_is_pending_is_run_in_order_and_settled() -> None:
    results = [note.enqueue(1), note.using(priority=5).enqueue(2), anote.enqueue(3)]

    assert run_until_empty() == 3
    assert seen == [2, 1, 3]
    assert places() == {}
    for result in results:
        result.refresh()
    assert [(result.status, result.return_value) for result in results] == [
        (TaskResultStatus.SUCCESSFUL, 1),
        (TaskResultStatus.SUCCESSFUL, 2),
        (TaskResultStatus.SUCCESSFUL, 3),
    ]


def test_what_jobs_enqueue_is_run_too() -> None:
    chain.enqueue(3)
    assert run_until_empty() == 4
    assert seen == [3, 2, 1, 0]


def test_an_empty_queue_is_nothing_to_do(client: redis.Redis) -> None:
    assert run_until_empty() == 0
    assert run_until_empty(scheduled=True) == 0


def test_only_the_named_queue_is_worked_off() -> None:
    note.using(queue_name="mail").enqueue("mail")
    assert run_until_empty() == 0
    assert run_until_empty("mail") == 1
    assert seen == ["mail"]


def test_a_queue_with_a_handler_is_worked_off_as_well(settings: Any, url: str) -> None:
    queues = {"mail": {"HANDLER": "tests.test_testing_draining.on_mail"}}
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": queues}}
    jobs.enqueue("mail", {"to": "customer@example.org"})
    assert run_until_empty("mail") == 1
    assert seen == [{"to": "customer@example.org"}]


def test_nothing_is_taken_from_a_paused_queue() -> None:
    jobs.pause("default")
    note.enqueue(1)
    assert run_until_empty() == 0
    assert places() == {"pending": 1}


@pytest.mark.django_db
@pytest.mark.parametrize("count", [count_users, acount_users], ids=["function", "coroutine"])
def test_a_task_sees_what_the_open_transaction_of_the_test_has_written(count: Any) -> None:
    User.objects.create(username="not committed")
    result = count.enqueue()
    assert connection.in_atomic_block
    run_until_empty()
    result.refresh()
    assert result.return_value == 1
    assert User.objects.count() == 1


@pytest.mark.django_db
def test_the_queries_of_tasks_are_counted(django_assert_num_queries: Any) -> None:
    count_users.enqueue()
    count_users.enqueue()
    with django_assert_num_queries(3):
        User.objects.exists()
        run_until_empty()


def test_a_retry_stays_on_the_schedule() -> None:
    refuse.enqueue()
    assert run_until_empty() == 1
    assert places() == {"schedule": 1}


def test_retries_are_run_at_once_when_the_schedule_is_run_too() -> None:
    result = refuse.enqueue()
    assert run_until_empty(scheduled=True) == 3
    assert seen == [1, 2, 3]
    assert places() == {"dead": 1}
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 3, 3)


def test_a_retry_an_hour_away_is_run_at_once_when_the_schedule_is_run_too() -> None:
    later.enqueue()
    assert run_until_empty(scheduled=True) == 3
    assert seen == [1, 2, 3]
    assert places() == {}


def test_the_schedule_is_run_in_the_order_of_its_times() -> None:
    for hours in (3, 1, 2):
        jobs.enqueue("default", note_payload(hours), delay=3600 * hours)
    assert run_until_empty(scheduled=True) == 3
    assert seen == [1, 2, 3]


def note_payload(value: Any, name: str = "note") -> dict[str, Any]:
    return {"v": 1, "task": f"{__name__}.{name}", "args": [value], "kwargs": {}}


@pytest.mark.parametrize("task", [interrupt, ainterrupt], ids=["function", "coroutine"])
def test_a_keyboard_interrupt_is_raised_and_the_job_released_at_no_cost(task: Any) -> None:
    result = task.enqueue()
    with pytest.raises(KeyboardInterrupt):
        run_until_empty()
    assert seen == ["interrupt"]
    assert places() == {"pending": 1}
    job = jobs.get("default", result.id.partition(".")[0])
    assert (job.attempts, job.attempt, job.errors) == (1, 0, ())


def test_a_system_exit_is_a_failed_attempt() -> None:
    result = leave.enqueue()
    assert run_until_empty() == 1
    result.refresh()
    assert (result.status, result.errors[0].exception_class) == (TaskResultStatus.FAILED, SystemExit)


def test_more_jobs_than_the_limit_are_an_error_and_the_next_one_waits() -> None:
    for_ever.enqueue()
    with pytest.raises(RuntimeError, match="queue 'default' has more jobs after 5: does one enqueue another"):
        run_until_empty(limit=5)
    assert places() == {"pending": 1}


def test_just_as_many_jobs_as_the_limit_are_fine() -> None:
    note.enqueue(1)
    note.enqueue(2)
    assert run_until_empty(limit=2) == 2


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_task_that_cannot_be_imported_is_put_off_and_not_counted(scheduled: bool) -> None:
    jobs.enqueue("default", note_payload(1, "not_here"))
    note.enqueue(2)
    assert run_until_empty(scheduled=scheduled) == 1
    assert seen == [2]
    assert places() == {"schedule": 1}


@task(takes_context=True)
def lose(context: EchoMQContext) -> None:
    with redis.Redis.from_url(settings.ECHOMQ["default"]["LOCATION"]) as client:
        client.hincrby(f"emq:{{default}}:job:{context.task_result.id.partition('.')[0]}", "attempts", 1)


def test_a_job_that_another_claim_holds_by_now_is_left_to_it(caplog: pytest.LogCaptureFixture) -> None:
    lose.enqueue()
    assert run_until_empty() == 1
    assert places() == {"active": 1}
    assert "token 1 no longer holds it (lost); its outcome is dropped" in caplog.text


def test_a_coroutine_is_told_to_call_it_in_a_thread() -> None:
    note.enqueue(1)

    async def work() -> int:
        return run_until_empty()

    with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
        asyncio.run(work())
    assert places() == {"pending": 1}


def test_a_coroutine_can_call_it_in_a_thread() -> None:
    async def work() -> int:
        await note.aenqueue(1)
        await anote.aenqueue(2)
        return await sync_to_async(run_until_empty)()

    assert asyncio.run(work()) == 2
    assert seen == [1, 2]


def test_what_the_server_has_against_a_settle_is_raised(client: redis.Redis) -> None:
    spoil.enqueue()
    with pytest.raises(EchoMQError, match="complete in queue 'default'"):
        run_until_empty()


@task
def spoil() -> None:
    with redis.Redis.from_url(settings.ECHOMQ["default"]["LOCATION"]) as client:
        client.delete("emq:{default}:schedule")
        client.set("emq:{default}:schedule", "of a wrong type")


def test_the_server_holds_nothing_of_a_worker_afterwards(client: redis.Redis) -> None:
    note.enqueue(1)
    run_until_empty()
    assert not [key for key in dump(client) if "worker" in str(key)]
