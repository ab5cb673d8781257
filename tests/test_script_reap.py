"""reap: active -> pending | schedule | dead."""

import json
from itertools import pairwise
from typing import Any

import pytest
import redis

from echomq_django import ids, transitions
from echomq_django.job import ErrorRecord
from echomq_django.transitions import Reaped
from tests.places import (
    FUTURE,
    LEASE,
    OTHER,
    OWNER,
    PAST,
    A,
    About,
    B,
    C,
    D,
    G,
    H,
    K,
    World,
    changed,
    errors,
    held,
    job,
    lane,
    now,
    row,
    run,
    seed,
)

BACKOFF = (100_000, 200_000, 400_000)
WORKER = "host:1:abcd"


def reap(
    client: redis.Redis,
    limit: int = 100,
    backoff: tuple[int, ...] = BACKOFF,
    spread: float = 0.5,
    latest: int | None = None,
) -> Reaped:
    settings = {"limit": limit, "lease_ms": LEASE, "backoff_ms": backoff, "spread": spread, "latest_ms": latest}
    return run(client, transitions.reap(K, **settings))


def meta(client: redis.Redis, **more: Any) -> dict[str, Any]:
    """Give what `meta` holds when this server is the one of the last reap."""
    return {"reap_run": client.info("server")["run_id"], "reap_after": str(PAST), **more}


def record(attempt: int, at: int, worker: str = WORKER, started_at: int = 0) -> Any:
    return Record(
        {"error": "crashed", "attempt": attempt, "worker": worker, "started_at": started_at, "finished_at": About(at)}
    )


class Record:
    """Equal a JSON text with these contents."""

    def __init__(self, contents: dict[str, Any]) -> None:
        self.contents = contents

    def __eq__(self, other: object) -> bool:
        return json.loads(other) == self.contents  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record({self.contents})"


def overdue(**fields: Any) -> World:
    """Give a world in which the lease of A ran out; it was claimed twice."""
    return {"active": [(A, PAST)], job(A): row("active", 2, owner=OWNER, started_at="500", **fields)}


def test_a_server_that_is_not_the_one_of_the_last_reap_gives_live_workers_one_lease(client: redis.Redis) -> None:
    world = {**overdue(), "meta": {"paused": "1", "reap_run": "another", "reap_after": str(PAST)}}
    seed(client, world)
    assert reap(client) == Reaped(waiting=True, pending=0, schedule=0, dead=0, quarantined=0)
    at = now(client)
    waits = meta(client, paused="1", reap_after=About(at + LEASE))
    assert held(client) == {**world, "meta": waits}


def test_a_queue_that_was_never_reaped_waits_too(client: redis.Redis) -> None:
    seed(client, overdue())
    assert reap(client).waiting
    assert held(client) == {**overdue(), "meta": meta(client, reap_after=About(now(client) + LEASE))}


def test_nothing_is_reaped_until_that_lease_is_over_and_the_wait_does_not_begin_again(client: redis.Redis) -> None:
    world = {**overdue(), "meta": meta(client, reap_after=str(FUTURE))}
    seed(client, world)
    assert reap(client).waiting
    assert held(client) == world


def test_a_call_that_comes_too_late_is_refused(client: redis.Redis) -> None:
    world = {**overdue(), "meta": meta(client)}
    seed(client, world)
    late = reap(client, latest=now(client) - 1)
    assert late == Reaped(waiting=True, pending=0, schedule=0, dead=0, quarantined=0)
    assert held(client) == world
    assert reap(client, latest=now(client) + LEASE).pending == 1


@pytest.mark.parametrize("reap_after", [str(PAST), "x", "", None])
def test_afterwards_leases_are_all_that_counts(client: redis.Redis, reap_after: str | None) -> None:
    seed(client, {**overdue(), "meta": changed(meta(client), {"reap_after": reap_after})})
    assert reap(client) == Reaped(waiting=False, pending=1, schedule=0, dead=0, quarantined=0)


