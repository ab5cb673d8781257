"""complete: active -> gone."""

from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
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
    C,
    D,
    E,
    G,
    H,
    K,
    changed,
    completed,
    errors,
    held,
    job,
    kept,
    lane,
    logs,
    now,
    own,
    row,
    run,
    seed,
    world_with,
)

TTL = 3_600_000


def complete(client: redis.Redis, *claims: Claim, **options: Any) -> list[str]:
    return run(client, transitions.complete(K, claims, **options))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_the_latest_claimant_completes_its_job_wherever_it_is_and_nobody_else_does(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    words = complete(client, own(A, token=token))
    if place == "gone":
        assert (words, held(client)) == (["gone"], {})
    elif token == 2 and owner in (OWNER, None):
        assert (words, held(client)) == (["ok"], completed(1))
    else:
        assert (words, held(client)) == (["lost"], world)


def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE), (B, FUTURE)], job(A): "junk", job(B): {"state": "active", "attempts": "x"}}
    seed(client, world)
    assert complete(client, own(A), own(B)) == ["gone", "gone"]
    assert held(client) == world


def test_error_records_and_log_lines_go_with_the_row(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): ["{}"], f"{job(A)}:logs": ["line"]})
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == completed(1)


def test_the_words_of_a_batch_stand_in_its_order_and_one_job_completes_once(client: redis.Redis) -> None:
    world = {
        "active": [(A, FUTURE), (B, FUTURE), (C, FUTURE)],
        job(A): row("active", 2, owner=OWNER),
        job(B): row("active", 3, owner=OWNER),
        job(C): row("active", 2, owner=OWNER),
        "metrics:completed": {"count": "40"},
    }
    seed(client, world)
    assert complete(client, own(C), own(B), own(D), own(A), own(C)) == ["ok", "lost", "gone", "ok", "gone"]
    assert held(client) == {
        "active": [(B, FUTURE)],
        job(B): row("active", 3, owner=OWNER),
        **completed(2, before=40),
    }


def test_a_stale_and_the_right_claim_of_one_job_in_one_call_are_told_apart(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert complete(client, own(A, token=1), own(A), own(A, token=1)) == ["lost", "ok", "gone"]


def test_a_job_that_lies_in_two_places_leaves_both(client: redis.Redis) -> None:
    # EchoMQ's extend puts an id back into active that has left it.
    seed(
        client,
        {
            "active": [(A, FUTURE)], "pending": [(A, 0)], "schedule": [(A, FUTURE)], "dead": [(A, PAST)],
            job(A): row("pending", 2, owner=OWNER),
        },
    )  # fmt: skip
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == completed(1)


def test_a_count_that_is_no_number_begins_again(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), "metrics:completed": {"count": "x"}})
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == completed(1)


def test_the_jobs_of_one_call_are_counted_in_the_minute_of_the_servers_clock(client: redis.Redis) -> None:
    seed(client, {"active": [(A, FUTURE), (B, FUTURE)], job(A): row("active", 2), job(B): row("active", 2)})
    started = now(client) // 60_000
    assert complete(client, own(A), own(B), own(C), own(A, token=1)) == ["ok", "ok", "gone", "gone"]
    [key] = client.keys(K.minute_root + "*")
    assert started <= int(key.decode().removeprefix(K.minute_root)) <= now(client) // 60_000
    assert client.hgetall(key) == {b"completed": b"2"}
    assert 7_190 < client.ttl(key) <= 7_200


@pytest.mark.parametrize("count", ["40", "x", "-1", "1.5", "9" * 16])
def test_a_minute_is_counted_on_and_one_that_is_no_number_begins_again(client: redis.Redis, count: str) -> None:
    seed(client, world_with("active"))
    begun = now(client) // 60_000
    for minute in (begun, begun + 1):  # it may be over in a moment
        client.hset(K.minute(minute), mapping={"completed": count, "failed": "7"})
    assert complete(client, own(A)) == ["ok"]
    [key] = [key for key in client.keys(K.minute_root + "*") if client.ttl(key) > 0]
    assert client.hgetall(key) == {b"completed": b"41" if count == "40" else b"1", b"failed": b"7"}


def test_an_active_job_of_a_lane_makes_room_for_the_next_one(client: redis.Redis) -> None:
    world = {
        **world_with("active of a lane"),
        lane(G): [(B, 0)], job(B): row("pending", group=G), "glimit": {G: "1"}, "ring": [H], "wake": ["1"],
    }  # fmt: skip
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(
        world,
        {
            "active": None, job(A): None, "gactive": None, "ring": [H, G], "wake": ["1", "1"],
            **completed(1),
        },
    )  # fmt: skip


@pytest.mark.parametrize("why", ["paused", "still at its limit", "in the ring"])
def test_a_lane_that_may_not_be_served_or_is_offered_already_is_not_offered(client: redis.Redis, why: str) -> None:
    extra = {
        "paused": {"paused": {G}},
        "still at its limit": {"glimit": {G: "2"}},
        "in the ring": {"ring": [H, G]},
    }[why]
    world = {
        **world_with("active of a lane"), "gactive": {G: "3"}, lane(G): [(B, 0)], job(B): row("pending", group=G),
        **extra,
    }  # fmt: skip
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(world, {"active": None, job(A): None, "gactive": {G: "2"}, **completed(1)})


