"""expire: dead -> gone."""

import pytest
import redis

from echomq_django import ids, transitions
from tests.places import FUTURE, PAST, A, B, C, D, K, changed, errors, held, job, now, row, run, seed

DAY = 86_400_000


def expire(client: redis.Redis, *, ttl: int = DAY, maximum: int = 100, limit: int = 100) -> int:
    return run(client, transitions.expire(K, ttl_ms=ttl, maximum=maximum, limit=limit))


def test_the_dead_that_are_older_than_their_time_to_live_are_forgotten_whole(client: redis.Redis) -> None:
    at = now(client)
    world = {
        "dead": [(A, at - DAY - 60_000), (B, at - DAY + 60_000), (C, at)],
        **{job(one): row("dead", 1) for one in (A, B, C)},
        errors(A): ["{}"],
        f"{job(A)}:logs": ["line"],
        errors(B): ["{}"],
    }
    seed(client, world)
    assert expire(client) == 1
    assert held(client) == changed(
        world, {"dead": world["dead"][1:], job(A): None, errors(A): None, f"{job(A)}:logs": None}
    )


def test_a_death_without_a_time_does_not_end_by_age(client: redis.Redis) -> None:
    world = {"dead": [(A, 0)], job(A): row("dead", 3)}
    seed(client, world)
    assert expire(client) == 0
    assert held(client) == world


def test_beyond_the_number_that_is_kept_the_oldest_go_first_those_without_a_time_before_all(
    client: redis.Redis,
) -> None:
    at = now(client)
    world = {
        "dead": [(D, 0), (A, at - 3), (B, at - 2), (C, at - 1)],
        **{job(one): row("dead", 1) for one in (A, B, C, D)},
    }
    seed(client, world)
    assert expire(client, maximum=2) == 2
    assert held(client) == changed(world, {"dead": [(B, at - 2), (C, at - 1)], job(A): None, job(D): None})


def test_a_place_that_is_not_over_full_and_not_old_is_left_alone(client: redis.Redis) -> None:
    at = now(client)
    world = {"dead": [(A, at), (B, FUTURE)], job(A): row("dead"), job(B): row("dead")}
    seed(client, world)
    assert expire(client, maximum=2) == 0
    assert held(client) == world


def test_nobody_is_dead_in_an_empty_queue(client: redis.Redis) -> None:
    assert expire(client, maximum=0) == 0
    assert held(client) == {}


def test_the_limit_holds_for_both_reasons(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(10)]
    seed(client, {"dead": [(one, PAST) for one in minted], **{job(one): row("dead", 1) for one in minted}})
    assert expire(client, maximum=3, limit=4) == 4
    assert client.zrange(K.dead, 0, -1) == [one.encode() for one in minted[4:]]
    assert expire(client, maximum=6, limit=2) == 2
    assert client.zrange(K.dead, 0, -1) == [one.encode() for one in minted[6:]]


@pytest.mark.parametrize("unsound", [None, "junk", row("dead", "x")])
def test_an_old_id_whose_row_is_unsound_is_forgotten_too(client: redis.Redis, unsound: object) -> None:
    seed(client, changed({"dead": [(A, PAST)]}, {job(A): unsound}))
    assert expire(client) == 1
    assert held(client) == {}


@pytest.mark.slow
def test_thousands_of_dead_are_forgotten_in_bounded_calls(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8_500)]
    seed(client, {"dead": [(one, PAST) for one in minted], **{job(one): row("dead", 1) for one in minted}})
    assert [expire(client, maximum=10**6, limit=500) for _ in range(18)] == [500] * 17 + [0]
    assert held(client) == {}
