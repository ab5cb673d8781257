"""enqueue_on_commit: a job exists when its transaction's rows do, and nobody is left in the dark when it does not."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Group
from django.db import connections, transaction

from echomq_django import embedded, ids, jobs, keys
from echomq_django.exceptions import EchoMQError, InvalidQueueName, JobGone, PayloadError, QueueFull, ServerUnavailable
from tests.server import dump

MAIL = keys.of("mail")
pytestmark = pytest.mark.django_db(transaction=True)


class Rolled(Exception):
    """What rolls a transaction back."""


def promise_and_roll_back() -> str:
    """Give the id of a job whose transaction was rolled back."""
    job_id = ""
    with suppress(Rolled), transaction.atomic():
        job_id = jobs.enqueue_on_commit("mail", b"payload")
        raise Rolled
    return job_id


@pytest.fixture
def other_database() -> Iterator[str]:
    """Add a second database for the length of a test."""
    connections.databases["other"] = {**connections.databases["default"], "NAME": ":memory:"}
    # Django's test case lets nobody connect to a database that it was not told of before; this one is connected.
    connections["other"].connect()
    yield "other"
    connections["other"].connection.close()  # Django's own close() leaves SQLite's in memory alone
    del connections["other"]
    del connections.databases["other"]


def test_outside_a_transaction_the_job_is_stored_at_once() -> None:
    job_id = jobs.enqueue_on_commit("mail", {"order": 7})
    assert jobs.get("mail", job_id).payload == b'{"order":7}'


def test_inside_a_transaction_the_job_is_stored_by_the_commit_under_the_id_that_was_given() -> None:
    with transaction.atomic():
        Group.objects.create(name="buyers")
        job_id = jobs.enqueue_on_commit(
            "mail", {"order": 7}, delay=60, priority=5, name="shop.tasks.send", max_attempts=2
        )
        with pytest.raises(JobGone, match=f"queue 'mail' has no job {job_id}"):
            jobs.get("mail", job_id)
    job = jobs.get("mail", job_id)
    assert (job.id, job.location, job.payload) == (job_id, "schedule", b'{"order":7}')
    assert (job.priority, job.name, job.max_attempts) == (5, "shop.tasks.send", 2)


def test_a_rollback_stores_nothing(client: redis.Redis) -> None:
    job_id = promise_and_roll_back()
    assert dump(client) == {}
    with pytest.raises(JobGone):
        jobs.get("mail", job_id)


def test_a_savepoint_that_is_rolled_back_takes_only_its_own_job_with_it() -> None:
    with transaction.atomic():
        kept = jobs.enqueue_on_commit("mail", b"kept")
        lost = promise_and_roll_back()
    assert [job.id for job in jobs.page("mail", "pending")] == [kept]
    assert jobs.location("mail", lost) is None


def test_a_worker_never_meets_a_job_before_its_row(client: redis.Redis) -> None:
    with transaction.atomic():
        Group.objects.create(name="buyers")
        jobs.enqueue_on_commit("mail", b"payload")
        assert jobs.claim("mail") == []
    assert len(jobs.claim("mail")) == 1


def test_jobs_are_stored_in_the_order_in_which_they_were_promised() -> None:
    with transaction.atomic():
        promised = [jobs.enqueue_on_commit("mail", str(number)) for number in range(5)]
    assert [job.id for job in jobs.page("mail", "pending")] == promised


def test_the_transaction_is_that_of_the_named_database(other_database: str) -> None:
    with transaction.atomic(using=other_database):
        here = jobs.enqueue_on_commit("mail", b"the default database is in no transaction")
        there = jobs.enqueue_on_commit("mail", b"the other one is", database=other_database)
        assert jobs.location("mail", here) == "pending"
        assert jobs.location("mail", there) is None
    assert jobs.location("mail", there) == "pending"


def test_the_server_is_the_named_one(settings: Any, url: str, client: redis.Redis) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}, "second": {"LOCATION": url}}
    with transaction.atomic():
        job_id = jobs.enqueue_on_commit("mail", b"payload", using="second")
    assert jobs.location("mail", job_id, using="second") == "pending"


@pytest.mark.parametrize(
    ("queue", "data", "options", "error"),
    [
        ("mail", object(), {}, PayloadError),
        ("mail", b"", {"delay": -1}, ValueError),
        ("mail", b"", {"priority": 101}, ValueError),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said_before_the_commit(
    client: redis.Redis, queue: str, data: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with transaction.atomic():
        with pytest.raises(error):
            jobs.enqueue_on_commit(queue, data, **options)
        Group.objects.create(name="buyers")
    assert Group.objects.count() == 1
    assert dump(client) == {}


@pytest.mark.slow
def test_a_server_that_is_down_at_the_commit_is_said_loudly_and_soon_with_the_id_and_the_payload(
    private_server: Callable[..., embedded.PrivateServer], settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.counts("mail")
    ran = []
    started = 0.0

    def promise() -> None:
        nonlocal started
        with transaction.atomic():
            transaction.on_commit(lambda: ran.append("before"))
            Group.objects.create(name="buyers")
            promised.append(jobs.enqueue_on_commit("mail", {"order": 7}))
            transaction.on_commit(lambda: ran.append("after"))
            server.kill()
            started = time.monotonic()

    promised: list[str] = []
    with pytest.raises(ServerUnavailable, match="queue 'mail'") as caught:
        promise()
    assert time.monotonic() - started < 4
    [note] = caught.value.__notes__
    assert promised[0] in note
    assert '{"order":7}' in note
    assert "'mail'" in note
    # As the docstring says: the row is there, and hooks that were registered later are skipped.
    assert Group.objects.count() == 1
    assert ran == ["before"]
    server.restart()
    assert jobs.enqueue("mail", {"order": 7}, id=promised[0]).status == "enqueued"


def test_a_full_server_at_the_commit_is_said_with_the_id(
    private_server: Callable[..., embedded.PrivateServer], settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    jobs.counts("mail")
    with redis.Redis.from_url(server.url) as plain:
        plain.config_set("maxmemory", 1)
    promised = []

    def promise() -> None:
        with transaction.atomic():
            promised.append(jobs.enqueue_on_commit("mail", b"payload"))

    with pytest.raises(QueueFull) as caught:
        promise()
    assert promised[0] in caught.value.__notes__[0]


def test_an_id_that_another_process_has_minted_meanwhile_is_not_taken_for_our_job() -> None:
    promised = []

    def promise() -> None:
        with transaction.atomic():
            promised.append(jobs.enqueue_on_commit("mail", b"ours"))
            jobs.enqueue("mail", b"theirs", id=promised[0])

    with pytest.raises(EchoMQError, match="another process minted this id") as caught:
        promise()
    assert promised[0] in str(caught.value)
    assert jobs.get("mail", promised[0]).payload == b"theirs"


def test_the_id_is_a_branded_one() -> None:
    assert ids.check_job(promise_and_roll_back())


@pytest.mark.django_db(transaction=True)
def test_a_wrong_queue_and_a_wrong_server_are_said_before_the_commit() -> None:
    with transaction.atomic():
        with pytest.raises(InvalidQueueName):
            jobs.enqueue_on_commit("no queue", b"")
        with pytest.raises(Exception, match="nowhere"):
            jobs.enqueue_on_commit("mail", b"", using="nowhere")
        transaction.set_rollback(True)
