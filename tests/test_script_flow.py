"""EchoMQ's flows, as complete, retry and reap keep them: whoever settles a child tells its parent."""

from typing import Any

import pytest
import redis

from echomq_django import transitions
from tests.places import FUTURE, PAST, A, About, B, C, D, K, completed, errors, held, job, now, own, row, run, seed

OUTBOX = "flow:outbox"


def child(parent: str = D, **more: Any) -> dict[str, Any]:
    return row("active", 2, owner="host:1:abcd:7", parent=parent, **more)


def waiting(outstanding: int, parent: str = D, **more: Any) -> dict[str, Any]:
    return {job(parent): row("awaiting_children", **more), f"{job(parent)}:dependencies": str(outstanding)}


def fail(client: redis.Redis, job_id: str = A) -> str:
    call = transitions.retry(K, own(job_id), delay_ms=0, maximum=1, reason="ValueError: no", entry="{}")
    return run(client, call)


def reap(client: redis.Redis) -> Any:
    run_id = client.info("server")["run_id"]
    client.hset(K.meta, mapping={"reap_run": run_id, "reap_after": 0})
    return run(client, transitions.reap(K, limit=9, lease_ms=0, backoff_ms=[], spread=0.5))


def test_a_completed_child_is_counted_and_its_parent_waits_for_the_others(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(), **waiting(2)})
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client) == {
        **waiting(1),
        f"{job(D)}:processed": {A: A},
        **completed(1),
    }


def test_the_last_children_release_their_parent_by_its_priority_and_wake_a_worker(client: redis.Redis) -> None:
    seed(
        client,
        {"active": [(A, FUTURE), (B, FUTURE)], job(A): child(), job(B): child(), **waiting(2, priority="7")},
    )
    assert run(client, transitions.complete(K, [own(A), own(B)])) == ["ok", "ok"]
    assert held(client) == {
        "pending": [(D, -7.0)],
        job(D): row("pending", priority="7"),
        f"{job(D)}:dependencies": "0",
        f"{job(D)}:processed": {A: A, B: B},
        "wake": ["1"],
        **completed(2),
    }


def test_a_child_that_was_reaped_before_it_completed_is_counted_all_the_same(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): child(), **waiting(1)})
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client)["pending"] == [(D, 0.0)]


def test_a_refused_child_counts_for_nothing(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE)], job(A): child(), **waiting(1)}
    seed(client, world)
    assert run(client, transitions.complete(K, [own(A, token=1)])) == ["lost"]
    assert held(client) == world


@pytest.mark.parametrize(
    "parent",
    [
        {},
        {job(D): row("dead"), f"{job(D)}:dependencies": "1"},
        {job(D): row("awaiting_children")},
        {job(D): row("awaiting_children"), f"{job(D)}:dependencies": "many"},
        {job(D): "junk", f"{job(D)}:dependencies": "1"},
    ],
)
def test_a_parent_that_does_not_wait_is_left_as_it_is(client: redis.Redis, parent: dict[str, Any]) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(), **parent})
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client) == {**parent, **completed(1)}


def test_the_word_for_a_parent_in_another_queue_goes_to_the_outbox(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(parent_queue="other")})
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client) == {OUTBOX: [f"other\0{D}\0{A}\0{A}"], **completed(1)}


def test_a_child_that_will_be_retried_says_nothing_yet(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(), **waiting(1)})
    call = transitions.retry(K, own(A), delay_ms=60_000, maximum=9, reason="no", entry="{}")
    assert run(client, call) == "scheduled"
    assert held(client)[job(D)]["state"] == "awaiting_children"


def test_a_dead_child_takes_its_parent_and_its_grandparent_along(client: redis.Redis) -> None:
    seed(
        client,
        {"active": [(A, FUTURE)], job(A): child(), **waiting(2, parent=C), **waiting(3, parent=C, parent_queue="q")},
    )
    client.hset(K.row(C), "parent", D)
    client.hset(K.row(A), "parent", C)
    seed(client, waiting(1))
    assert fail(client) == "dead"
    after = held(client)
    at = now(client)
    assert sorted(member for member, _ in after["dead"]) == [A, C, D]
    assert after[f"{job(C)}:failed"] == {A: "ValueError: no"}
    assert after[f"{job(D)}:failed"] == {C: "ValueError: no"}
    assert (after[job(C)]["state"], after[job(D)]["state"]) == ("dead", "dead")
    assert after[job(D)]["died_at"] == About(at)
    assert after[job(D)]["last_error"] == f"its child {C} is dead: ValueError: no"
    assert after[f"{job(D)}:dependencies"] == "1"
    assert after["metrics:failed"] == {"count": "3"}


