"""extend: active -> active."""

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Claim
from tests.places import (
    FUTURE,
    LEASE,
    OTHER,
    OWNER,
    PAST,
    PLACES,
    A,
    About,
    B,
    C,
    D,
    K,
    changed,
    held,
    job,
    now,
    own,
    row,
    run,
    seed,
    world_with,
)


def extend(client: redis.Redis, *claims: Claim, lease: int = LEASE) -> list[str]:
    return run(client, transitions.extend(K, claims, lease_ms=lease))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_only_the_claimant_of_an_active_job_gets_a_new_deadline(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    words = extend(client, own(A, token=token))
    if place.startswith("active") and token == 2 and owner in (OWNER, None):
        assert words == ["ok"]
        assert held(client) == changed(world, {"active": [(A, About(now(client) + LEASE))]})
    else:
        assert (words, held(client)) == (["lost"], world)


def test_a_lease_that_ran_out_and_was_not_reaped_is_extended(client: redis.Redis) -> None:
    seed(client, {"active": [(A, PAST)], job(A): row("active", 2, owner=OWNER)})
    assert extend(client, own(A)) == ["ok"]
    assert held(client)["active"] == [(A, About(now(client) + LEASE))]


def test_the_words_of_a_batch_stand_in_its_order(client: redis.Redis) -> None:
    world = {
        "active": [(A, PAST), (B, PAST + 1), (C, PAST + 2)],
        job(A): row("active", 2, owner=OWNER),
        job(B): row("active", 3, owner=OWNER),
        job(C): row("active", 2),
    }
    seed(client, world)
    assert extend(client, own(C), own(B), own(D), own(A), own(C)) == ["ok", "lost", "lost", "ok", "ok"]
    deadline = About(now(client) + LEASE)
    assert held(client) == changed(world, {"active": [(B, PAST + 1), (A, deadline), (C, deadline)]})


def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis) -> None:
    world = {"active": [(A, PAST), (B, PAST)], job(A): "junk", job(B): {"state": "active", "attempts": "2x"}}
    seed(client, world)
    assert extend(client, own(A), own(B)) == ["lost", "lost"]
    assert held(client) == world


def test_five_hundred_leases_are_extended_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    seed(client, {"active": [(one, PAST) for one in minted], **{job(one): row("active", 2) for one in minted}})
    assert extend(client, *map(own, minted)) == ["ok"] * 500
    assert client.zcount(K.active, FUTURE, "+inf") == client.zcount(K.active, "-inf", PAST) == 0
