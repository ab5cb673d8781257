"""remove: pending | schedule | dead -> gone."""

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Location
from tests.places import (
    FUTURE,
    PAST,
    A,
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
    row,
    run,
    seed,
    world_with,
)


def remove(client: redis.Redis, *job_ids: str, place: Location | None = None, before: int | None = None) -> list[str]:
    return run(client, transitions.remove(K, job_ids, place=place, before_ms=before))


@pytest.mark.parametrize("place", ["pending", "lane", "schedule", "dead"])
def test_a_job_that_nobody_runs_is_deleted_with_its_records_and_log_lines(client: redis.Redis, place: str) -> None:
    seed(client, {**world_with(place), errors(A): ["{}"], f"{job(A)}:logs": ["line"]})
    assert remove(client, A) == ["ok"]
    assert held(client) == {}


@pytest.mark.parametrize("named", Location)
@pytest.mark.parametrize("place", ["pending", "lane", "schedule", "dead", "active", "active of a lane", "nowhere"])
def test_a_job_that_is_not_in_the_place_that_is_named_is_elsewhere(
    client: redis.Redis, named: Location, place: str
) -> None:
    world = {**world_with(place), errors(A): ["{}"]}
    seed(client, world)
    is_there = place == named != "active" or (place, named) == ("lane", "pending")
    assert remove(client, A, place=named) == ["ok" if is_there else "elsewhere"]
    assert held(client) == ({} if is_there else world)


@pytest.mark.parametrize("named", [None, "itself"])
@pytest.mark.parametrize(("before", "word"), [(PAST - 1, "elsewhere"), (PAST, "ok"), (PAST + 1, "ok"), (None, "ok")])
@pytest.mark.parametrize("place", ["schedule", "dead"])
def test_a_job_whose_time_is_later_than_the_cut_off_is_spared(
    client: redis.Redis, place: str, before: int | None, word: str, named: str | None
) -> None:
    world = {place: [(A, PAST)], job(A): row("dead", 1)}
    seed(client, world)
    assert remove(client, A, place=Location(place) if named else None, before=before) == [word]
    assert held(client) == ({} if word == "ok" else world)


@pytest.mark.parametrize("place", ["pending", "lane"])
def test_pending_has_no_time_that_a_cut_off_could_spare(client: redis.Redis, place: str) -> None:
    seed(client, {**world_with(place), **({"pending": [(A, 100)]} if place == "pending" else {})})
    assert remove(client, A, place=Location.PENDING, before=-200) == ["ok"]
    assert held(client) == {}


def test_of_a_batch_from_one_place_the_others_are_spared_with_a_word_for_each(client: redis.Redis) -> None:
    world = {
        "dead": [(A, PAST), (B, PAST)], "schedule": [(C, PAST)], "pending": [(D, 0)],
        job(A): row("dead"), job(C): row("scheduled"), job(D): row("pending"),
    }  # fmt: skip
    seed(client, world)
    words = remove(client, D, A, E, B, C, A, place=Location.DEAD)
    assert words == ["elsewhere", "ok", "gone", "ok", "elsewhere", "gone"]
    assert held(client) == changed(world, {"dead": None, job(A): None})


@pytest.mark.parametrize("place", ["active", "active of a lane", "nowhere"])
def test_a_job_that_runs_or_waits_for_its_children_is_elsewhere(client: redis.Redis, place: str) -> None:
    world = {**world_with(place), errors(A): ["{}"]}
    seed(client, world)
    assert remove(client, A) == ["elsewhere"]
    assert held(client) == world


def test_an_id_that_is_nowhere_is_gone(client: redis.Redis) -> None:
    assert remove(client, A, "") == ["gone", "gone"]
    assert held(client) == {}


def test_an_active_id_that_also_lies_elsewhere_is_left_alone(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE)], "pending": [(A, 0)], job(A): row("active", 1)}
    seed(client, world)
    assert remove(client, A) == ["elsewhere"]
    assert held(client) == world


@pytest.mark.parametrize("unsound", [None, "junk", row("dead", "x")])
@pytest.mark.parametrize("place", ["pending", "schedule", "dead"])
def test_a_listed_id_is_removed_even_when_its_row_is_unsound(client: redis.Redis, place: str, unsound: object) -> None:
    seed(client, changed({place: [(A, PAST)]}, {job(A): unsound}))
    assert remove(client, A) == ["ok"]
    assert held(client) == {}


def test_an_active_id_without_a_row_is_not_removed(client: redis.Redis) -> None:
    world = {"active": [(A, PAST)]}
    seed(client, world)
    assert remove(client, A) == ["gone"]
    assert held(client) == world


def test_the_words_of_a_batch_stand_in_its_order_and_the_others_keep_theirs(client: redis.Redis) -> None:
    world = {
        "pending": [(A, 0), (B, 0)],
        "schedule": [(C, FUTURE)],
        "active": [(D, FUTURE)],
        job(A): row("pending"),
        job(B): row("pending"),
        job(C): row("scheduled"),
        job(D): row("active", 1),
    }
    seed(client, world)
    assert remove(client, C, E, A, D, C) == ["ok", "gone", "ok", "elsewhere", "gone"]
    assert held(client) == changed(world, {"pending": [(B, 0)], "schedule": None, job(A): None, job(C): None})


def test_a_lane_with_others_stays_offered(client: redis.Redis) -> None:
    world = {
        **world_with("lane"), lane(G): [(A, 0), (B, 0)], job(B): row("pending", group=G), "ring": [H, G],
        "gactive": {G: "1"},
    }  # fmt: skip
    seed(client, world)
    assert remove(client, A) == ["ok"]
    assert held(client) == changed(world, {lane(G): [(B, 0)], job(A): None})


def test_a_lane_that_is_left_empty_is_offered_to_nobody_and_its_jobs_in_flight_stay_counted(
    client: redis.Redis,
) -> None:
    world = {**world_with("lane"), "ring": [H, G, G], "gactive": {G: "1"}}
    seed(client, world)
    assert remove(client, A) == ["ok"]
    assert held(client) == {"ring": [H], "gactive": {G: "1"}}


@pytest.mark.parametrize("place", ["schedule", "dead", "pending"])
def test_a_grouped_job_outside_its_lane_leaves_the_lane_as_it_is(client: redis.Redis, place: str) -> None:
    lanes = {lane(G): [(B, 0)], "ring": [G], job(B): row("pending", group=G), "gactive": {G: "1"}}
    seed(client, {**lanes, place: [(A, PAST)], job(A): row("pending", 1, group=G)})
    assert remove(client, A) == ["ok"]
    assert held(client) == lanes


def test_removing_wakes_nobody_and_counts_nothing(client: redis.Redis) -> None:
    seed(client, {**world_with("dead"), "metrics:failed": {"count": "1"}})
    assert remove(client, A) == ["ok"]
    assert held(client) == {"metrics:failed": {"count": "1"}}


def test_thousands_of_ids_are_removed_in_bounded_calls(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8_500)]
    seed(client, {"dead": [(one, PAST) for one in minted], **{job(one): row("dead", 1) for one in minted}})
    for first in range(0, len(minted), 500):
        assert remove(client, *minted[first : first + 500]) == ["ok"] * 500
    assert held(client) == {}
