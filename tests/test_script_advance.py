"""advance: schedule -> pending, by name."""

from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
from tests.places import (
    FUTURE,
    PAST,
    A,
    About,
    B,
    C,
    D,
    E,
    G,
    K,
    changed,
    held,
    job,
    lane,
    now,
    row,
    run,
    seed,
    world_with,
)


def advance(client: redis.Redis, *job_ids: str) -> list[str]:
    return run(client, transitions.advance(K, job_ids))


def test_named_jobs_run_now_whatever_their_time(client: redis.Redis) -> None:
    world = {
        "schedule": [(A, PAST), (B, FUTURE), (C, FUTURE)],
        job(A): row("scheduled", 3),
        job(B): row("scheduled", priority="4"),
        job(C): row("scheduled"),
    }
    seed(client, world)
    assert advance(client, B, A) == ["ok", "ok"]
    assert held(client) == {
        "schedule": [(C, FUTURE)],
        "pending": [(B, -4), (A, 0)],
        job(A): row("pending", 3),
        job(B): row("pending", priority="4"),
        job(C): row("scheduled"),
        "wake": ["1"],
    }


@pytest.mark.parametrize("place", ["pending", "lane", "active", "active of a lane", "dead", "nowhere"])
def test_a_job_that_is_not_scheduled_is_elsewhere(client: redis.Redis, place: str) -> None:
    world = world_with(place)
    seed(client, world)
    assert advance(client, A) == ["elsewhere"]
    assert held(client) == world


def test_an_id_that_is_nowhere_is_gone(client: redis.Redis) -> None:
    assert advance(client, A, "") == ["gone", "gone"]
    assert held(client) == {}


def test_the_words_of_a_batch_stand_in_its_order_and_one_job_advances_once(client: redis.Redis) -> None:
    world = {
        "schedule": [(A, FUTURE), (B, FUTURE), (C, FUTURE)],
        "active": [(D, FUTURE)],
        **{job(one): row("scheduled") for one in (A, C)},
        job(B): "junk",
        job(D): row("active"),
    }
    seed(client, world)
    assert advance(client, C, E, B, A, D, C, B) == ["ok", "gone", "unsound", "ok", "elsewhere", "elsewhere", "gone"]
    assert held(client) == changed(
        world,
        {
            "schedule": None,
            "pending": [(A, 0), (C, 0)],
            "quarantine": [(B, About(now(client)))],
            job(A): row("pending"),
            job(C): row("pending"),
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize("unsound", [None, "junk", {"state": "scheduled"}, row("scheduled", "-1")])
def test_an_id_whose_row_is_unsound_is_put_aside(client: redis.Redis, unsound: Any) -> None:
    world = changed({"schedule": [(A, FUTURE)]}, {job(A): unsound})
    seed(client, world)
    assert advance(client, A) == ["unsound"]
    assert held(client) == changed(world, {"schedule": None, "quarantine": [(A, About(now(client)))]})


def test_a_job_of_a_lane_goes_to_its_lane(client: redis.Redis) -> None:
    world = {"schedule": [(A, FUTURE)], job(A): row("scheduled", group=G), "glimit": {G: "2"}, "gactive": {G: "1"}}
    seed(client, world)
    assert advance(client, A) == ["ok"]
    assert held(client) == changed(
        world, {"schedule": None, lane(G): [(A, 0)], "ring": [G], "wake": ["1"], job(A): row("pending", group=G)}
    )


def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis) -> None:
    seed(client, {**world_with("schedule"), "pending": [(B, 0)], job(B): row("pending")})
    assert advance(client, A) == ["ok"]
    assert "wake" not in held(client)


@pytest.mark.slow
def test_thousands_of_ids_are_advanced_in_bounded_calls(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8_500)]
    seed(client, {"schedule": [(one, FUTURE) for one in minted], **{job(one): row("scheduled") for one in minted}})
    for first in range(0, len(minted), 500):
        assert advance(client, *minted[first : first + 500]) == ["ok"] * 500
    assert client.zrange(K.pending, 0, -1) == [one.encode() for one in minted]
