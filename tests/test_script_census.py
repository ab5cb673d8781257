"""census: tells what the latest dead are."""

import redis

from echomq_django import looks, scripts
from tests.places import PAST, A, B, C, D, E, K, held, job, row, run, seed


def census(client: redis.Redis, size: int = 1_000) -> tuple[int, dict[str, int], dict[str, int]]:
    found = run(client, looks.census(K, size=size))
    return found.size, dict(found.tasks), dict(found.errors)


def test_the_dead_are_told_by_name_and_error_and_nothing_is_changed(client: redis.Redis) -> None:
    world = {
        "dead": [(A, PAST), (B, PAST + 1), (C, PAST + 2)],
        "pending": [(D, 0)],
        job(A): row("dead", 1, name="a.b", last_error="ValueError: no"),
        job(B): row("dead", 1, name="a.b", last_error="KeyError: 'x'"),
        job(C): row("dead", 1, name="a.c", last_error="KeyError: 'y'"),
        job(D): row("pending", 0, name="a.d"),
    }
    seed(client, world)
    assert census(client) == (3, {"a.b": 2, "a.c": 1}, {"KeyError": 2, "ValueError": 1})
    assert census(client, 2) == (2, {"a.b": 1, "a.c": 1}, {"KeyError": 2})
    assert held(client) == world


def test_a_row_that_is_missing_broken_or_bare_counts_without_a_name_and_an_error(client: redis.Redis) -> None:
    world = {
        "dead": [(A, 0), (B, 1), (C, 2), (D, 3), (E, 4), ("junk", 5)],
        job(A): "a string",
        job(B): row("dead", 1),
        job(C): row("dead", "x", name="a.b", last_error="E"),
        job(D): row("dead", 1, name="", last_error=":"),
    }
    seed(client, world)
    assert census(client) == (6, {"": 6}, {"": 6})
    assert held(client) == world


def test_of_a_long_error_only_the_beginning_is_told(client: redis.Redis) -> None:
    seed(client, {"dead": [(A, PAST)], job(A): row("dead", 1, last_error="é" * 300_000)})
    [command] = looks.census(K, size=1).commands
    client.script_load(scripts.census.source)
    assert client.execute_command(*command) == [b"", ("é" * 250).encode()]


def test_nobody_is_dead_in_an_empty_queue(client: redis.Redis) -> None:
    assert census(client) == (0, {}, {})
    assert held(client) == {}
