"""release: active -> pending."""

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Claim
from tests.places import (
    FUTURE,
    OTHER,
    OWNER,
    PLACES,
    A,
    B,
    C,
    D,
    G,
    H,
    K,
    changed,
    held,
    job,
    lane,
    own,
    row,
    run,
    seed,
    world_with,
)


def release(client: redis.Redis, *claims: Claim) -> list[str]:
    return run(client, transitions.release(K, claims))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_only_the_claimant_of_an_active_job_gives_it_back(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    words = release(client, own(A, token=token))
    if not place.startswith("active") or token != 2 or owner == OTHER:
        assert (words, held(client)) == (["lost"], world)
        return
    waits = {"pending": [(A, 0)]} if place == "active" else {lane(G): [(A, 0)], "ring": [G], "gactive": None}
    given_back = {**world[job(A)], "state": "pending", "spared": "1"}
    assert words == ["ok"]
    assert held(client) == changed(world, {"active": None, **waits, job(A): given_back, "wake": ["1"]})


@pytest.mark.parametrize(("spared", "after"), [("4", "5"), ("x", "1"), ("", "1"), ("-3", "1")])
def test_a_release_costs_no_attempt(client: redis.Redis, spared: str, after: str) -> None:
    seed(client, world_with("active", spared=spared))
    assert release(client, own(A)) == ["ok"]
    assert held(client)[job(A)] == row("pending", 2, owner=OWNER, spared=after)


@pytest.mark.parametrize(
    ("priority", "score"), [("9", -9), ("-100", 100), ("100", -100), ("101", 0), ("x", 0), ("", 0), ("nan", 0)]
)
def test_a_released_job_gets_its_priority_back(client: redis.Redis, priority: str, score: int) -> None:
    seed(client, world_with("active", priority=priority))
    assert release(client, own(A)) == ["ok"]
    assert held(client)["pending"] == [(A, score)]


def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis) -> None:
    world = {**world_with("active"), "pending": [(B, 0)], job(B): row("pending")}
    seed(client, world)
    assert release(client, own(A)) == ["ok"]
    assert held(client) == changed(
        world, {"active": None, "pending": [(A, 0), (B, 0)], job(A): row("pending", 2, owner=OWNER, spared="1")}
    )


def test_the_words_of_a_batch_stand_in_its_order_and_one_job_is_given_back_once(client: redis.Redis) -> None:
    world = {
        "active": [(A, FUTURE), (B, FUTURE), (C, FUTURE)],
        job(A): row("active", 2, owner=OWNER),
        job(B): row("active", 3, owner=OWNER),
        job(C): row("active", 2),
    }
    seed(client, world)
    assert release(client, own(C), own(B), own(D), own(A), own(C)) == ["ok", "lost", "lost", "ok", "lost"]
    assert held(client) == changed(
        world,
        {
            "active": [(B, FUTURE)],
            "pending": [(A, 0), (C, 0)],
            job(A): row("pending", 2, owner=OWNER, spared="1"),
            job(C): row("pending", 2, spared="1"),
            "wake": ["1"],
        },
    )


def test_a_released_job_returns_to_its_lane_even_when_that_is_paused(client: redis.Redis) -> None:
    world = {**world_with("active of a lane"), "gactive": {G: "2"}, "paused": {G}}
    seed(client, world)
    assert release(client, own(A)) == ["ok"]
    given_back = row("pending", 2, group=G, owner=OWNER, spared="1")
    assert held(client) == changed(world, {"active": None, lane(G): [(A, 0)], "gactive": {G: "1"}, job(A): given_back})


def test_a_lane_at_its_limit_has_room_for_the_job_that_was_released(client: redis.Redis) -> None:
    world = {**world_with("active of a lane"), "gactive": {G: "1", H: "4"}, "glimit": {G: "1"}}
    seed(client, world)
    assert release(client, own(A)) == ["ok"]
    given_back = row("pending", 2, group=G, owner=OWNER, spared="1")
    assert held(client) == changed(
        world,
        {
            "active": None, lane(G): [(A, 0)], "gactive": {H: "4"}, "ring": [G], "wake": ["1"], job(A): given_back,
        },
    )  # fmt: skip


def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE), (B, FUTURE)], job(A): "junk", job(B): {"state": "active", "attempts": ""}}
    seed(client, world)
    assert release(client, own(A), own(B)) == ["lost", "lost"]
    assert held(client) == world


def test_five_hundred_jobs_are_given_back_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    seed(client, {"active": [(one, FUTURE) for one in minted], **{job(one): row("active", 2) for one in minted}})
    assert release(client, *map(own, minted)) == ["ok"] * 500
    assert held(client)["pending"] == [(one, 0) for one in minted]
    assert held(client)["wake"] == ["1"]
