"""claim: pending -> active."""

from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Claim
from echomq_django.transitions import Claimed
from tests.places import (
    FUTURE,
    LEASE,
    OTHER,
    OWNER,
    PAST,
    QUEUE,
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
    held,
    job,
    lane,
    now,
    row,
    run,
    seed,
)

EMPTY = Claimed(claims=[], paused=False, left=0, due_in_ms=None)


def claim(client: redis.Redis, limit: int = 1, owner: str = OWNER) -> Claimed:
    return run(client, transitions.claim(K, limit=limit, lease_ms=LEASE, owner=owner))


def taken(client: redis.Redis, limit: int = 1) -> list[str]:
    return [one.id for one in claim(client, limit).claims]


def active_row(attempts: int, **more: Any) -> dict[str, Any]:
    return row("active", attempts, owner=OWNER, started_at=About(more.pop("at")), **more)


def test_a_pending_job_becomes_active_with_a_lease_a_token_and_an_owner(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending")})
    assert claim(client) == Claimed(
        claims=[Claim(queue=QUEUE, id=A, token=1, owner=OWNER, payload=b"p")], paused=False, left=0, due_in_ms=None
    )
    at = now(client)
    assert held(client) == {"active": [(A, About(at + LEASE))], job(A): active_row(1, at=at)}


def test_an_empty_queue_gives_nothing_and_stays_empty(client: redis.Redis) -> None:
    assert claim(client, 5) == EMPTY
    assert held(client) == {}


def test_a_paused_queue_says_so_and_promotes_nothing(client: redis.Redis) -> None:
    world = {
        "meta": {"paused": "1"},
        "pending": [(A, 0)],
        "schedule": [(B, PAST)],
        job(A): row("pending"),
        job(B): row("scheduled"),
    }
    seed(client, world)
    assert claim(client, 5) == Claimed(claims=[], paused=True, left=0, due_in_ms=None)
    assert held(client) == world


def test_a_resumed_queue_wakes_a_worker_and_is_claimed_from(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending")})
    run(client, transitions.pause(K))
    assert claim(client).paused
    run(client, transitions.resume(K))
    assert held(client)["wake"] == ["1"]
    assert taken(client) == [A]


def test_what_else_is_in_meta_does_not_pause_a_queue(client: redis.Redis) -> None:
    seed(client, {"meta": {"concurrency": "1"}, "pending": [(A, 0)], job(A): row("pending")})
    assert taken(client) == [A]


def test_a_claim_takes_no_more_than_its_limit_the_oldest_first_and_passes_the_baton(client: redis.Redis) -> None:
    world = {"pending": [(one, 0) for one in (A, B, C, D)], **{job(one): row("pending") for one in (A, B, C, D)}}
    seed(client, world)
    answer = claim(client, 2)
    assert [one.id for one in answer.claims] == [A, B]
    assert answer.left == 2
    at = now(client)
    assert held(client) == changed(
        world,
        {
            "pending": [(C, 0), (D, 0)],
            "active": [(A, About(at + LEASE)), (B, About(at + LEASE))],
            job(A): active_row(1, at=at),
            job(B): active_row(1, at=at),
            "wake": ["1"],
        },
    )


def test_a_baton_that_nobody_took_is_enough(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0), (B, 0)], job(A): row("pending"), job(B): row("pending"), "wake": ["1"]})
    assert claim(client).left == 1
    assert held(client)["wake"] == ["1"]


