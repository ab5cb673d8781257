"""enqueue: nowhere -> pending | schedule."""

from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
from tests.places import FUTURE, PAST, A, About, B, C, D, K, changed, held, job, now, row, run, seed

HOUR = 3_600_000
RECEIPT = "receipt:r (expires)"


def enqueue(client: redis.Redis, *jobs: str | bytes, receipt: str = "r", **options: Any) -> list[str]:
    return run(client, transitions.enqueue(K, jobs, receipt=receipt, **options))


def test_a_job_enters_pending_with_a_row_of_three_fields_and_wakes_a_worker(client: redis.Redis) -> None:
    assert enqueue(client, A, "p") == ["enqueued"]
    assert held(client) == {
        "pending": [(A, 0)],
        job(A): {"state": "pending", "attempts": "0", "payload": "p"},
        "wake": ["1"],
        RECEIPT: "enqueued",
    }


def test_a_payload_is_stored_byte_for_byte(client: redis.Redis) -> None:
    payload = bytes(range(256)) + b'{"a": 9007199254740993, "b": []}'
    enqueue(client, A, payload)
    assert client.hget(K.row(A), "payload") == payload


def test_an_empty_payload_is_a_payload(client: redis.Redis) -> None:
    assert enqueue(client, A, b"") == ["enqueued"]
    assert held(client)[job(A)] == {"state": "pending", "attempts": "0", "payload": ""}


def test_name_maximum_and_priority_are_kept_and_the_score_is_the_priority_turned_round(client: redis.Redis) -> None:
    assert enqueue(client, A, "p", name="shop.tasks.ship", max_attempts=5, priority=7) == ["enqueued"]
    assert held(client) == {
        "pending": [(A, -7)],
        job(A): row("pending", name="shop.tasks.ship", max_attempts="5", priority="7"),
        "wake": ["1"],
        RECEIPT: "enqueued",
    }


@pytest.mark.parametrize(("priority", "score"), [(100, -100), (-100, 100), (-1, 1), (1, -1)])
def test_every_priority_from_minus_100_to_100_has_its_score(client: redis.Redis, priority: int, score: int) -> None:
    enqueue(client, A, "p", priority=priority)
    assert held(client)["pending"] == [(A, score)]
    assert held(client)[job(A)] == row("pending", priority=str(priority))


@pytest.mark.parametrize("priority", [0, 101, -101])
def test_a_priority_of_nought_or_beyond_the_range_is_not_stored(client: redis.Redis, priority: int) -> None:
    enqueue(client, A, "p", priority=priority)
    assert held(client)["pending"] == [(A, 0)]
    assert held(client)[job(A)] == row("pending")


def test_a_delay_counts_from_the_servers_clock(client: redis.Redis) -> None:
    assert enqueue(client, A, "p", delay_ms=HOUR, priority=3) == ["scheduled"]
    assert held(client) == {
        "schedule": [(A, About(now(client) + HOUR))],
        job(A): row("scheduled", priority="3"),
        "wake": ["1"],
        RECEIPT: "scheduled",
    }


def test_a_time_to_come_is_the_score_in_schedule(client: redis.Redis) -> None:
    assert enqueue(client, A, "p", at_ms=FUTURE) == ["scheduled"]
    assert held(client) == {
        "schedule": [(A, FUTURE)],
        job(A): row("scheduled"),
        "wake": ["1"],
        RECEIPT: "scheduled",
    }


@pytest.mark.parametrize("when", [{"delay_ms": 0}, {"delay_ms": -5}, {"at_ms": PAST}, {"at_ms": 0}])
def test_a_time_that_is_over_means_pending(client: redis.Redis, when: dict[str, int]) -> None:
    assert enqueue(client, A, "p", **when) == ["enqueued"]
    assert held(client) == {"pending": [(A, 0)], job(A): row("pending"), "wake": ["1"], RECEIPT: "enqueued"}


@pytest.mark.parametrize("state", ["pending", "active", "scheduled", "dead", "awaiting_children", ""])
def test_an_id_that_has_a_row_is_a_duplicate_whatever_its_state(client: redis.Redis, state: str) -> None:
    world = {job(A): row(state, 3)}
    seed(client, world)
    assert enqueue(client, A, "other", priority=9, name="x") == ["duplicate"]
    assert held(client) == {**world, RECEIPT: "duplicate"}


def test_an_id_whose_result_is_kept_is_a_duplicate_until_that_is_gone(client: redis.Redis) -> None:
    world = {f"result:{A}": row("completed", 2), f"result:{B}": "junk"}
    seed(client, world)
    assert enqueue(client, A, "p", B, "p") == ["duplicate", "duplicate"]
    assert held(client) == {**world, RECEIPT: "duplicate duplicate"}
    client.delete(K.result(A))
    assert enqueue(client, A, "p", B, "p", receipt="s") == ["enqueued", "duplicate"]


