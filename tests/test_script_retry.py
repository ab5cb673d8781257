"""retry: active -> schedule | dead."""

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
    H,
    K,
    changed,
    errors,
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

HOUR = 3_600_000


def retry(client: redis.Redis, claim: Claim | None = None, *, maximum: int = 5, **options: Any) -> str:
    settings = {"delay_ms": HOUR, "reason": "ValueError: no", "entry": '{"error":"E"}', **options}
    return run(client, transitions.retry(K, claim or own(A), maximum=maximum, **settings))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("maximum", [3, 2])
def test_the_latest_claimant_fails_its_job_while_it_is_active_or_pending_and_nobody_else_does(
    client: redis.Redis, place: str, token: int, owner: str | None, maximum: int
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    word = retry(client, own(A, token=token), maximum=maximum)
    if place == "gone":
        assert (word, held(client)) == ("gone", {})
        return
    if token != 2 or owner == OTHER or place in ("schedule", "dead", "nowhere"):
        assert (word, held(client)) == ("lost", world)
        return
    at = now(client)
    cleared = {"active": None, "pending": None, lane(G): None, "ring": None, "gactive": None}
    failed = {**world[job(A)], "last_error": "ValueError: no"}
    if maximum == 3:
        settled = {
            "schedule": [(A, About(at + HOUR))],
            job(A): {**failed, "state": "scheduled"},
            "wake": ["1"],
        }
    else:
        settled = {
            "dead": [(A, About(at))],
            job(A): {**failed, "state": "dead", "died_at": About(at)},
            "metrics:failed": {"count": "1"},
        }
    assert word == ("scheduled" if maximum == 3 else "dead")
    assert held(client) == changed(
        world, {**cleared, **settled, errors(A): ['{"error":"E"}'], "minute": {"failed": "1"}}
    )


@pytest.mark.parametrize(
    ("attempts", "spared", "maximum", "word"),
    [
        (1, "0", 2, "scheduled"),
        (2, "0", 2, "dead"),
        (3, "0", 2, "dead"),
        (9, "8", 2, "scheduled"),
        (9, "7", 2, "dead"),
        (1, "5", 1, "scheduled"),
        (5_000, "0", 5_001, "scheduled"),
        (2, "x", 2, "dead"),
        (2, "", 3, "scheduled"),
        (1, None, 0, "dead"),
        (1, None, 1, "dead"),
    ],
)
def test_a_job_dies_when_the_attempts_that_count_reach_the_maximum(
    client: redis.Redis, attempts: int, spared: str | None, maximum: int, word: str
) -> None:
    fields = {} if spared is None else {"spared": spared}
    seed(client, {"active": [(A, FUTURE)], job(A): row("active", attempts, owner=OWNER, **fields)})
    assert retry(client, own(A, token=attempts), maximum=maximum) == word
    assert held(client)[job(A)]["attempts"] == str(attempts)


def test_the_newest_error_records_are_kept_in_order(client: redis.Redis) -> None:
    full = [str(number) for number in range(transitions.ERRORS_KEPT)]
    seed(client, {**world_with("active"), errors(A): full})
    assert retry(client, entry="new") == "scheduled"
    assert held(client)[errors(A)] == [*full[1:], "new"]


def test_an_error_record_is_added_behind_the_others(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): ["old"]})
    retry(client, entry="new")
    assert held(client)[errors(A)] == ["old", "new"]


def test_a_second_failure_replaces_the_reason_of_the_first(client: redis.Redis) -> None:
    seed(client, world_with("active", last_error="old"))
    retry(client, reason="new")
    assert held(client)[job(A)]["last_error"] == "new"


def test_deaths_are_counted(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), "metrics:failed": {"count": "9"}, "dead": [(B, FUTURE)]})
    assert retry(client, maximum=0) == "dead"
    assert held(client)["metrics:failed"] == {"count": "10"}
    assert held(client)["dead"] == [(A, About(now(client))), (B, FUTURE)]


