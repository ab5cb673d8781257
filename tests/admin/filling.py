"""Fill the places of a queue through the service, as producers and workers do."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import redis

from echomq_django import ids, jobs, keys
from tests import tasks

QUEUE = "default"
SOON = datetime(2100, 1, 1, tzinfo=UTC)
HOSTILE = (
    '<script>alert("1")</script><img src=x onerror=alert(1)>\'"&',
    'a"onmouseover="alert(2)" b=\'c\'>',
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "{{ 7|add:7 }}{% debug %}",
    "javascript:alert(3)",
    "</pre></textarea></details><b>4</b>",
)
"""Texts that a page must not take for markup."""


def pending(payload: Any = "p", *, queue: str = QUEUE, **more: Any) -> str:
    """Enqueue a job, and give its id."""
    return jobs.enqueue(queue, payload, **more).id


def scheduled(payload: Any = "p", *, queue: str = QUEUE, at: datetime = SOON, **more: Any) -> str:
    """Put a job on the schedule, and give its id."""
    return jobs.enqueue(queue, payload, at=at, **more).id


def active(payload: Any = "p", *, queue: str = QUEUE, **more: Any) -> jobs.Claim:
    """Enqueue a job and claim the first of its queue, which is this one unless others wait."""
    pending(payload, queue=queue, **more)
    [claim] = jobs.claim(queue, lease=timedelta(minutes=5))
    return claim


def dead(payload: Any = "p", error: BaseException | str = "ValueError: no", *, queue: str = QUEUE, **more: Any) -> str:
    """Let a job fail for good, and give its id."""
    return _die(active(payload, queue=queue, **more), error)


def dead_task(*args: Any, error: BaseException | str = "ValueError: no", **kwargs: Any) -> str:
    """Let a task fail for good, and give its id."""
    tasks.echo.enqueue(*args, **kwargs)
    [claim] = jobs.claim(QUEUE, lease=timedelta(minutes=5))
    return _die(claim, error)


def _die(claim: jobs.Claim, error: BaseException | str) -> str:
    try:
        raise error if isinstance(error, BaseException) else ValueError("no")
    except BaseException as raised:
        jobs.retry(claim, error if isinstance(error, str) else raised, max_attempts=1)
    return claim.id


def completed(payload: Any = "p", result: Any = "done", *, queue: str = QUEUE) -> str:
    """Complete a job whose result is kept, and give its id."""
    claim = active(payload, queue=queue)
    jobs.complete(claim, result)
    return claim.id


PUT = """
local place, root = KEYS[1], KEYS[2]
local row, rowless = cjson.decode(ARGV[1]), tonumber(ARGV[2])
for at = 3, #ARGV, 2000 do
    redis.call("ZADD", place, unpack(ARGV, at, math.min(at + 1999, #ARGV)))
end
for at = 4 + 2 * rowless, #ARGV, 2 do
    redis.call("HSET", root .. ARGV[at], unpack(row))
end
"""
"""Put ids into a place, and a row under each but the first `rowless`. From Python a million of them take a minute."""


def crowd(
    client: redis.Redis,
    place: str,
    number: int,
    *,
    queue: str = QUEUE,
    rows: int = 1000,
    first_ms: int = 1_700_000_000_000,
    days: int = 40,
    **fields: Any,
) -> list[str]:
    """Put many ids into a place, spread over days, and rows under the `rows` last ones; the first comes up first."""
    names = keys.of(queue)
    minted = [ids.brand("JOB", at) for at in range(1, number + 1)]
    scores = [0 if place == "pending" else first_ms + at * days * 86_400_000 // number for at in range(number)]
    row = {
        "state": place, "attempts": 1, "payload": "p" * 1000, "name": "shop.pay", "last_error": "ValueError: no",
        **fields,
    }  # fmt: skip
    told = json.dumps([str(each) for field in row.items() for each in field])
    client.sadd(keys.QUEUES, queue)
    put = client.register_script(PUT)
    for first in range(0, number, 10_000):
        chunk = slice(first, first + 10_000)
        pairs = [each for pair in zip(scores[chunk], minted[chunk], strict=True) for each in pair]
        put(keys=[getattr(names, place), names.job_root], args=[told, max(0, number - rows - first), *pairs])
    return minted
