"""revise: dead -> pending, with another payload."""

from typing import Any

import pytest
import redis

from echomq_django import transitions
from tests.places import (
    PAST,
    A,
    About,
    B,
    G,
    H,
    K,
    changed,
    errors,
    held,
    job,
    lane,
    logs,
    now,
    row,
    run,
    seed,
    world_with,
)


def revise(client: redis.Redis, job_id: str = A, payload: str | bytes = "other") -> str:
    return run(client, transitions.revise(K, job_id, payload))


def test_a_dead_job_gets_a_new_life_with_another_payload_and_keeps_what_is_not_of_the_old_one(
    client: redis.Redis,
) -> None:
    died = {"last_error": "e", "stalled": "3", "died_at": str(PAST), "deferred_at": "1", "spared": "2"}
    kept = {"owner": "o", "name": "a.b", "max_attempts": "3", "priority": "4", "started_at": "5"}
    old = {"checkpoint": "6", "progress": "7"}
    world = {
        "dead": [(A, PAST), (B, PAST)], job(A): row("dead", 7, **died, **kept, **old), errors(A): ["one"],
        logs(A): ["l"], job(B): row("dead", 7, **old),
    }  # fmt: skip
    seed(client, world)
    assert revise(client) == "ok"
    assert held(client) == changed(
        world,
        {
            "dead": [(B, PAST)],
            "pending": [(A, -4)],
            job(A): {**row("pending", 7, spared="7", **kept), "payload": "other"},
            "wake": ["1"],
        },
    )


def test_a_payload_is_stored_byte_for_byte(client: redis.Redis) -> None:
    seed(client, world_with("dead"))
    assert revise(client, payload=bytes(range(256))) == "ok"
    assert client.hget(K.row(A), "payload") == bytes(range(256))


@pytest.mark.parametrize("place", ["pending", "lane", "active", "active of a lane", "schedule", "nowhere"])
def test_a_job_that_is_not_dead_is_elsewhere(client: redis.Redis, place: str) -> None:
    world = world_with(place)
    seed(client, world)
    assert revise(client) == "elsewhere"
    assert held(client) == world


@pytest.mark.parametrize("job_id", [A, ""])
def test_an_id_that_is_nowhere_is_gone(client: redis.Redis, job_id: str) -> None:
    assert revise(client, job_id) == "gone"
    assert held(client) == {}


@pytest.mark.parametrize("unsound", [None, "junk", {"state": "dead"}, row("dead", "-1")])
def test_an_id_whose_row_is_unsound_is_put_aside(client: redis.Redis, unsound: Any) -> None:
    world = changed({"dead": [(A, PAST)]}, {job(A): unsound})
    seed(client, world)
    assert revise(client) == "unsound"
    assert held(client) == changed(world, {"dead": None, "quarantine": [(A, About(now(client)))]})


def test_a_job_of_a_lane_goes_to_its_lane(client: redis.Redis) -> None:
    world = {"dead": [(A, 0)], job(A): row("dead", 3, group=G), "gactive": {G: "1"}, "ring": [H]}
    seed(client, world)
    assert revise(client) == "ok"
    revised = {**row("pending", 3, group=G, spared="3"), "payload": "other"}
    assert held(client) == changed(
        world, {"dead": None, lane(G): [(A, 0)], "ring": [H, G], "wake": ["1"], job(A): revised}
    )


def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis) -> None:
    seed(client, {**world_with("dead"), "pending": [(B, 0)], job(B): row("pending")})
    assert revise(client) == "ok"
    assert "wake" not in held(client)


def test_a_job_that_was_revised_is_not_revised_again(client: redis.Redis) -> None:
    seed(client, world_with("dead"))
    assert [revise(client), revise(client, payload="third")] == ["ok", "elsewhere"]
    assert held(client)[job(A)]["payload"] == "other"
