"""A worker in the process of a project's tests: it sees their rows, and leaves their connection alone."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import redis
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection, connections
from django.test import TestCase, TransactionTestCase

from echomq_django import jobs
from echomq_django.testing import run_until_empty
from echomq_django.worker.held import HeldJob
from tests.handlers import Bench, ledger


@pytest.fixture(autouse=True)
def _bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[None]:
    with Bench(settings, url):
        ledger.do = rename
        yield


def rename(job: HeldJob) -> None:
    """Find a row by its key, as jobs do, change it, and make another one."""
    group = Group.objects.get(pk=job.data["group"])
    group.name = "renamed"
    group.save()
    Group.objects.create(name="made by the job")


def run_and_look(run: Callable[[], object]) -> None:
    group = Group.objects.create(name="made by the test")
    jobs.enqueue("default", {"group": group.pk})
    # What is asked for is looked at, since Django closes no connection to a database in memory.
    with mock.patch.object(connections["default"], "close") as close:
        run()
    assert jobs.counts("default").completed == 1
    close.assert_not_called()
    assert sorted(Group.objects.values_list("name", flat=True)) == ["made by the job", "renamed"]


class WithCommits(TransactionTestCase):
    def test_a_burst_in_a_test_that_commits_sees_its_rows_and_leaves_its_connection_alone(self) -> None:
        run_and_look(lambda: call_command("echomq_worker", "--burst", verbosity=0))


class InsideATransaction(TestCase):
    def test_jobs_run_in_the_transaction_of_a_test_see_its_rows_and_leave_its_connection_alone(self) -> None:
        run_and_look(run_until_empty)
        assert connection.in_atomic_block
