"""promote: schedule -> pending."""

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
    G,
    H,
    K,
    changed,
    held,
    job,
    lane,
    now,
    row,
    run,
    seed,
)

WEEK = 7 * 86_400_000


def promote(client: redis.Redis, limit: int = 100) -> tuple[int, int]:
    return run(client, transitions.promote(K, limit=limit))


def test_due_jobs_are_lined_up_and_the_others_stay(client: redis.Redis) -> None:
    world = {
        "schedule": [(C, PAST), (A, PAST + 1), (B, FUTURE)],
        **{job(one): row("scheduled", 3, owner="o") for one in (A, B, C)},
    }
    seed(client, world)
    assert promote(client) == (2, 0)
    assert held(client) == {
        "schedule": [(B, FUTURE)],
        "pending": [(A, 0), (C, 0)],
        job(A): row("pending", 3, owner="o"),
        job(B): row("scheduled", 3, owner="o"),
        job(C): row("pending", 3, owner="o"),
        "wake": ["1"],
    }


@pytest.mark.parametrize("world", [{}, {"schedule": [(A, FUTURE)], job(A): row("scheduled")}])
def test_nothing_due_changes_nothing(client: redis.Redis, world: dict[str, Any]) -> None:
    seed(client, world)
    assert promote(client) == (0, 0)
    assert held(client) == world


def test_the_earliest_due_jobs_come_first_and_the_limit_holds(client: redis.Redis) -> None:
    rows = {job(one): row("scheduled") for one in (A, B, C, D)}
    seed(client, {"schedule": [(D, PAST), (C, PAST + 1), (B, PAST + 2), (A, PAST + 3)], **rows})
    assert promote(client, 2) == (2, 0)
    assert held(client)["schedule"] == [(B, PAST + 2), (A, PAST + 3)]
    assert held(client)["pending"] == [(C, 0), (D, 0)]


@pytest.mark.parametrize(("priority", "score"), [("9", -9), ("-100", 100), ("101", 0), ("-101", 0), ("x", 0), ("", 0)])
def test_a_promoted_job_gets_its_priority_back(client: redis.Redis, priority: str, score: int) -> None:
    seed(client, {"schedule": [(A, PAST)], job(A): row("scheduled", priority=priority)})
    assert promote(client) == (1, 0)
    assert held(client)["pending"] == [(A, score)]


def test_a_job_of_a_lane_goes_to_its_lane_which_is_offered_once(client: redis.Redis) -> None:
    world = {
        "schedule": [(A, PAST), (B, PAST), (C, PAST)],
        job(A): row("scheduled", group=G, priority="5"),
        job(B): row("scheduled", group=G),
        job(C): row("scheduled", group=H),
    }
    seed(client, world)
    assert promote(client) == (3, 0)
    assert held(client) == {
        lane(G): [(A, 0), (B, 0)],
        lane(H): [(C, 0)],
        "ring": [G, H],
        "wake": ["1", "1"],
        job(A): row("pending", group=G, priority="5"),
        job(B): row("pending", group=G),
        job(C): row("pending", group=H),
    }


@pytest.mark.parametrize(
    "closed", [{"paused": {G}}, {"ring": [G]}, {"glimit": {G: "2"}, "gactive": {G: "2"}}, {"glimit": {G: "0"}}]
)
def test_a_lane_that_may_not_be_served_or_is_offered_already_is_not_offered(
    client: redis.Redis, closed: dict[str, Any]
) -> None:
    world = {"schedule": [(A, PAST)], job(A): row("scheduled", group=G), **closed}
    seed(client, world)
    assert promote(client) == (1, 0)
    assert held(client) == changed(world, {"schedule": None, lane(G): [(A, 0)], job(A): row("pending", group=G)})


def test_a_lane_that_is_offered_gets_a_token_even_beside_others_but_64_are_enough(client: redis.Redis) -> None:
    world = {"schedule": [(A, PAST)], job(A): row("scheduled", group=G), "wake": [str(n) for n in range(64)]}
    seed(client, world)
    promote(client)
    assert held(client)["wake"] == ["1", *world["wake"][:63]]


@pytest.mark.parametrize("wake", [["1"], None])
def test_a_worker_is_woken_only_when_pending_was_empty(client: redis.Redis, wake: list[str] | None) -> None:
    others = {} if wake else {"pending": [(B, 0)], job(B): row("pending")}
    seed(client, {"schedule": [(A, PAST)], job(A): row("scheduled"), **others})
    promote(client)
    assert held(client).get("wake") == wake


@pytest.mark.parametrize("unsound", [None, "junk", {"state": "scheduled", "payload": "p"}, row("scheduled", "x")])
def test_an_id_whose_row_is_unsound_is_put_aside(client: redis.Redis, unsound: Any) -> None:
    world = changed({"schedule": [(A, PAST), (B, PAST + 1)], job(B): row("scheduled")}, {job(A): unsound})
    seed(client, world)
    assert promote(client) == (1, 1)
    assert held(client) == changed(
        world,
        {
            "schedule": None,
            "pending": [(B, 0)],
            "quarantine": [(A, About(now(client)))],
            job(B): row("pending"),
            "wake": ["1"],
        },
    )


def test_broken_rows_alone_wake_nobody(client: redis.Redis) -> None:
    seed(client, {"schedule": [(A, PAST)]})
    assert promote(client) == (0, 1)
    assert held(client) == {"quarantine": [(A, About(now(client)))]}


def test_quarantine_keeps_the_newest_thousand(client: redis.Redis) -> None:
    old = [(f"old-{number}", number) for number in range(1_000)]
    seed(client, {"quarantine": old, "schedule": [(A, PAST)]})
    assert promote(client) == (0, 1)
    assert held(client) == {"quarantine": [*old[1:], (A, About(now(client)))]}


def test_a_due_job_behind_many_of_next_week_does_not_starve(client: redis.Redis) -> None:
    week = now(client) + WEEK
    later = [ids.brand("JOB", number) for number in range(500)]
    seed(client, {"schedule": [*((one, week) for one in later), (A, PAST)], job(A): row("scheduled")})
    assert promote(client) == (1, 0)
    assert held(client)["pending"] == [(A, 0)]


def test_a_due_job_behind_a_full_batch_of_broken_ones_comes_with_the_next_call(client: redis.Redis) -> None:
    broken = [(ids.brand("JOB", 100 + number), PAST) for number in range(100)]
    seed(client, {"schedule": [*broken, (A, PAST + 1)], job(A): row("scheduled")})
    assert promote(client) == (0, 100)
    assert promote(client) == (1, 0)
    assert held(client)["pending"] == [(A, 0)]


def test_thousands_of_due_jobs_are_promoted_in_bounded_calls(client: redis.Redis) -> None:
    due = [ids.brand("JOB", number) for number in range(8_500)]
    seed(client, {"schedule": [(one, PAST) for one in due], **{job(one): row("scheduled") for one in due}})
    assert [promote(client, 500) for _ in range(18)] == [(500, 0)] * 17 + [(0, 0)]
    assert client.zrange(K.pending, 0, -1) == [one.encode() for one in due]
    assert client.exists(K.schedule) == 0
