"""announce: nowhere -> workers."""

from typing import Any

import redis

from echomq_django import keys, transitions
from tests.places import FUTURE, PAST, About, held, now, run, seed

WORKERS = keys.WORKERS
MINUTE = 60_000


def announce(client: redis.Redis, worker: str = "w", **facts: Any) -> int:
    return run(client, transitions.announce(worker, ttl_ms=MINUTE, facts=facts))


def test_a_worker_is_listed_by_its_heartbeat_with_what_it_says_of_itself(client: redis.Redis) -> None:
    at = announce(client, queues="a,b", pid=7)
    assert at == About(now(client))
    assert held(client) == {
        WORKERS: [("w", at)],
        "{emq}:worker:w (expires)": {"queues": "a,b", "pid": "7"},
    }
    assert 0 < client.pttl(keys.worker("w")) <= MINUTE


def test_the_next_heartbeat_takes_the_place_of_the_last(client: redis.Redis) -> None:
    seed(client, {WORKERS: [("w", PAST), ("x", FUTURE)], "{emq}:worker:w": {"jobs": "1", "pid": "7"}})
    at = announce(client, jobs=2)
    assert held(client) == {
        WORKERS: [("w", at), ("x", FUTURE)],
        "{emq}:worker:w (expires)": {"jobs": "2", "pid": "7"},
    }


def test_workers_that_have_long_been_silent_are_forgotten(client: redis.Redis) -> None:
    at = now(client)
    seed(client, {WORKERS: [("old", at - MINUTE - 10_000), ("young", at - MINUTE + 30_000)]})
    announce(client)
    assert [worker for worker, _ in held(client)[WORKERS]] == ["young", "w"]


def test_a_worker_without_facts_is_listed(client: redis.Redis) -> None:
    at = announce(client)
    assert held(client) == {WORKERS: [("w", at)]}


def test_a_farewell_leaves_nothing_behind(client: redis.Redis) -> None:
    announce(client, pid=7)
    run(client, transitions.farewell("w"))
    assert held(client) == {}