def test_the_first_loss_sends_a_job_back_to_pending_and_is_recorded(client: redis.Redis) -> None:
    world = {**overdue(), "meta": meta(client)}
    seed(client, world)
    assert reap(client) == Reaped(waiting=False, pending=1, schedule=0, dead=0, quarantined=0)
    assert held(client) == changed(
        world,
        {
            "active": None,
            "pending": [(A, 0)],
            job(A): {**world[job(A)], "state": "pending", "spared": "1", "stalled": "1"},
            errors(A): [record(2, now(client), started_at=500)],
            "minute": {"failed": "1"},
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize(("stalled", "delay"), [("1", 100_000), ("2", 200_000)])
def test_the_next_losses_send_it_to_schedule_with_a_share_of_the_backoff(
    client: redis.Redis, stalled: str, delay: int
) -> None:
    world = {**overdue(stalled=stalled, spared="1"), "meta": meta(client), errors(A): ["old"]}
    seed(client, world)
    assert reap(client) == Reaped(waiting=False, pending=0, schedule=1, dead=0, quarantined=0)
    at = now(client)
    assert held(client) == changed(
        world,
        {
            "active": None,
            "schedule": [(A, About(at + delay))],
            job(A): {**world[job(A)], "state": "scheduled", "spared": "2", "stalled": str(int(stalled) + 1)},
            errors(A): ["old", record(1, at, started_at=500)],
            "minute": {"failed": "1"},
            "wake": ["1"],
        },
    )


def test_the_last_loss_buries_it_with_the_reason(client: redis.Redis) -> None:
    world = {**overdue(stalled="3", spared="3"), "meta": meta(client), "metrics:failed": {"count": "6"}}
    seed(client, world)
    assert reap(client) == Reaped(waiting=False, pending=0, schedule=0, dead=1, quarantined=0)
    at = now(client)
    died = {
        "state": "dead", "spared": "4", "stalled": "4", "died_at": About(at),
        "last_error": "crashed: its worker was lost 4 times while running it",
    }  # fmt: skip
    assert held(client) == changed(
        world,
        {
            "active": None,
            "dead": [(A, About(at))],
            job(A): {**world[job(A)], **died},
            errors(A): [record(-1, at, started_at=500)],
            "minute": {"failed": "1"},
            "metrics:failed": {"count": "7"},
        },
    )


def test_without_a_backoff_the_first_loss_is_the_last(client: redis.Redis) -> None:
    seed(client, {**overdue(), "meta": meta(client)})
    assert reap(client, backoff=()).dead == 1


def test_with_one_delay_the_second_loss_is_the_last(client: redis.Redis) -> None:
    seed(client, {**overdue(), "meta": meta(client)})
    assert reap(client, backoff=(1,)).pending == 1
    client.delete(K.pending)
    client.zadd(K.active, {A: PAST})
    assert reap(client, backoff=(1,)).dead == 1


def test_a_lease_that_has_not_run_out_is_left_alone(client: redis.Redis) -> None:
    world = {
        "active": [(A, PAST), (B, FUTURE)],
        job(A): row("active", 1),
        job(B): row("active", 1, owner=OWNER),
        "meta": meta(client),
    }
    seed(client, world)
    assert reap(client).moved == 1
    assert held(client)["active"] == [(B, FUTURE)]
    assert held(client)[job(B)] == world[job(B)]


def test_nothing_overdue_changes_nothing(client: redis.Redis) -> None:
    world = {"active": [(A, FUTURE)], job(A): row("active", 1), "meta": meta(client)}
    seed(client, world)
    assert reap(client) == Reaped(waiting=False, pending=0, schedule=0, dead=0, quarantined=0)
    assert held(client) == world


def test_the_longest_overdue_come_first_and_the_limit_holds(client: redis.Redis) -> None:
    rows = {job(one): row("active", 1) for one in (A, B, C)}
    seed(client, {"active": [(C, PAST), (B, PAST + 1), (A, PAST + 2)], **rows, "meta": meta(client)})
    assert reap(client, limit=2).pending == 2
    assert held(client)["active"] == [(A, PAST + 2)]
    assert held(client)["pending"] == [(B, 0), (C, 0)]


@pytest.mark.parametrize(("priority", "score"), [("9", -9), ("-100", 100), ("101", 0), ("-101", 0), ("x", 0), ("", 0)])
def test_a_reaped_job_gets_its_priority_back(client: redis.Redis, priority: str, score: int) -> None:
    seed(client, {**overdue(priority=priority), "meta": meta(client)})
    reap(client)
    assert held(client)["pending"] == [(A, score)]


def test_a_row_that_echomq_made_is_reaped(client: redis.Redis) -> None:
    world = {"active": [(A, PAST)], job(A): row("active", 1), "meta": meta(client)}
    seed(client, world)
    assert reap(client).pending == 1
    assert held(client) == changed(
        world,
        {
            "active": None,
            "pending": [(A, 0)],
            job(A): row("pending", 1, spared="1", stalled="1"),
            errors(A): [record(1, now(client), worker="")],
            "minute": {"failed": "1"},
            "wake": ["1"],
        },
    )


@pytest.mark.parametrize("backoff", [BACKOFF, ()])
def test_lost_leases_are_failed_attempts_of_the_minute_of_the_servers_clock(
    client: redis.Redis, backoff: tuple[int, ...]
) -> None:
    rows = {job(one): row("active", 1) for one in (A, B)}
    seed(client, {"active": [(A, PAST), (B, PAST), (C, PAST)], **rows, "meta": meta(client)})
    started = now(client) // 60_000
    assert reap(client, backoff=backoff).quarantined == 1
    [key] = client.keys(K.minute_root + "*")
    assert started <= int(key.decode().removeprefix(K.minute_root)) <= now(client) // 60_000
    assert client.hgetall(key) == {b"failed": b"2"}
    assert 7_190 < client.ttl(key) <= 7_200


@pytest.mark.parametrize("junk", ["", "x", "-1", "1.5", "1e3", "1" * 16])
@pytest.mark.parametrize("field", ["spared", "stalled", "started_at"])
def test_a_number_that_is_none_counts_as_nought(client: redis.Redis, field: str, junk: str) -> None:
    world = {"active": [(A, PAST)], job(A): row("active", 2, owner=OWNER, **{field: junk}), "meta": meta(client)}
    seed(client, world)
    assert reap(client).pending == 1
    counted = {"spared": "1", "stalled": "1"}
    assert held(client)[job(A)] == row("pending", 2, owner=OWNER, **{field: junk, **counted})
    assert held(client)[errors(A)] == [record(2, now(client))]


@pytest.mark.parametrize(
    "owner", [b'a"b\\c\nd:7', b"\x00\x1f:7", "h\u00f6st:1:\u2028".encode(), b"\xff\xfe:7", b"", b":", b"7"]
)
def test_the_record_of_a_crash_can_be_read_whatever_the_owner_is(client: redis.Redis, owner: bytes) -> None:
    seed(client, {"active": [(A, PAST)], job(A): row("active", 2, owner=owner), "meta": meta(client)})
    reap(client)
    [text] = client.lrange(K.errors(A), 0, -1)
    read = ErrorRecord.load(text)
    if read.error != "unreadable":  # a name that is no text makes no JSON
        assert (read.error, read.attempt) == ("crashed", 2)
    else:
        assert owner == b"\xff\xfe:7"


def test_the_record_names_the_worker_without_the_number_of_its_claim(client: redis.Redis) -> None:
    seed(client, {"active": [(A, PAST)], job(A): row("active", 2, owner="h:22:ab34:911"), "meta": meta(client)})
    reap(client)
    assert ErrorRecord.load(client.lindex(K.errors(A), 0)).worker == "h:22:ab34"


def test_the_newest_error_records_are_kept(client: redis.Redis) -> None:
    full = [str(number) for number in range(transitions.ERRORS_KEPT)]
    seed(client, {**overdue(), errors(A): full, "meta": meta(client)})
    reap(client)
    assert held(client)[errors(A)] == [*full[1:], record(2, now(client), started_at=500)]


@pytest.mark.parametrize(
    "unsound",
    [
        {},
        {job(A): "junk"},
        {job(A): {"state": "active", "payload": "p"}},
        {job(A): row("active", "x")},
        {job(A): row("active", 1), errors(A): "junk"},
    ],
)
def test_an_id_whose_row_or_records_are_unsound_is_put_aside(client: redis.Redis, unsound: World) -> None:
    world = {"active": [(A, PAST), (B, PAST + 1)], job(B): row("active", 1), **unsound, "meta": meta(client)}
    seed(client, world)
    assert reap(client) == Reaped(waiting=False, pending=1, schedule=0, dead=0, quarantined=1)
    at = now(client)
    assert held(client) == changed(
        world,
        {
            "active": None,
            "pending": [(B, 0)],
            "quarantine": [(A, About(at))],
            job(B): row("pending", 1, spared="1", stalled="1"),
            errors(B): [record(1, at, worker="")],
            "minute": {"failed": "1"},
            "wake": ["1"],
        },
    )


def test_a_job_of_a_lane_returns_to_it_and_is_no_more_in_flight(client: redis.Redis) -> None:
    world = {
        "active": [(A, PAST), (B, PAST)],
        "gactive": {G: "1", H: "5"},
        job(A): row("active", 1, group=G),
        job(B): row("active", 1, group=H),
        "meta": meta(client),
    }
    seed(client, world)
    assert reap(client).pending == 2
    at = now(client)
    assert held(client) == {
        "gactive": {H: "4"},
        lane(G): [(A, 0)],
        lane(H): [(B, 0)],
        "ring": [G, H],
        "wake": ["1", "1"],
        job(A): row("pending", 1, group=G, spared="1", stalled="1"),
        job(B): row("pending", 1, group=H, spared="1", stalled="1"),
        errors(A): [record(1, at, worker="")],
        errors(B): [record(1, at, worker="")],
        "minute": {"failed": "2"},
        "meta": meta(client),
    }


@pytest.mark.parametrize(("stalled", "place"), [("1", "schedule"), ("9", "dead")])
def test_a_job_of_a_lane_that_does_not_return_makes_room_for_the_next_one(
    client: redis.Redis, stalled: str, place: str
) -> None:
    world = {
        **overdue(group=G, stalled=stalled), "gactive": {G: "1"}, "glimit": {G: "1"}, lane(G): [(B, 0)],
        job(B): row("pending", group=G), "meta": meta(client),
    }  # fmt: skip
    seed(client, world)
    assert getattr(reap(client), place) == 1
    found = held(client)
    assert (found.get("gactive"), found["ring"], found[lane(G)]) == (None, [G], [(B, 0)])
    assert [one for one, _ in found[place]] == [A]


def test_one_reap_sends_each_job_to_its_own_place(client: redis.Redis) -> None:
    rows = {job(one): row("active", 1, stalled=str(losses)) for losses, one in enumerate((A, B, C, D))}
    seed(client, {"active": [(one, PAST) for one in (A, B, C, D)], **rows, "meta": meta(client)})
    assert reap(client) == Reaped(waiting=False, pending=1, schedule=2, dead=1, quarantined=0)
    at = now(client)
    found = held(client)
    assert found["pending"] == [(A, 0)]
    assert found["schedule"] == [(C, About(at + 400_000 * 0.118)), (B, About(at + 200_000 * 0.5))]
    assert found["dead"] == [(D, About(at))]
    assert found["minute"] == {"failed": "4"}


def test_jobs_that_were_lost_together_come_back_apart(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8)]
    rows = {job(one): row("active", 1, stalled="1") for one in minted}
    seed(client, {"active": [(one, PAST) for one in minted], **rows, "meta": meta(client)})
    before = now(client)
    assert reap(client, backoff=(0, 800_000), spread=0.9).schedule == 8
    delays = sorted(score - before for _, score in held(client)["schedule"])
    assert all(later - earlier > 40_000 for earlier, later in pairwise(delays))
    assert delays[0] >= 0
    assert delays[-1] < 809_000


@pytest.mark.parametrize(("spread", "delay"), [(0, 0), (0.999, 199_800)])
def test_a_share_is_a_fraction_of_the_backoff(client: redis.Redis, spread: float, delay: int) -> None:
    seed(client, {**overdue(stalled="1"), "meta": meta(client)})
    assert reap(client, spread=spread).schedule == 1
    assert held(client)["schedule"] == [(A, About(now(client) + delay))]


@pytest.mark.parametrize("others", [{"pending": [(B, 0)]}, {"wake": ["1"]}])
def test_a_worker_is_woken_only_when_pending_was_empty_and_no_token_is_left(client: redis.Redis, others: World) -> None:
    seed(client, {**overdue(), **others, "meta": meta(client)})
    reap(client)
    assert held(client).get("wake") == others.get("wake")


def test_where_info_is_forbidden_leases_count_and_what_another_reaper_has_seen(client: redis.Redis) -> None:
    client.execute_command("ACL", "SETUSER", "reaper", "on", ">x", "~*", "+@all", "-info")
    try:
        with redis.Redis(
            connection_pool=redis.ConnectionPool(
                **{**client.connection_pool.connection_kwargs, "username": "reaper", "password": "x"},
                connection_class=client.connection_pool.connection_class,
            )
        ) as limited:
            known = overdue() | {"meta": meta(client, reap_after=str(FUTURE))}
            seed(client, known)
            assert reap(limited).waiting  # as a reaper has said that may ask
            assert held(client) == known
            client.hset(K.meta, "reap_after", PAST)
            assert reap(limited).pending == 1
            limited.connection_pool.disconnect()
    finally:
        client.execute_command("ACL", "DELUSER", "reaper")


@pytest.mark.slow
def test_thousands_of_overdue_jobs_are_reaped_in_bounded_calls(client: redis.Redis) -> None:
    minted = [ids.brand("JOB", number) for number in range(8_500)]
    rows = {job(one): row("active", 1, owner=OTHER) for one in minted}
    seed(client, {"active": [(one, PAST) for one in minted], **rows, "meta": meta(client)})
    assert [reap(client, 500).pending for _ in range(18)] == [500] * 17 + [0]
    assert client.zrange(K.pending, 0, -1) == [one.encode() for one in minted]
