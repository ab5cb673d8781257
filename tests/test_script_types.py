"""A key of a wrong type is met before the first write, and a full server drains."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import looks, scripts, transitions
from echomq_django.call import Call
from tests.places import (
    FUTURE,
    LEASE,
    OWNER,
    PAST,
    QUEUE,
    A,
    About,
    B,
    G,
    K,
    World,
    changed,
    completed,
    errors,
    held,
    job,
    kept,
    key_of,
    lane,
    logs,
    now,
    own,
    row,
    run,
    seed,
    world_with,
)  # fmt: skip

LANES = ["ring", "paused", "glimit", "gactive", lane(G)]
IN_LANE = {lane(G): [(B, 0)], job(B): row("pending", group=G), "paused": {"x"}, "glimit": {G: "9"}, "ring": ["x"]}
ACTIVE = {**world_with("active of a lane", parent=B, parent_queue="other"), **IN_LANE}


def grouped(place: str, score: int) -> World:
    return {place: [(A, score)], job(A): row(place, 2, group=G), **IN_LANE}


def reap(client: redis.Redis) -> Call[Any]:
    client.hset(K.meta, mapping={"reap_run": client.info("server")["run_id"], "reap_after": PAST})
    return transitions.reap(K, limit=10, lease_ms=LEASE, backoff_ms=(), spread=0.5)


# A call of each script in a world where it would move a job of a lane, and the keys that it needs.
Case = tuple[Callable[[redis.Redis], Call[Any]], World, list[str]]
CASES: dict[str, Case] = {
    "enqueue": (lambda _: transitions.enqueue(K, [A, "p"], receipt="r"), {}, ["pending", "schedule", "wake"]),
    "enqueue later": (
        lambda _: transitions.enqueue(K, [A, "p"], receipt="r", at_ms=FUTURE),
        {},
        ["pending", "schedule", "wake"],
    ),
    "claim": (
        lambda _: transitions.claim(K, limit=5, lease_ms=LEASE, owner=OWNER),
        grouped("pending", 0),
        ["pending", "active", "schedule", "quarantine", "meta", "wake", *LANES],
    ),
    "claim what is due": (
        lambda _: transitions.claim(K, limit=5, lease_ms=LEASE, owner=OWNER),
        grouped("schedule", PAST),
        ["pending", "active", "schedule", "quarantine", "meta", "wake", *LANES],
    ),
    "complete": (
        lambda _: transitions.complete(K, [own(A)]),
        ACTIVE,
        ["active", "pending", "schedule", "dead", "metrics:completed", "wake", "flow:outbox", "recent", *LANES],
    ),
    "complete and keep": (
        lambda _: transitions.complete(K, [own(A)], results=[(LEASE, "1")], recent=5),
        {**ACTIVE, errors(A): ["{}"], logs(A): ["line"], f"result:{A}": row("completed")},
        ["active", "pending", "schedule", "dead", "metrics:completed", "wake", "flow:outbox", "recent", *LANES],
    ),
    "retry": (
        lambda _: transitions.retry(K, own(A), delay_ms=1, maximum=9, reason="r", entry="{}"),
        ACTIVE,
        ["active", "pending", "schedule", "dead", "metrics:failed", "wake", "flow:outbox", errors(A), *LANES],
    ),
    "retry to death": (
        lambda _: transitions.retry(K, own(A), delay_ms=1, maximum=1, reason="r", entry="{}"),
        ACTIVE,
        ["active", "pending", "schedule", "dead", "metrics:failed", "wake", "flow:outbox", errors(A), *LANES],
    ),
    "extend": (lambda _: transitions.extend(K, [own(A)], lease_ms=LEASE), ACTIVE, ["active"]),
    "annotate": (
        lambda _: transitions.annotate(K, own(A), [("progress", "1"), ("checkpoint", "2"), ("log", "3")]),
        ACTIVE,
        ["active", logs(A)],
    ),
    "release": (lambda _: transitions.release(K, [own(A)]), ACTIVE, ["active", "pending", "wake", *LANES]),
    "defer": (
        lambda _: transitions.defer(K, own(A), delay_ms=1, reason="no"),
        ACTIVE,
        ["active", "schedule", "pending", "wake", *LANES],
    ),
    "promote": (
        lambda _: transitions.promote(K),
        grouped("schedule", PAST),
        ["schedule", "pending", "quarantine", "wake", *LANES],
    ),
    "reap": (
        reap,
        {**ACTIVE, "active": [(A, PAST)]},
        ["active", "pending", "schedule", "dead", "quarantine", "metrics:failed", "wake", "flow:outbox", *LANES],
    ),
    "requeue": (
        lambda _: transitions.requeue(K, [A]),
        grouped("dead", PAST),
        ["dead", "pending", "quarantine", "wake", *LANES],
    ),
    "revise": (
        lambda _: transitions.revise(K, A, "other"),
        grouped("dead", PAST),
        ["dead", "pending", "quarantine", "wake", *LANES],
    ),
    "remove": (
        lambda _: transitions.remove(K, [A]),
        grouped("dead", PAST),
        ["pending", "active", "schedule", "dead", "wake", *LANES],
    ),
    "advance": (
        lambda _: transitions.advance(K, [A]),
        grouped("schedule", FUTURE),
        ["schedule", "pending", "quarantine", "wake", *LANES],
    ),
    "expire": (lambda _: transitions.expire(K, ttl_ms=1, maximum=0), grouped("dead", PAST), ["dead"]),
    "announce": (
        lambda _: transitions.announce("w", ttl_ms=LEASE, facts={"a": "b"}),
        {},
        ["{emq}:workers", "{emq}:worker:w"],
    ),
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, (_, _, keys) in CASES.items() for key in keys])
def test_a_key_of_a_wrong_type_is_named_and_nothing_is_changed(client: redis.Redis, name: str, key: str) -> None:
    make, world, _ = CASES[name]
    seed(client, changed(world, {key: "a string"}))
    call = make(client)
    before = held(client)
    with pytest.raises(redis.ResponseError) as caught:
        run(client, call)
    assert key_of(key) in str(caught.value)
    assert str(caught.value).startswith("WRONGTYPE")
    assert held(client) == before


@pytest.mark.parametrize("name", ["complete", "complete and keep", "retry", "retry to death", "reap"])
def test_a_minute_of_a_wrong_type_is_named_too(client: redis.Redis, name: str) -> None:
    make, world, _ = CASES[name]
    seed(client, world)
    begun = now(client) // 60_000
    for minute in (begun, begun + 1):  # it may be over in a moment
        client.set(K.minute(minute), "a string")
    call = make(client)
    before = held(client)
    with pytest.raises(redis.ResponseError, match=r"WRONGTYPE emq:\{q\}:minute:\d+ holds"):
        run(client, call)
    assert held(client) == before


@pytest.mark.parametrize("name", ["reap"])
def test_a_meta_of_a_wrong_type_is_named_too(client: redis.Redis, name: str) -> None:
    make, world, _ = CASES[name]
    seed(client, world)
    call = make(client)
    client.set(K.meta, "a string")
    before = held(client)
    with pytest.raises(redis.ResponseError, match=r"WRONGTYPE emq:\{q\}:meta"):
        run(client, call)
    assert held(client) == before


@pytest.mark.parametrize("name", CASES)
def test_every_case_above_does_change_something_when_the_types_are_right(client: redis.Redis, name: str) -> None:
    make, world, _ = CASES[name]
    seed(client, world)
    call = make(client)
    before = held(client)
    run(client, call)
    assert held(client) != before


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[0] not in ("enqueue", "expire", "announce")])
def test_an_error_that_says_nothing_of_the_row_ends_a_script_with_nothing_written(
    client: redis.Redis, name: str
) -> None:
    # A slot that is moving, or a rule of the server. A row that could not be read must not be taken for a broken one.
    make, world, _ = CASES[name]
    seed(client, world)
    call = make(client)
    before = held(client)
    client.script_load(_source(name.split()[0]))
    client.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "-hmget")
    kwargs = {**client.connection_pool.connection_kwargs, "username": "limited", "password": "x"}
    pool = redis.ConnectionPool(connection_class=client.connection_pool.connection_class, **kwargs)
    try:
        with redis.Redis(connection_pool=pool) as limited, pytest.raises(redis.ResponseError):
            run(limited, call)
    finally:
        pool.disconnect()
        client.execute_command("ACL", "DELUSER", "limited")
    assert held(client) == before


def test_records_of_a_wrong_type_go_with_their_job(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): "a string"})
    assert run(client, transitions.complete(K, [own(A)])) == ["ok"]
    assert held(client) == completed(1)


def test_what_is_of_a_wrong_type_is_kept_with_its_job_as_it_is(client: redis.Redis) -> None:
    seed(client, {**world_with("active"), errors(A): "a string", logs(A): {"a": "hash"}, f"result:{A}": "a string"})
    assert run(client, transitions.complete(K, [own(A)], results=[(LEASE, "")])) == ["ok"]
    assert held(client) == {
        kept(A): row("completed", 2, owner=OWNER, finished_at=About(now(client))),
        kept(A, "errors"): "a string",
        kept(A, "logs"): {"a": "hash"},
        **completed(1),
    }


def test_a_receipt_of_a_wrong_type_is_an_error_and_nothing_is_stored(client: redis.Redis) -> None:
    world = {"receipt:r": ["x"]}
    seed(client, world)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        run(client, transitions.enqueue(K, [A, "p"], receipt="r"))
    assert held(client) == world


@pytest.fixture
def fill(client: redis.Redis) -> Iterator[Callable[[], None]]:
    """Give a function that fills the server: what would need more memory is refused from then on."""
    yield lambda: client.config_set("maxmemory", 1)
    client.config_set("maxmemory", 0)


@pytest.mark.parametrize("name", ["enqueue", "enqueue later"])
def test_a_full_server_refuses_new_jobs_and_stores_nothing(
    client: redis.Redis, fill: Callable[[], None], name: str
) -> None:
    make, _, _ = CASES[name]
    run(client, looks.lapsed(K))
    client.script_load(_source("enqueue"))
    fill()
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        run(client, make(client))
    assert held(client) == {}
    client.config_set("maxmemory", 0)
    assert run(client, make(client)) in (["enqueued"], ["scheduled"])


def _source(name: str) -> str:
    source: str = getattr(scripts, name).source
    return source


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("enqueue")])
def test_a_full_server_drains(client: redis.Redis, fill: Callable[[], None], name: str) -> None:
    make, world, _ = CASES[name]
    seed(client, world)
    call = make(client)
    before = held(client)
    client.script_load(_source(name.split()[0]))
    fill()
    run(client, call)
    assert held(client) != before


def test_a_full_server_answers_those_who_only_look(client: redis.Redis, fill: Callable[[], None]) -> None:
    seed(client, world_with("active", started_at=str(FUTURE - LEASE)))
    for name in ("recover", "lapsed"):
        client.script_load(_source(name))
    fill()
    assert run(client, looks.lapsed(K)) == looks.Lapsed(lapsed=0, due=0)
    [found] = run(client, transitions.recover(K, owner=OWNER, lease_ms=LEASE))[1]
    assert (found.queue, found.id) == (QUEUE, A)