@pytest.mark.parametrize("limit", ["3", "x", None])
def test_a_lane_below_its_limit_or_without_one_is_offered(client: redis.Redis, limit: str | None) -> None:
    world = {
        **world_with("active of a lane"), "gactive": {G: "3"}, lane(G): [(B, 0)], job(B): row("pending", group=G),
    }  # fmt: skip
    if limit:
        world["glimit"] = {G: limit}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert (held(client)["ring"], held(client)["wake"], held(client)["gactive"]) == ([G], ["1"], {G: "2"})


@pytest.mark.parametrize("gactive", ["1", "0", "x", None])
def test_jobs_in_flight_are_never_fewer_than_none(client: redis.Redis, gactive: str | None) -> None:
    world = world_with("active of a lane")
    seed(client, changed(world, {"gactive": {G: gactive} if gactive else None}))
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == completed(1)


def test_a_job_that_waits_in_its_lane_leaves_it_and_the_others_stay_offered(client: redis.Redis) -> None:
    world = {**world_with("lane"), lane(G): [(A, 0), (B, 0)], job(B): row("pending", group=G), "gactive": {G: "1"}}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client) == changed(world, {lane(G): [(B, 0)], job(A): None, **completed(1)})


def test_two_jobs_of_one_lane_make_room_twice(client: redis.Redis) -> None:
    seed(
        client,
        {
            "active": [(A, FUTURE), (B, FUTURE)], "gactive": {G: "3"}, lane(G): [(C, 0)],
            job(A): row("active", 2, group=G), job(B): row("active", 2, group=G), job(C): row("pending", group=G),
        },
    )  # fmt: skip
    assert complete(client, own(A), own(B)) == ["ok", "ok"]
    assert held(client) == {
        "gactive": {G: "1"}, lane(G): [(C, 0)], job(C): row("pending", group=G), "ring": [G], "wake": ["1"],
        **completed(2),
    }  # fmt: skip


def test_a_wake_list_holds_64_tokens_at_most(client: redis.Redis) -> None:
    world = {**world_with("active of a lane"), lane(G): [(B, 0)], job(B): row("pending", group=G), "wake": ["1"] * 64}
    seed(client, world)
    assert complete(client, own(A)) == ["ok"]
    assert held(client)["wake"] == ["1"] * 64


def test_five_hundred_jobs_complete_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    rows = {job(one): row("active", 2, owner=OWNER) for one in minted}
    seed(client, {"active": [(one, FUTURE) for one in minted], **rows})
    assert complete(client, *map(own, minted)) == ["ok"] * 500
    assert held(client) == completed(500)


# --- what is kept -----------------------------------------------------------------------------------------------------


def finished(client: redis.Redis, **more: Any) -> dict[str, Any]:
    return row("completed", 2, owner=OWNER, finished_at=About(now(client)), **more)


@pytest.mark.parametrize("place", ["pending", "active", "schedule", "dead", "nowhere"])
def test_a_job_with_a_time_is_kept_with_its_result_under_another_name_wherever_it_was(
    client: redis.Redis, place: str
) -> None:
    seed(client, world_with(place, owner=OWNER, name="a.b", progress="9"))
    assert complete(client, own(A), results=[(TTL, '{"sum":3}')]) == ["ok"]
    assert held(client) == {
        kept(A): finished(client, name="a.b", progress="9", result='{"sum":3}'),
        **completed(1),
    }
    assert TTL - 9_000 < client.pttl(K.result(A)) <= TTL


@pytest.mark.parametrize("place", ["lane", "active of a lane"])
def test_a_kept_job_of_a_lane_leaves_it_and_makes_room(client: redis.Redis, place: str) -> None:
    seed(client, {**world_with(place), lane(G): [(A, 0), (B, 0)] if place == "lane" else [(B, 0)]})
    assert complete(client, own(A), results=[(TTL, "1")]) == ["ok"]
    assert held(client) == {
        kept(A): finished(client, group=G, result="1"),
        lane(G): [(B, 0)], "ring": [G], **completed(1),
        **({} if place == "lane" else {"wake": ["1"]}),
    }  # fmt: skip


def test_a_result_is_kept_byte_for_byte(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    complete(client, own(A), results=[(TTL, bytes(range(256)))])
    assert client.hget(K.result(A), "result") == bytes(range(256))


def test_error_records_and_log_lines_are_kept_for_as_long_as_the_row(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): ["{1}", "{2}"], logs(A): ["a", "b"]})
    assert complete(client, own(A), results=[(TTL, "")]) == ["ok"]
    assert held(client) == {
        kept(A): finished(client),
        kept(A, "errors"): ["{1}", "{2}"],
        kept(A, "logs"): ["a", "b"],
        **completed(1),
    }
    assert len({client.pexpiretime(key(A)) for key in (K.result, K.result_errors, K.result_logs)}) == 1


