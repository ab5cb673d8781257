"""defer: active -> schedule."""

from typing import Any

import pytest
import redis

from echomq_django import transitions
from echomq_django.job import Claim
from tests.places import (
    FUTURE,
    OTHER,
    OWNER,
    PAST,
    PLACES,
    A,
    About,
    B,
    G,
    K,
    changed,
    held,
    job,
    lane,
    now,
    own,
    row,
    run,
    seed,
    world_with,
)

MINUTE = 60_000


def defer(client: redis.Redis, claim: Claim | None = None) -> str:
    return run(client, transitions.defer(K, claim or own(A), delay_ms=MINUTE, reason="not here"))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_only_the_claimant_of_an_active_job_puts_it_off(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    word = defer(client, own(A, token=token))
    if not place.startswith("active") or token != 2 or owner == OTHER:
        assert (word, held(client)) == ("lost", world)
        return
    at = now(client)
    assert word == "ok"
    assert held(client) == changed(
        world,
        {
            "active": None,
            "gactive": None,
            "schedule": [(A, About(at + MINUTE))],
            job(A): {
                **world[job(A)],
                "state": "scheduled",
                "spared": "1",
                "deferred_at": About(at),
                "last_error": "not here",
            },
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize(("spared", "after"), [("4", "5"), ("x", "1"), ("", "1")])
def test_a_deferral_costs_no_attempt(client: redis.Redis, spared: str, after: str) -> None:
    seed(client, world_with("active", spared=spared))
    assert defer(client) == "ok"
    assert (held(client)[job(A)]["attempts"], held(client)[job(A)]["spared"]) == ("2", after)


def test_the_time_of_the_first_deferral_is_kept(client: redis.Redis) -> None:
    seed(client, world_with("active", deferred_at=str(PAST)))
    assert defer(client) == "ok"
    assert held(client)[job(A)]["deferred_at"] == str(PAST)


def test_a_time_of_the_first_deferral_that_is_no_number_is_replaced(client: redis.Redis) -> None:
    seed(client, world_with("active", deferred_at="x"))
    assert defer(client) == "ok"
    assert held(client)[job(A)]["deferred_at"] == About(now(client))


@pytest.mark.parametrize(("others", "tokens"), [(FUTURE, ["1"]), (PAST, None)])
def test_only_a_new_earliest_job_of_schedule_wakes_a_worker(
    client: redis.Redis, others: int, tokens: list[str] | None
) -> None:
    seed(client, {**world_with("active"), "schedule": [(B, others)], job(B): row("scheduled")})
    assert defer(client) == "ok"
    assert held(client).get("wake") == tokens


def test_a_job_of_a_lane_makes_room_for_the_next_one(client: redis.Redis) -> None:
    world = {
        **world_with("active of a lane"), "glimit": {G: "1"}, lane(G): [(B, 0)], job(B): row("pending", group=G),
        "schedule": [("x", PAST)],
    }  # fmt: skip
    seed(client, world)
    assert defer(client) == "ok"
    at = now(client)
    assert held(client) == changed(
        world,
        {
            "active": None,
            "gactive": None,
            "schedule": [("x", PAST), (A, About(at + MINUTE))],
            job(A): {
                **world[job(A)],
                "state": "scheduled",
                "spared": "1",
                "deferred_at": About(at),
                "last_error": "not here",
            },
            "ring": [G],
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize("unsound", ["junk", {"state": "active"}, row("active", "x")])
def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis, unsound: Any) -> None:
    world = {"active": [(A, FUTURE)], job(A): unsound}
    seed(client, world)
    assert defer(client) == "lost"
    assert held(client) == world
