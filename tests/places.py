"""A queue's keys as plain values: to be written before a script is called, and compared whole afterwards.

A world is `{short key: value}`: `[(id, score)]` is a sorted set, `["1"]` a list, a dict a hash, a set a set and a str a
string; the prefix of the queue's keys is left off, and a key that has a TTL is called "… (expires)".
"""

from typing import Any, TypeVar

import redis
from redis.exceptions import NoScriptError

from echomq_django import ids, keys, scripts
from echomq_django.call import Call
from echomq_django.job import Claim
from tests.server import dump

T = TypeVar("T")
World = dict[str, Any]

QUEUE = "q"
K = keys.of(QUEUE)
A, B, C, D, E = (ids.brand("JOB", number) for number in range(1, 6))
G, H = ids.brand("TEN", 1), ids.brand("TEN", 2)
LEASE = 30_000
OWNER, OTHER = "host:1:abcd:7", "host:1:abcd:8"
PAST, FUTURE = 1_000, 4_000_000_000_000
"""A time that is over, and one that is not yet; both unix ms."""


class About:
    """Equal a time near the one given, be it a number or a text; leases and delays in the tests are longer."""

    def __init__(self, ms: float) -> None:
        self.ms = ms

    def __eq__(self, other: object) -> bool:
        return abs(float(other) - self.ms) < 9_000  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"About({self.ms})"


def job(job_id: str) -> str:
    return f"job:{job_id}"


def errors(job_id: str) -> str:
    return f"job:{job_id}:errors"


def logs(job_id: str) -> str:
    return f"job:{job_id}:logs"


def kept(job_id: str, part: str = "") -> str:
    """Name what is kept of a completed job: its row, or a part such as errors."""
    return f"result:{job_id}{part and ':' + part} (expires)"


def lane(group: str) -> str:
    return f"g:{group}:pending"


def row(state: str, attempts: int | str = 0, **more: Any) -> dict[str, Any]:
    """Give a row as EchoMQ makes it, and whatever else it shall hold."""
    return {"state": state, "attempts": str(attempts), "payload": "p", **more}


def own(job_id: str = A, *, token: int = 2, owner: str = OWNER) -> Claim:
    """Give a claim as a worker holds it."""
    return Claim(queue=QUEUE, id=job_id, token=token, owner=owner, payload=b"p")


def now(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def run(client: redis.Redis, call: Call[T]) -> T:
    """Carry a call out as any client would, loading a script that the server does not know."""
    return call.parse([_execute(client, command) for command in call.commands])


def _execute(client: redis.Redis, command: tuple[Any, ...]) -> Any:
    try:
        return client.execute_command(*command)
    except NoScriptError:
        client.script_load(scripts.BY_SHA[command[1]].source)
        return client.execute_command(*command)


def key_of(short: str) -> str:
    return short if short.startswith("{") else keys.of(QUEUE).pending.removesuffix("pending") + short


def seed(client: redis.Redis, world: World) -> None:
    """Write a world as it is."""
    pipe = client.pipeline(transaction=False)
    for short, value in world.items():
        key = key_of(short)
        match value:
            case str():
                pipe.set(key, value)
            case dict():
                pipe.hset(key, mapping=value)
            case set():
                pipe.sadd(key, *value)
            case [(_, _), *_]:
                pipe.zadd(key, dict(value))
            case _:
                pipe.rpush(key, *value)
    pipe.execute()


def held(client: redis.Redis) -> World:
    """Read everything that the server holds, as a world."""
    prefix = key_of("")
    world = {
        key.removeprefix(prefix) + (" (expires)" if has_ttl else ""): set(value) if kind == "set" else value
        for key, (kind, value, has_ttl) in dump(client).items()
    }
    return _with_one_minute(world, now(client) // 60_000)


def _with_one_minute(world: World, latest: int) -> World:
    """Add up the counts of the minutes in which a test has run, as "minute"; those of other times stay as they are."""
    counts: dict[str, int] = {}
    for minute in range(latest - 10, latest + 1):
        for name, number in world.pop(f"minute:{minute} (expires)", {}).items():
            counts[name] = counts.get(name, 0) + int(number)
    return world | ({"minute": {name: str(number) for name, number in counts.items()}} if counts else {})


def completed(number: int, before: int = 0) -> World:
    """Give the counts of a queue in which jobs were completed, and how many had been when the test began."""
    return {"metrics:completed": {"count": str(before + number)}, "minute": {"completed": str(number)}}


def changed(world: World, changes: World) -> World:
    """Give a world with keys replaced; None takes one out."""
    return {key: value for key, value in {**world, **changes}.items() if value is not None}


# Where a job can be when a worker settles it, and whether it counts among its lane's jobs in flight.
PLACES = ("pending", "lane", "active", "active of a lane", "schedule", "dead", "nowhere", "gone")


def world_with(place: str, **fields: Any) -> World:
    """Give a world with one job, A, in a place; it was claimed twice."""
    held_by = {"owner": OWNER, **fields}
    record = {name: value for name, value in held_by.items() if value is not None}
    match place:
        case "pending":
            return {"pending": [(A, 0)], job(A): row("pending", 2, **record)}
        case "lane":
            return {lane(G): [(A, 0)], "ring": [G], job(A): row("pending", 2, group=G, **record)}
        case "active":
            return {"active": [(A, FUTURE)], job(A): row("active", 2, **record)}
        case "active of a lane":
            return {"active": [(A, FUTURE)], "gactive": {G: "1"}, job(A): row("active", 2, group=G, **record)}
        case "schedule":
            return {"schedule": [(A, FUTURE)], job(A): row("scheduled", 2, **record)}
        case "dead":
            return {"dead": [(A, PAST)], job(A): row("dead", 2, **record)}
        case "nowhere":
            return {job(A): row("awaiting_children", 2, **record)}
        case "gone":
            return {}
    raise AssertionError(place)