def test_a_scheduled_duplicate_changes_nothing_either(client: redis.Redis) -> None:
    world = {job(A): row("pending"), "pending": [(A, 0)]}
    seed(client, world)
    assert enqueue(client, A, "other", delay_ms=HOUR) == ["duplicate"]
    assert held(client) == {**world, RECEIPT: "duplicate"}


def test_a_row_of_another_type_is_left_alone_as_a_duplicate(client: redis.Redis) -> None:
    seed(client, {job(A): "junk"})
    assert enqueue(client, A, "p") == ["duplicate"]
    assert held(client) == {job(A): "junk", RECEIPT: "duplicate"}


def test_the_words_of_a_batch_stand_in_its_order_and_the_first_of_equal_ids_wins(client: redis.Redis) -> None:
    world = {job(B): row("dead"), "dead": [(B, PAST)]}
    seed(client, world)
    assert enqueue(client, C, "1", B, "2", A, "3", C, "4", D, "5") == [
        "enqueued", "duplicate", "enqueued", "duplicate", "enqueued",
    ]  # fmt: skip
    assert held(client) == {
        **world,
        "pending": [(A, 0), (C, 0), (D, 0)],
        job(A): {**row("pending"), "payload": "3"},
        job(C): {**row("pending"), "payload": "1"},
        job(D): {**row("pending"), "payload": "5"},
        "wake": ["1"],
        RECEIPT: "enqueued duplicate enqueued duplicate enqueued",
    }


def test_a_whole_batch_is_scheduled_at_one_time(client: redis.Redis) -> None:
    assert enqueue(client, B, "p", A, "p", B, "p", at_ms=FUTURE) == ["scheduled", "scheduled", "duplicate"]
    assert held(client) == {
        "schedule": [(A, FUTURE), (B, FUTURE)],
        job(A): row("scheduled"),
        job(B): row("scheduled"),
        "wake": ["1"],
        RECEIPT: "scheduled scheduled duplicate",
    }


def test_no_jobs_leave_no_trace_but_the_receipt(client: redis.Redis) -> None:
    assert enqueue(client) == []
    assert held(client) == {RECEIPT: ""}
    assert enqueue(client, A, "p") == []


def test_a_call_that_is_sent_again_is_answered_from_its_receipt_even_when_the_jobs_are_gone(
    client: redis.Redis,
) -> None:
    seed(client, {job(B): row("dead")})
    assert enqueue(client, A, "p", B, "p") == ["enqueued", "duplicate"]
    client.delete(K.row(A), K.pending, K.wake)
    before = held(client)
    assert enqueue(client, A, "p", B, "p") == ["enqueued", "duplicate"]
    assert held(client) == before


def test_a_receipt_is_kept_for_its_time(client: redis.Redis) -> None:
    enqueue(client, A, "p")
    assert 0 < client.pttl(K.receipt_root + "r") <= transitions.RECEIPT_TTL_MS


def test_an_id_whose_job_is_gone_may_be_used_again_by_another_call(client: redis.Redis) -> None:
    enqueue(client, A, "p")
    client.delete(K.row(A), K.pending)
    assert enqueue(client, A, "new", receipt="s") == ["enqueued"]
    assert held(client)[job(A)] == {**row("pending"), "payload": "new"}


def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis) -> None:
    world = {"pending": [(A, 0)], job(A): row("pending")}
    seed(client, world)
    enqueue(client, B, "p")
    assert held(client) == changed(world, {"pending": [(A, 0), (B, 0)], job(B): row("pending"), RECEIPT: "enqueued"})


def test_a_token_that_nobody_took_is_enough(client: redis.Redis) -> None:
    seed(client, {"wake": ["1"]})
    enqueue(client, A, "p")
    assert held(client)["wake"] == ["1"]


@pytest.mark.parametrize(("at", "tokens"), [(FUTURE - 1, ["1"]), (FUTURE, None), (FUTURE + 1, None)])
def test_only_a_new_earliest_job_of_schedule_wakes_a_worker(
    client: redis.Redis, at: int, tokens: list[str] | None
) -> None:
    seed(client, {"schedule": [(A, FUTURE)], job(A): row("scheduled"), "pending": [(C, 0)], job(C): row("pending")})
    enqueue(client, B, "p", at_ms=at)
    assert held(client).get("wake") == tokens


def test_an_earlier_job_of_pending_does_not_wake_a_worker_when_pending_was_not_empty(client: redis.Redis) -> None:
    seed(client, {"pending": [(B, 0)], job(B): row("pending")})
    enqueue(client, A, "p", priority=5)
    assert "wake" not in held(client)


def test_five_hundred_jobs_fit_in_one_call(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    assert enqueue(client, *(value for one in reversed(minted) for value in (one, "p"))) == ["enqueued"] * 500
    assert held(client)["pending"] == [(one, 0) for one in minted]
