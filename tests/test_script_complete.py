"""complete: active -> gone."""

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Claim
from tests.places import (
    FUTURE,
    OTHER,
    OWNER,
    PAST,
    PLACES,
    A,
    B,
    C,
    D,
    G,
    H,
    K,
    changed,
    errors,
    held,
    job,
    lane,
    own,
    row,
    run,
    seed,
    world_with,
)


def complete(client: redis.Redis, *claims: Claim) -> list[str]:
    return run(client, transitions.complete(K, claims))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_the_latest_claimant_completes_its_job_wherever_it_is_and_nobody_else_does(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    words = complete(client, own(A, token=token))
    if place == "gone":
        assert (words, held(client)) == (["gone"], {})
    elif token == 2 and owner in (OWNER, None):
        assert (words, held(client)) == (["ok"], {"metrics:completed": {"count": "1"}})
    else:
        assert (words, held(client)) == (["lost"], world)


def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE), (B, FUTURE)], job(A): "junk", job(B): {"state": "active", "attempts": "x"}}
    seed(client, world)
    assert complete(client, own(A), own(B)) == ["gone", "gone"]
    assert held(client) == world


def test_error_records_and_log_lines_go_with_the_row(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): ["{}"], f"{job(A)}:logs": ["line"]})
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == {"metrics:completed": {"count": "1"}}


def test_the_words_of_a_batch_stand_in_its_order_and_one_job_completes_once(client: redis.Redis) -> None:
    world = {
        "active": [(A, FUTURE), (B, FUTURE), (C, FUTURE)],
        job(A): row("active", 2, owner=OWNER),
        job(B): row("active", 3, owner=OWNER),
        job(C): row("active", 2, owner=OWNER),
        "metrics:completed": {"count": "40"},
    }
    seed(client, world)
    assert complete(client, own(C), own(B), own(D), own(A), own(C)) == ["ok", "lost", "gone", "ok", "gone"]
    assert held(client) == {
        "active": [(B, FUTURE)],
        job(B): row("active", 3, owner=OWNER),
        "metrics:completed": {"count": "42"},
    }


def test_a_stale_and_the_right_claim_of_one_job_in_one_call_are_told_apart(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert complete(client, own(A, token=1), own(A), own(A, token=1)) == ["lost", "ok", "gone"]


def test_a_job_that_lies_in_two_places_leaves_both(client: redis.Redis) -> None:
    # EchoMQ's extend puts an id back into active that has left it.
    seed(
        client,
        {
            "active": [(A, FUTURE)], "pending": [(A, 0)], "schedule": [(A, FUTURE)], "dead": [(A, PAST)],
            job(A): row("pending", 2, owner=OWNER),
        },
    )  # fmt: skip
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == {"metrics:completed": {"count": "1"}}


def test_a_count_that_is_no_number_begins_again(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), "metrics:completed": {"count": "x"}})
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == {"metrics:completed": {"count": "1"}}


def test_an_active_job_of_a_lane_makes_room_for_the_next_one(client: redis.Redis) -> None:
    world = {
        **world_with("active of a lane"),
        lane(G): [(B, 0)], job(B): row("pending", group=G), "glimit": {G: "1"}, "ring": [H], "wake": ["1"],
    }  # fmt: skip
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(
        world,
        {
            "active": None, job(A): None, "gactive": None, "ring": [H, G], "wake": ["1", "1"],
            "metrics:completed": {"count": "1"},
        },
    )  # fmt: skip


@pytest.mark.parametrize("why", ["paused", "still at its limit", "in the ring"])
def test_a_lane_that_may_not_be_served_or_is_offered_already_is_not_offered(client: redis.Redis, why: str) -> None:
    extra = {
        "paused": {"paused": {G}},
        "still at its limit": {"glimit": {G: "2"}},
        "in the ring": {"ring": [H, G]},
    }[why]
    world = {
        **world_with("active of a lane"), "gactive": {G: "3"}, lane(G): [(B, 0)], job(B): row("pending", group=G),
        **extra,
    }  # fmt: skip
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(
        world, {"active": None, job(A): None, "gactive": {G: "2"}, "metrics:completed": {"count": "1"}}
    )


@pytest.mark.parametrize("limit", ["3", "x", None])
def test_a_lane_below_its_limit_or_without_one_is_offered(client: redis.Redis, limit: str | None) -> None:
    world = {
        **world_with("active of a lane"), "gactive": {G: "3"}, lane(G): [(B, 0)], job(B): row("pending", group=G),
    }  # fmt: skip
    if limit:
        world["glimit"] = {G: limit}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert (held(client)["ring"], held(client)["wake"], held(client)["gactive"]) == ([G], ["1"], {G: "2"})


@pytest.mark.parametrize("gactive", ["1", "0", "x", None])
def test_jobs_in_flight_are_never_fewer_than_none(client: redis.Redis, gactive: str | None) -> None:
    world = world_with("active of a lane")
    seed(client, changed(world, {"gactive": {G: gactive} if gactive else None}))
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == {"metrics:completed": {"count": "1"}}


def test_a_job_that_waits_in_its_lane_leaves_it_and_the_others_stay_offered(client: redis.Redis) -> None:
    world = {**world_with("lane"), lane(G): [(A, 0), (B, 0)], job(B): row("pending", group=G), "gactive": {G: "1"}}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(world, {lane(G): [(B, 0)], job(A): None, "metrics:completed": {"count": "1"}})


def test_two_jobs_of_one_lane_make_room_twice(client: redis.Redis) -> None:
    seed(
        client,
        {
            "active": [(A, FUTURE), (B, FUTURE)], "gactive": {G: "3"}, lane(G): [(C, 0)],
            job(A): row("active", 2, group=G), job(B): row("active", 2, group=G), job(C): row("pending", group=G),
        },
    )  # fmt: skip
    assert complete(client, own(A), own(B)) == ["ok", "ok"]
    assert held(client) == {
        "gactive": {G: "1"}, lane(G): [(C, 0)], job(C): row("pending", group=G), "ring": [G], "wake": ["1"],
        "metrics:completed": {"count": "2"},
    }  # fmt: skip


def test_a_wake_list_holds_64_tokens_at_most(client: redis.Redis) -> None:
    world = {**world_with("active of a lane"), lane(G): [(B, 0)], job(B): row("pending", group=G), "wake": ["1"] * 64}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client)["wake"] == ["1"] * 64


def test_five_hundred_jobs_complete_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    rows = {job(one): row("active", 2, owner=OWNER) for one in minted}
    seed(client, {"active": [(one, FUTURE) for one in minted], **rows})
    assert complete(client, *map(own, minted)) == ["ok"] * 500
    assert held(client) == {"metrics:completed": {"count": "500"}}