def test_a_claim_that_empties_pending_wakes_nobody(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending")})
    assert taken(client, 5) == [A]
    assert "wake" not in held(client)


def test_higher_priorities_come_first_and_equal_ones_in_the_order_of_minting(client: redis.Redis) -> None:
    places = {A: 5, B: 0, C: -5, D: -5, E: 0}
    seed(client, {"pending": list(places.items()), **{job(one): row("pending") for one in places}})
    assert taken(client, 5) == [C, D, B, E, A]


def test_every_claim_has_a_greater_token_and_its_own_owner(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending", 41, owner=OTHER, started_at="5")})
    assert claim(client).claims == [Claim(queue=QUEUE, id=A, token=42, owner=OWNER, payload=b"p")]
    assert held(client)[job(A)] == active_row(42, at=now(client))


def test_a_token_is_exact_to_fifteen_digits(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending", 999_999_999_999_998)})
    assert claim(client).claims[0].token == 999_999_999_999_999
    assert held(client)[job(A)]["attempts"] == "999999999999999"


def test_a_worker_is_told_all_that_the_row_says(client: redis.Redis) -> None:
    options = {"spared": "3", "stalled": "1", "max_attempts": "9", "name": "a.b", "priority": "2"}
    deferred_at = now(client) - 60_000
    seed(client, {"pending": [(A, -2)], job(A): row("pending", 7, group=G, deferred_at=str(deferred_at), **options)})
    [got] = claim(client).claims
    assert got == Claim(
        queue=QUEUE, id=A, token=8, owner=OWNER, payload=b"p", spared=3, stalled=1, max_attempts=9, name="a.b",
        group=G, deferred_ms=got.deferred_ms, priority=2,
    )  # fmt: skip
    assert got.deferred_ms == About(60_000)
    assert got.attempt == 5


def test_a_deferral_in_the_future_counts_as_now(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending", deferred_at=str(FUTURE))})
    assert claim(client).claims[0].deferred_ms == 0


@pytest.mark.parametrize("junk", ["", "x", "-1", "1.5", "1e3", " 1", "0x1", "1" * 16, "nan"])
@pytest.mark.parametrize("field", ["spared", "stalled", "max_attempts", "deferred_at"])
def test_a_number_that_is_none_counts_as_missing(client: redis.Redis, field: str, junk: str) -> None:
    seed(client, {"pending": [(A, 0)], job(A): row("pending", **{field: junk})})
    assert claim(client).claims == [Claim(queue=QUEUE, id=A, token=1, owner=OWNER, payload=b"p")]
    assert held(client)[job(A)] == active_row(1, at=now(client), **{field: junk})


def test_bytes_that_are_no_text_do_not_stop_a_claim(client: redis.Redis) -> None:
    seed(
        client,
        {"pending": [(A, 0)], job(A): {**row("pending"), "payload": b"\xff\x00", "name": b"\xff", "owner": b"\xff"}},
    )
    [got] = claim(client).claims
    assert (got.payload, got.name) == (b"\xff\x00", "\\xff")


def test_a_job_without_a_state_is_claimed(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0)], job(A): {"attempts": "0", "payload": ""}})
    assert claim(client).claims[0].payload == b""


def test_due_jobs_are_promoted_first_and_claimed_in_the_same_call(client: redis.Redis) -> None:
    world = {
        "pending": [(B, 0), (D, 0)],
        "schedule": [(C, PAST), (A, PAST + 1), (E, FUTURE)],
        **{job(one): row("pending") for one in (B, D)},
        **{job(one): row("scheduled") for one in (A, C, E)},
    }
    seed(client, world)
    answer = claim(client, 3)
    at = now(client)
    assert [one.id for one in answer.claims] == [A, B, C]
    assert answer.left == 1
    assert answer.due_in_ms == About(FUTURE - at)
    assert held(client) == changed(
        world,
        {
            "pending": [(D, 0)],
            "schedule": [(E, FUTURE)],
            "active": [(one, About(at + LEASE)) for one in (A, B, C)],
            **{job(one): active_row(1, at=at) for one in (A, B, C)},
            "wake": ["1"],
        },
    )


def test_a_due_job_gets_its_priority_back(client: redis.Redis) -> None:
    seed(
        client,
        {
            "pending": [(A, -1)],
            "schedule": [(B, PAST), (C, PAST)],
            job(A): row("pending", priority="1"),
            job(B): row("scheduled", priority="2"),
            job(C): row("scheduled"),
        },
    )
    assert taken(client, 1) == [B]
    assert held(client)["pending"] == [(A, -1), (C, 0)]
    assert held(client)[job(C)] == row("pending")


def test_a_claim_promotes_no_more_than_its_bound(client: redis.Redis) -> None:
    due = [ids.brand("JOB", number) for number in range(1, transitions.PROMOTIONS + 3)]
    seed(client, {"schedule": [(one, PAST) for one in due], **{job(one): row("scheduled") for one in due}})
    answer = claim(client, 1)
    assert answer.left == transitions.PROMOTIONS - 1
    assert answer.due_in_ms == 0
    assert held(client)["schedule"] == [(one, PAST) for one in due[-2:]]


def test_a_due_job_of_a_lane_goes_to_its_lane_and_is_not_taken_from_there(client: redis.Redis) -> None:
    seed(client, {"schedule": [(A, PAST)], job(A): row("scheduled", group=G)})
    assert claim(client, 5) == EMPTY
    assert held(client) == {lane(G): [(A, 0)], "ring": [G], "wake": ["1"], job(A): row("pending", group=G)}


@pytest.mark.parametrize(("score", "due"), [(FUTURE, True), (None, False)])
def test_a_claim_says_when_the_next_job_is_due(client: redis.Redis, score: int | None, due: bool) -> None:
    seed(client, {"schedule": [(A, score)], job(A): row("scheduled")} if score else {})
    answer = claim(client)
    assert answer.due_in_ms == (About(FUTURE - now(client)) if due else None)


def test_a_grouped_job_in_pending_counts_among_its_lanes_jobs_in_flight(client: redis.Redis) -> None:
    # EchoMQ's reprocess puts grouped jobs there.
    world = {"pending": [(A, 0), (B, 0)], job(A): row("pending", group=G), job(B): row("pending", group=H)}
    seed(client, {**world, "gactive": {H: "2"}})
    assert taken(client, 2) == [A, B]
    at = now(client)
    assert held(client) == {
        "active": [(A, About(at + LEASE)), (B, About(at + LEASE))],
        "gactive": {G: "1", H: "3"},
        job(A): active_row(1, at=at, group=G),
        job(B): active_row(1, at=at, group=H),
    }


UNSOUND: dict[str, Any] = {
    "missing": None,
    "of another type": "junk",
    "without attempts": {"state": "pending", "payload": "p"},
    "with attempts that are no number": row("pending", "x"),
    "with attempts below nought": row("pending", "-1"),
    "with attempts beyond what a number holds": row("pending", "1" * 16),
    "without a payload": {"state": "pending", "attempts": "0"},
}


@pytest.mark.parametrize("kind", UNSOUND)
def test_an_id_whose_row_is_unsound_is_put_aside_and_the_next_one_is_taken(client: redis.Redis, kind: str) -> None:
    world = changed({"pending": [(A, 0), (B, 0)], job(B): row("pending")}, {job(A): UNSOUND[kind]})
    seed(client, world)
    assert taken(client) == [B]
    at = now(client)
    assert held(client) == changed(
        world,
        {
            "pending": None,
            "quarantine": [(A, About(at))],
            "active": [(B, About(at + LEASE))],
            job(B): active_row(1, at=at),
        },
    )


def test_dangling_and_junk_ids_among_a_hundred_do_not_stop_the_others(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(100)]
    rows = {job(one): row("pending") for one in minted if one not in (minted[0], minted[49])}
    seed(client, {"pending": [*((one, 0) for one in minted), ("JOB junk \x00é", 0)], **rows})
    assert sorted(taken(client, 500)) == sorted(set(minted) - {minted[0], minted[49]})
    assert sorted(one for one, _ in held(client)["quarantine"]) == sorted(["JOB junk \x00é", minted[0], minted[49]])
    assert "pending" not in held(client)


@pytest.mark.parametrize("junk", [b"\xff", b"JOB0000000000\xff"])
def test_an_id_that_is_no_text_is_put_aside_whatever_its_row_and_takes_no_other_job_along(
    client: redis.Redis, junk: bytes
) -> None:
    seed(client, {"pending": [(junk, 0), (A, 1)], job(A): row("pending")})
    client.hset(K.job_root.encode() + junk, mapping=row("pending"))
    assert taken(client, 5) == [A]
    assert client.zrange(K.quarantine, 0, -1) == [junk]


def test_an_unsound_due_job_is_put_aside_and_the_good_one_behind_it_is_taken(client: redis.Redis) -> None:
    seed(client, {"schedule": [(A, PAST), (B, PAST + 1), (C, PAST + 2)], job(B): "junk", job(C): row("scheduled")})
    assert taken(client) == [C]
    at = now(client)
    assert held(client) == {
        "quarantine": [(A, About(at)), (B, About(at))],
        "active": [(C, About(at + LEASE))],
        job(B): "junk",
        job(C): active_row(1, at=at),
    }


def test_a_due_job_without_a_payload_is_put_aside_by_the_next_claim(client: redis.Redis) -> None:
    seed(client, {"schedule": [(A, PAST)], job(A): {"state": "scheduled", "attempts": "0"}})
    assert claim(client).left == 1
    assert claim(client) == EMPTY
    assert held(client)["quarantine"] == [(A, About(now(client)))]


def test_quarantine_keeps_the_newest_thousand(client: redis.Redis) -> None:
    old = [(f"old-{number}", number) for number in range(1_000)]
    seed(client, {"quarantine": old, "pending": [(A, 0), (B, 0)]})
    assert claim(client, 5) == EMPTY
    at = now(client)
    assert held(client) == {"quarantine": [*old[2:], (A, About(at)), (B, About(at))]}


def test_many_broken_jobs_at_the_head_are_passed_within_bounded_calls(client: redis.Redis) -> None:
    broken = [ids.brand("JOB", number) for number in range(1_200)]
    good = ids.brand("JOB", 1_200)
    seed(client, {"pending": [(one, 0) for one in (*broken, good)], job(good): row("pending")})
    sizes = []
    while not (answer := claim(client, 500)).claims:
        sizes.append(answer.left)
    assert [one.id for one in answer.claims] == [good]
    assert sizes == [701, 201]
    assert client.zcard(K.quarantine) == 1_000


def test_broken_jobs_at_the_head_do_not_use_up_a_claims_limit(client: redis.Redis) -> None:
    broken = [ids.brand("JOB", number) for number in range(499)]
    good = ids.brand("JOB", 499)
    seed(client, {"pending": [(one, 0) for one in (*broken, good)], job(good): row("pending")})
    assert taken(client, 1) == [good]


def test_a_claim_looks_no_further_than_it_needs(client: redis.Redis) -> None:
    seed(client, {"pending": [(A, 0), (B, 0)], job(A): row("pending")})
    assert taken(client, 1) == [A]
    assert held(client)["pending"] == [(B, 0)]


def test_a_broken_job_between_two_good_ones_does_not_shorten_a_claim(client: redis.Redis) -> None:
    world = {"pending": [(one, 0) for one in (A, B, C, D)], **{job(one): row("pending") for one in (A, C, D)}}
    seed(client, world)
    assert taken(client, 2) == [A, C]
    assert held(client)["pending"] == [(D, 0)]


def test_five_hundred_jobs_are_claimed_at_once(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(500)]
    seed(client, {"pending": [(one, 0) for one in minted], **{job(one): row("pending") for one in minted}})
    assert taken(client, 500) == minted
