"""Jobs that bring what nobody expects: whatever it is, it is stored once, and the worker goes on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import jobs
from echomq_django.worker.held import HeldJob
from tests.handlers import Bench, ledger


@pytest.fixture(autouse=True)
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        bench.queues(default={"MAX_ATTEMPTS": 2, "BACKOFF_BASE": 0})
        yield bench


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def raising(error: BaseException) -> Callable[[HeldJob], Any]:
    def fail(job: HeldJob) -> None:
        raise error

    return fail


def recurse(job: HeldJob) -> None:
    recurse(job)


@pytest.mark.parametrize("name", ["os.abort", "builtins.exit", "tests.handlers.not_a_handler", "\x00", "é" * 500])
def test_the_name_of_a_job_is_a_text_and_names_no_code(bench: Bench, name: str) -> None:
    jobs.enqueue("default", {}, name=name)
    assert bench.burst().link.tally == "1 completed"
    assert [job.name for job in ledger.runs] == [name]


VALUES: list[Any] = [object(), {1, 2}, (each for each in "abc"), "x" * 5_000_000, float("nan"), "\ud800", Mute()]
given: list[int] = []


def give(job: HeldJob) -> Any:
    given.append(job.data)
    return VALUES[job.data]


@pytest.mark.parametrize("ttl", [{}, {"RESULT_TTL": 60}], ids=["dropped", "kept"])
def test_a_handler_may_return_anything_and_is_not_run_again_for_it(bench: Bench, ttl: dict[str, int]) -> None:
    given.clear()
    bench.queues(default={"HANDLER": f"{__name__}.give", **ttl})
    jobs.enqueue_many("default", list(range(len(VALUES))))
    assert bench.burst().link.tally == f"{len(VALUES)} completed"
    assert sorted(given) == list(range(len(VALUES)))


@pytest.mark.parametrize(("fail", "error"), [(raising(Mute()), "Mute"), (recurse, "RecursionError")])
def test_an_error_that_can_hardly_be_told_is_stored_and_its_job_retried_by_the_rules(
    bench: Bench, fail: Callable[[HeldJob], Any], error: str
) -> None:
    ledger.do = fail
    poison = jobs.enqueue("default", {}).id
    assert bench.burst().link.tally == "1 retried, 1 dead"
    records = jobs.get("default", poison).errors
    assert [(record.error.rpartition(".")[2], record.attempt) for record in records] == [(error, 1), (error, 2)]
    ledger.do = lambda job: None
    jobs.enqueue("default", {})
    assert bench.burst().link.tally == "1 completed"


def give_much(job: HeldJob) -> str:
    ledger.run(job)
    return "x" * int(job.data)


def test_a_result_that_is_too_large_to_be_kept_costs_no_second_run_and_stops_no_other_job(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.queues(default={"HANDLER": f"{__name__}.give_much", "RESULT_TTL": 60})
    large, small = (jobs.enqueue("default", size) for size in (2_000_000, 10))
    assert bench.burst().link.tally == "2 completed"
    assert len(ledger.runs) == 2
    assert jobs.get("default", small.id).result == b'"xxxxxxxxxx"'
    assert jobs.get("default", large.id).result in (None, b"")
    assert "is not kept: it has 2,000,002 bytes of JSON" in caplog.text