def test_an_ignored_death_counts_as_done_and_releases_the_parent(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(parent_policy="id"), **waiting(1)})
    assert fail(client) == "dead"
    after = held(client)
    assert after["pending"] == [(D, 0.0)]
    assert after[job(D)] == row("pending")
    assert after[f"{job(D)}:unsuccessful"] == {A: "ValueError: no"}
    assert after["wake"] == ["1"]


@pytest.mark.parametrize(("policy", "told"), [(None, "fp"), ("fp", "fp"), ("id", "id")])
def test_a_death_is_told_to_a_parent_in_another_queue_with_the_policy(
    client: redis.Redis, policy: str | None, told: str
) -> None:
    more = {} if policy is None else {"parent_policy": policy}
    seed(client, {"active": [(A, FUTURE)], job(A): child(parent_queue="other", **more)})
    assert fail(client) == "dead"
    assert held(client)[OUTBOX] == [f"\0fail\0other\0{D}\0{A}\0{told}\0ValueError: no"]


def test_a_child_whose_worker_was_lost_for_good_takes_its_parent_along(client: redis.Redis) -> None:
    seed(client, {"active": [(A, PAST), (B, PAST)], job(A): child(), job(B): child(), **waiting(2)})
    assert reap(client).dead == 2
    after = held(client)
    assert sorted(member for member, _ in after["dead"]) == [A, B, D]
    assert set(after[f"{job(D)}:failed"]) == {A, B}
    assert after["metrics:failed"] == {"count": "3"}


def test_a_parent_that_died_with_one_child_is_not_released_by_another_of_the_batch(client: redis.Redis) -> None:
    world = {job(A): child(), job(B): child(parent_policy="id"), **waiting(1)}
    seed(client, {"active": [(A, PAST), (B, PAST)], **world})
    assert reap(client).dead == 2
    after = held(client)
    assert "pending" not in after
    assert after[job(D)]["state"] == "dead"


@pytest.mark.parametrize("key", ["dependencies", "processed", "failed", "unsuccessful"])
def test_a_parents_key_of_a_wrong_type_is_an_error_that_names_it_and_changes_nothing(
    client: redis.Redis, key: str
) -> None:
    world = {"active": [(A, FUTURE)], job(A): child(), **waiting(1), f"{job(D)}:{key}": ["x"]}
    seed(client, world)
    with pytest.raises(redis.ResponseError, match=f"WRONGTYPE emq:{{q}}:job:{D}:{key}"):
        run(client, transitions.complete(K, [own(A)]))
    assert held(client) == world


def test_the_errors_of_a_child_stay_its_own(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): child(), **waiting(1)})
    fail(client)
    assert held(client)[errors(A)] == ["{}"]
    assert errors(D) not in held(client)


def test_a_child_that_died_ignored_and_is_completed_after_all_counts_once(client: redis.Redis) -> None:
    seed(client, {"active": [(A, PAST), (B, FUTURE)], job(A): child(parent_policy="id"), job(B): child(), **waiting(2)})
    assert reap(client).dead == 1
    assert held(client)[f"{job(D)}:dependencies"] == "1"
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client)[f"{job(D)}:dependencies"] == "1"
    assert run(client, transitions.complete(K, [own(B)])) == ["ok"]
    assert held(client)["pending"] == [(D, 0.0)]


def test_two_deaths_in_one_family_are_one_death_to_the_grandparent(client: redis.Redis) -> None:
    seed(client, {"active": [(A, PAST), (B, PAST)], job(A): child(parent=C), job(B): child(parent=C)})
    seed(client, {**waiting(2, parent=C, parent_policy="id"), **waiting(2)})
    client.hset(K.row(C), "parent", D)
    assert reap(client).dead == 2
    after = held(client)
    assert after[f"{job(D)}:dependencies"] == "1"
    assert after[f"{job(D)}:unsuccessful"].keys() == {C}
    assert after[job(D)]["state"] == "awaiting_children"
