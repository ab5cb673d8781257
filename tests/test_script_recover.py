"""recover: active -> active."""

from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import Claim
from tests.places import (
    FUTURE,
    LEASE,
    OTHER,
    OWNER,
    PAST,
    QUEUE,
    A,
    B,
    C,
    D,
    G,
    K,
    held,
    job,
    now,
    row,
    run,
    seed,
    world_with,
)


def mine(deadline: int = FUTURE, attempts: int = 1, **more: Any) -> dict[str, Any]:
    """Give the row of a job that our claim took, for a lease that ends then."""
    return row("active", attempts, owner=OWNER, started_at=str(deadline - LEASE), **more)


def recover(client: redis.Redis, owner: str = OWNER, first: int = 0) -> tuple[int, list[Claim]]:
    return run(client, transitions.recover(K, owner=owner, lease_ms=LEASE, first=first))


def test_the_jobs_of_a_lost_claim_are_found_and_nothing_is_changed(client: redis.Redis) -> None:
    world = {
        "active": [(A, LEASE + PAST), (B, FUTURE), (C, FUTURE + 1), (D, FUTURE + 2)],
        job(A): mine(LEASE + PAST),
        job(B): mine(FUTURE, 5, spared="2", stalled="1", max_attempts="9", name="a.b", group=G),
        job(C): row("active", 1, owner=OTHER),
        job(D): row("active", 1),
    }
    seed(client, world)
    assert recover(client) == (
        4,
        [
            Claim(
                queue=QUEUE, id=B, token=5, owner=OWNER, payload=b"p", spared=2, stalled=1, max_attempts=9,
                name="a.b", group=G,
            ),
            Claim(queue=QUEUE, id=A, token=1, owner=OWNER, payload=b"p"),
        ],
    )  # fmt: skip
    assert held(client) == world


def test_a_job_is_recovered_exactly_as_it_was_claimed(client: redis.Redis) -> None:
    options = {"spared": "1", "stalled": "1", "max_attempts": "9", "name": "a.b", "group": G}
    seed(client, {"pending": [(A, 0)], job(A): row("pending", 5, **options)})
    claimed = run(client, transitions.claim(K, limit=1, lease_ms=LEASE, owner=OWNER)).claims
    assert recover(client) == (1, claimed)


def test_how_long_ago_a_job_was_deferred_is_told(client: redis.Redis) -> None:
    seed(client, world_with("active", deferred_at=str(now(client) - 60_000), started_at=str(FUTURE - LEASE)))
    [found] = recover(client)[1]
    assert 60_000 <= (found.deferred_ms or 0) < 90_000


def test_an_empty_queue_has_an_empty_page(client: redis.Redis) -> None:
    assert recover(client) == (0, [])
    assert held(client) == {}


def test_the_latest_deadlines_come_first_page_by_page(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(501)]
    rows = {job(one): mine(FUTURE + rank) for rank, one in enumerate(minted)}
    seed(client, {"active": [(one, FUTURE + rank) for rank, one in enumerate(minted)], **rows})
    size, first_page = recover(client)
    assert (size, [one.id for one in first_page]) == (500, minted[:0:-1])
    size, last_page = recover(client, first=500)
    assert (size, [one.id for one in last_page]) == (1, minted[:1])
    assert recover(client, first=501) == (0, [])


@pytest.mark.parametrize("place", ["pending", "lane", "schedule", "dead", "nowhere", "gone"])
def test_a_job_that_is_not_active_is_not_found(client: redis.Redis, place: str) -> None:
    seed(client, world_with(place))
    assert recover(client) == (0, [])


@pytest.mark.parametrize(
    "unsound",
    [{}, {job(A): "junk"}, {job(A): row("active", "x", owner=OWNER)}, {job(A): {"attempts": "1", "owner": OWNER}}],
)
def test_an_id_whose_row_is_unsound_is_passed_over(client: redis.Redis, unsound: dict[str, Any]) -> None:
    world = {"active": [(A, FUTURE), (B, FUTURE)], **unsound, job(B): mine()}
    seed(client, world)
    size, found = recover(client)
    assert (size, [one.id for one in found]) == (2, [B])
    assert held(client) == world


@pytest.mark.parametrize("field", ["spared", "stalled", "max_attempts", "deferred_at"])
def test_a_number_that_is_none_counts_as_missing(client: redis.Redis, field: str) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): mine(**{field: "x"})})
    assert recover(client)[1] == [Claim(queue=QUEUE, id=A, token=1, owner=OWNER, payload=b"p")]


@pytest.mark.parametrize("started", [{}, {"started_at": "x"}, {"started_at": str(FUTURE - LEASE - 1)}])
def test_a_job_whose_lease_is_not_the_one_of_that_claim_was_claimed_by_another_since(
    client: redis.Redis, started: dict[str, str]
) -> None:
    seed(client, {"active": [(A, FUTURE)], job(A): row("active", 2, owner=OWNER, **started)})
    assert recover(client) == (1, [])