def test_an_older_result_of_the_id_is_replaced_whole(client: redis.Redis) -> None:
    # EchoMQ enqueues an id whose result is kept.
    older = {f"result:{A}": {"result": "old", "x": "y"}, f"result:{A}:errors": ["old"], f"result:{A}:logs": ["old"]}
    seed(client, {**world_with("active"), logs(A): ["new"], **older})
    assert complete(client, own(A), results=[(TTL, "")]) == ["ok"]
    assert held(client) == {
        kept(A): finished(client),
        kept(A, "logs"): ["new"],
        **completed(1),
    }


@pytest.mark.parametrize(
    ("claim", "word"), [(own(A, token=1), "lost"), (own(A, owner=OTHER), "lost"), (own(B), "gone")]
)
def test_a_refused_claim_keeps_nothing(client: redis.Redis, claim: Claim, word: str) -> None:
    world = {**world_with("active"), errors(A): ["{}"], "recent": [C]}
    seed(client, world)
    assert complete(client, claim, results=[(TTL, "1")], recent=5) == [word]
    assert held(client) == world


def test_a_kept_job_is_gone_for_a_second_completion(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert complete(client, own(A), own(A), results=[(TTL, "1"), (TTL, "2")], recent=5) == ["ok", "gone"]
    before = held(client)
    assert before["recent"] == [A]
    assert before[kept(A)]["result"] == "1"
    assert complete(client, own(A), results=[(TTL, "3")], recent=5) == ["gone"]
    assert held(client) == before


def test_each_claim_of_a_batch_has_its_own_time_and_result(client: redis.Redis) -> None:
    seed(
        client,
        {
            "active": [(A, FUTURE), (B, FUTURE), (C, FUTURE), (D, FUTURE)],
            job(A): row("active", 2, owner=OWNER), job(B): row("active", 2, owner=OWNER),
            job(C): row("active", 3, owner=OWNER), job(D): row("active", 2, owner=OWNER),
            errors(A): ["a"], errors(B): ["b"],
        },
    )  # fmt: skip
    results = [(0, "dropped"), (TTL, "b"), (TTL, "c"), (2 * TTL, "d")]
    assert complete(client, *map(own, (A, B, C, D)), results=results) == ["ok", "ok", "lost", "ok"]
    assert held(client) == {
        "active": [(C, FUTURE)],
        job(C): row("active", 3, owner=OWNER),
        kept(B): finished(client, result="b"),
        kept(B, "errors"): ["b"],
        kept(D): finished(client, result="d"),
        **completed(3),
    }
    assert client.pttl(K.result(B)) <= TTL < client.pttl(K.result(D))


def test_completed_ids_are_listed_the_latest_first_and_no_more_of_them_than_are_asked_for(client: redis.Redis) -> None:
    rows = {job(one): row("active", 2, owner=OWNER) for one in (A, B, C)}
    seed(client, {"active": [(A, FUTURE), (B, FUTURE), (C, FUTURE)], **rows, "recent": [D, E]})
    assert complete(client, own(A), own(B), results=[(0, ""), (TTL, "")], recent=3) == ["ok", "ok"]
    assert held(client)["recent"] == [B, A, D]
    assert complete(client, own(C), recent=1) == ["ok"]
    assert held(client) == {"recent": [C], kept(B): finished(client), **completed(3)}


def test_with_a_list_of_none_an_old_one_goes_with_the_next_job(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), "recent": [D, E]})
    assert complete(client, own(A), recent=0) == ["ok"]
    assert held(client) == completed(1)


def test_a_kept_child_tells_its_parent(client: redis.Redis) -> None:
    waiting = {job(D): row("awaiting_children"), f"{job(D)}:dependencies": "1"}
    seed(client, {"active": [(A, FUTURE)], job(A): row("active", 2, owner=OWNER, parent=D), **waiting})
    assert complete(client, own(A), results=[(TTL, "1")]) == ["ok"]
    assert held(client) == {
        kept(A): finished(client, parent=D, result="1"),
        "pending": [(D, 0)], job(D): row("pending"), f"{job(D)}:dependencies": "0", f"{job(D)}:processed": {A: A},
        "wake": ["1"], **completed(1),
    }  # fmt: skip


def test_a_call_has_a_result_for_each_claim_or_for_none() -> None:
    with pytest.raises(ValueError, match="shorter"):
        transitions.complete(K, [own(A), own(B)], results=[(TTL, "1")])


def test_five_hundred_jobs_are_kept_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    rows = {job(one): row("active", 2, owner=OWNER) for one in minted}
    seed(client, {"active": [(one, FUTURE) for one in minted], **rows})
    assert complete(client, *map(own, minted), results=[(TTL, "1")] * 500, recent=1000) == ["ok"] * 500
    assert held(client) == {
        **{kept(one): finished(client, result="1") for one in minted},
        "recent": minted[::-1],
        **completed(500),
    }
