"""lapsed: counts what reap and promote would move."""

import redis

from echomq_django import looks
from echomq_django.looks import Lapsed
from tests.places import FUTURE, PAST, A, B, C, D, E, K, held, run, seed


def lapsed(client: redis.Redis) -> Lapsed:
    return run(client, looks.lapsed(K))


def test_what_is_overdue_is_counted_and_nothing_is_changed(client: redis.Redis) -> None:
    world = {"active": [(A, PAST), (B, FUTURE)], "schedule": [(C, 0), (D, PAST), (E, FUTURE)]}
    seed(client, world)
    assert lapsed(client) == Lapsed(lapsed=1, due=2)
    assert held(client) == world


def test_nothing_is_overdue_in_an_empty_queue(client: redis.Redis) -> None:
    assert lapsed(client) == Lapsed(lapsed=0, due=0)
    assert held(client) == {}