@pytest.mark.parametrize("maximum", [5, 0])
def test_a_failed_attempt_is_counted_in_the_minute_of_the_servers_clock(client: redis.Redis, maximum: int) -> None:
    rows = {job(A): row("active", 2, owner=OWNER), job(B): row("active", 2, owner=OWNER)}
    seed(client, {"active": [(A, FUTURE), (B, FUTURE)], **rows})
    started = now(client) // 60_000
    retry(client, own(A, token=1), maximum=maximum)
    assert not client.keys(K.minute_root + "*")
    retry(client, own(A), maximum=maximum)
    [key] = client.keys(K.minute_root + "*")
    assert started <= int(key.decode().removeprefix(K.minute_root)) <= now(client) // 60_000
    assert client.hgetall(key) == {b"failed": b"1"}
    assert 7_190 < client.ttl(key) <= 7_200
    retry(client, own(B), maximum=maximum)
    assert held(client)["minute"] == {"failed": "2"}


def test_a_job_that_lies_in_active_and_pending_leaves_both(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE)], "pending": [(A, 0), (B, 0)], job(A): row("active", 2)})
    assert retry(client) == "scheduled"
    assert held(client)["pending"] == [(B, 0)]
    assert "active" not in held(client)


@pytest.mark.parametrize(("others", "tokens"), [(FUTURE, ["1"]), (PAST, None)])
def test_only_a_new_earliest_job_of_schedule_wakes_a_worker(
    client: redis.Redis, others: int, tokens: list[str] | None
) -> None:
    seed(client, {**world_with("active"), "schedule": [(B, others)], job(B): row("scheduled")})
    assert retry(client) == "scheduled"
    assert held(client).get("wake") == tokens


@pytest.mark.parametrize("maximum", [5, 0])
def test_an_active_job_of_a_lane_makes_room_for_the_next_one(client: redis.Redis, maximum: int) -> None:
    world = {
        **world_with("active of a lane"), "gactive": {G: "2", H: "1"}, "glimit": {G: "2"}, "ring": [H],
        lane(G): [(B, 0)], job(B): row("pending", group=G),
    }  # fmt: skip
    seed(client, world)
    retry(client, maximum=maximum)
    found = held(client)
    assert found[lane(G)] == [(B, 0)]
    assert (found["gactive"], found["ring"]) == ({G: "1", H: "1"}, [H, G])


def test_a_job_that_waits_in_its_lane_leaves_it_and_the_others_stay_offered(client: redis.Redis) -> None:
    world = {**world_with("lane"), lane(G): [(A, 0), (B, 0)], job(B): row("pending", group=G), "gactive": {G: "1"}}
    seed(client, world)
    assert retry(client) == "scheduled"
    found = held(client)
    assert (found[lane(G)], found["ring"], found["gactive"]) == ([(B, 0)], [G], {G: "1"})


@pytest.mark.parametrize("unsound", ["junk", {"state": "active"}, row("active", "x")])
def test_a_job_whose_row_is_unsound_is_gone(client: redis.Redis, unsound: Any) -> None:
    world = {"active": [(A, FUTURE)], job(A): unsound}
    seed(client, world)
    assert retry(client) == "gone"
    assert held(client) == world


def test_a_delay_of_nought_makes_the_job_due_at_once(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert retry(client, delay_ms=0) == "scheduled"
    assert run(client, transitions.promote(K)) == (1, 0)


def test_what_the_reason_and_the_record_hold_is_kept_byte_for_byte(client: redis.Redis) -> None:
    text = "NUL \x00, a line\nand \u2028, {[('%s %d"
    seed(client, world_with("active"))
    retry(client, reason=text, entry=text)
    assert held(client)[job(A)]["last_error"] == text
    assert held(client)[errors(A)] == [text]


def test_a_job_that_was_run_is_no_more_a_deferred_one(client: redis.Redis) -> None:
    seed(client, world_with("active", deferred_at="5"))
    call = transitions.retry(K, own(A), delay_ms=60_000, maximum=9, reason="no", entry="{}")
    assert run(client, call) == "scheduled"
    assert "deferred_at" not in held(client)[job(A)]
