"""requeue: dead -> pending."""

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
    H,
    K,
    changed,
    errors,
    held,
    job,
    lane,
    now,
    row,
    run,
    seed,
    world_with,
)


def requeue(client: redis.Redis, *job_ids: str, before: int | None = None) -> list[str]:
    return run(client, transitions.requeue(K, job_ids, before_ms=before))


def test_a_dead_job_gets_a_new_life_and_keeps_its_error_records(client: redis.Redis) -> None:
    died = {"last_error": "e", "stalled": "3", "died_at": str(PAST), "deferred_at": "1", "spared": "2"}
    kept = {"owner": "o", "name": "a.b", "max_attempts": "3", "priority": "4", "started_at": "5"}
    kept |= {"checkpoint": "6", "progress": "7"}  # the payload is the same
    world = {"dead": [(A, PAST)], job(A): row("dead", 7, **died, **kept), errors(A): ["one", "two"]}
    seed(client, world)
    assert requeue(client, A) == ["ok"]
    assert held(client) == {
        "pending": [(A, -4)],
        job(A): row("pending", 7, spared="7", **kept),
        errors(A): ["one", "two"],
        "wake": ["1"],
    }


def test_a_death_that_echomq_recorded_is_requeued(client: redis.Redis) -> None:
    seed(client, {"dead": [(A, 0)], job(A): row("dead", 3, last_error="boom")})
    assert requeue(client, A, before=PAST) == ["ok"]
    assert held(client) == {"pending": [(A, 0)], job(A): row("pending", 3, spared="3"), "wake": ["1"]}


@pytest.mark.parametrize("place", ["pending", "lane", "active", "active of a lane", "schedule", "nowhere"])
def test_a_job_that_is_not_dead_is_elsewhere(client: redis.Redis, place: str) -> None:
    world = world_with(place)
    seed(client, world)
    assert requeue(client, A) == ["elsewhere"]
    assert held(client) == world


def test_an_id_that_is_nowhere_is_gone(client: redis.Redis) -> None:
    assert requeue(client, A, "") == ["gone", "gone"]
    assert held(client) == {}


@pytest.mark.parametrize(("before", "word"), [(PAST - 1, "elsewhere"), (PAST, "ok"), (PAST + 1, "ok"), (None, "ok")])
def test_a_job_that_died_after_the_cut_off_is_spared(client: redis.Redis, before: int | None, word: str) -> None:
    world = {"dead": [(A, PAST)], job(A): row("dead", 1)}
    seed(client, world)
    assert requeue(client, A, before=before) == [word]
    assert (held(client) == world) is (word == "elsewhere")


def test_the_words_of_a_batch_stand_in_its_order_and_one_job_is_requeued_once(client: redis.Redis) -> None:
    world = {
        "dead": [(A, PAST), (B, PAST), (C, PAST)],
        "active": [(D, FUTURE)],
        job(A): row("dead", 1),
        job(B): "junk",
        job(C): row("dead", 2),
        job(D): row("active", 1),
    }
    seed(client, world)
    assert requeue(client, C, E, B, A, D, C, B) == ["ok", "gone", "unsound", "ok", "elsewhere", "elsewhere", "gone"]
    assert held(client) == changed(
        world,
        {
            "dead": None,
            "pending": [(A, 0), (C, 0)],
            "quarantine": [(B, About(now(client)))],
            job(A): row("pending", 1, spared="1"),
            job(C): row("pending", 2, spared="2"),
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize("unsound", [None, "junk", {"state": "dead"}, row("dead", "-1")])
def test_an_id_whose_row_is_unsound_is_put_aside(client: redis.Redis, unsound: Any) -> None:
    world = changed({"dead": [(A, PAST)]}, {job(A): unsound})
    seed(client, world)
    assert requeue(client, A) == ["unsound"]
    assert held(client) == changed(world, {"dead": None, "quarantine": [(A, About(now(client)))]})


def test_a_job_of_a_lane_goes_to_its_lane(client: redis.Redis) -> None:
    world = {"dead": [(A, 0)], job(A): row("dead", 3, group=G), "gactive": {G: "1"}, "ring": [H]}
    seed(client, world)
    assert requeue(client, A) == ["ok"]
    assert held(client) == changed(
        world,
        {
            "dead": None, lane(G): [(A, 0)], "ring": [H, G], "wake": ["1"],
            job(A): row("pending", 3, group=G, spared="3"),
        },
    )  # fmt: skip


def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis) -> None:
    seed(client, {**world_with("dead"), "pending": [(B, 0)], job(B): row("pending")})
    assert requeue(client, A) == ["ok"]
    assert "wake" not in held(client)


def test_a_hundred_dead_of_which_three_lost_their_rows_are_requeued_but_for_those(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(100)]
    seed(client, {"dead": [(one, PAST) for one in minted], **{job(one): row("dead", 1) for one in minted[3:]}})
    words = requeue(client, *minted)
    assert (words.count("ok"), words[:3]) == (97, ["unsound"] * 3)
    assert (client.zcard(K.pending), client.zcard(K.quarantine), client.zcard(K.dead)) == (97, 3, 0)


@pytest.mark.slow
def test_thousands_of_ids_are_requeued_in_bounded_calls(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8_500)]
    seed(client, {"dead": [(one, PAST) for one in minted], **{job(one): row("dead", 1) for one in minted}})
    for first in range(0, len(minted), 500):
        assert requeue(client, *minted[first : first + 500]) == ["ok"] * 500
    assert client.zrange(K.pending, 0, -1) == [one.encode() for one in minted]
