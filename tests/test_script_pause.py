"""pause: running -> paused, and resume: paused -> running."""

import pytest
import redis

from echomq_django import transitions
from tests.places import A, K, held, job, row, run, seed

PAUSED = {"meta": {"paused": "1"}}


@pytest.mark.parametrize("former", [{}, PAUSED])
def test_a_queue_is_paused_once_however_often_it_is_said(
    client: redis.Redis, former: dict[str, dict[str, str]]
) -> None:
    seed(client, former)
    assert run(client, transitions.pause(K)) == "ok"
    assert held(client) == PAUSED


def test_a_queue_that_is_resumed_wakes_one_worker_and_moves_nothing(client: redis.Redis) -> None:
    waiting = {"pending": [(A, 0)], job(A): row("pending")}
    seed(client, {**PAUSED, **waiting})
    assert run(client, transitions.resume(K)) == "ok"
    assert held(client) == {**waiting, "wake": ["1"]}


def test_a_token_that_nobody_has_taken_is_enough(client: redis.Redis) -> None:
    seed(client, {**PAUSED, "wake": ["1"]})
    assert run(client, transitions.resume(K)) == "ok"
    assert held(client) == {"wake": ["1"]}


@pytest.mark.parametrize(("move", "key"), [("pause", "meta"), ("resume", "meta"), ("resume", "wake")])
def test_a_key_of_a_wrong_type_is_an_error_that_names_it_and_changes_nothing(
    client: redis.Redis, move: str, key: str
) -> None:
    world = {**(PAUSED if key == "wake" else {}), key: "junk"}
    seed(client, world)
    with pytest.raises(redis.ResponseError, match=f"WRONGTYPE emq:{{q}}:{key}"):
        run(client, getattr(transitions, move)(K))
    assert held(client) == world


@pytest.mark.parametrize("move", ["pause", "resume"])
def test_a_full_server_is_paused_and_resumed_all_the_same(client: redis.Redis, move: str) -> None:
    seed(client, PAUSED if move == "resume" else {})
    client.config_set("maxmemory", 1)
    try:
        assert run(client, getattr(transitions, move)(K)) == "ok"
    finally:
        client.config_set("maxmemory", 0)
    assert held(client) == (PAUSED if move == "pause" else {"wake": ["1"]})
