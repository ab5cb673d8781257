"""The server's own limit: the least that a queue with leases does, straight through redis-py.

No retries, fences, results, heartbeats, threads or housekeeping. Enqueue is one small script, and so is a claim that
completes what was claimed before. `python -m benchmarks.raw_bare 32 fused` is the worker.
"""

import itertools
import json
import os
import sys
from typing import Any

import redis

from benchmarks import marks

ENQUEUE = """
local pending, wake, root = KEYS[1], KEYS[2], KEYS[3]
local was = redis.call("EXISTS", pending)
for at = 1, #ARGV, 2 do
    redis.call("HSET", root .. ARGV[at], "state", "pending", "attempts", 0, "payload", ARGV[at + 1])
    redis.call("ZADD", pending, 0, ARGV[at])
end
if was == 0 then redis.call("LPUSH", wake, 1) end
"""
COMPLETE = """
local active, root = KEYS[2], KEYS[3]
for at = 3, #ARGV do
    redis.call("ZREM", active, ARGV[at])
    redis.call("DEL", root .. ARGV[at])
end
"""
CLAIM = """
local pending, active, root = KEYS[1], KEYS[2], KEYS[3]
local ids = redis.call("ZRANGE", pending, 0, ARGV[1] - 1)
local answer = {}
if ids[1] then
    redis.call("ZREM", pending, unpack(ids))
    for _, id in ipairs(ids) do
        redis.call("ZADD", active, ARGV[2], id)
        redis.call("HINCRBY", root .. id, "attempts", 1)
        answer[#answer + 1] = id
        answer[#answer + 1] = redis.call("HGET", root .. id, "payload")
    end
end
return answer
"""
PENDING, ACTIVE, WAKE, ROOT = "{bare}:pending", "{bare}:active", "{bare}:wake", "{bare}:job:"
NEVER = 4_000_000_000_000
"""Where the lease ends, ms: nobody reaps here."""

client = redis.Redis.from_url(os.environ["BENCH_URL"], protocol=2)
shas: dict[str, str] = {}
serial = itertools.count()


def _run(script: str, keys: tuple[str, ...], *arguments: Any) -> Any:
    if script not in shas:
        shas[script] = client.script_load(script)
    return client.execute_command("EVALSHA", shas[script], len(keys), *keys, *arguments)


def enqueue(argument: dict[str, int]) -> None:
    """Store one job."""
    enqueue_many([argument])


def enqueue_many(arguments: list[dict[str, int]]) -> None:
    """Store jobs."""
    # As long as a branded id. Not the order: a producer's first job, which is not measured, has one too.
    jobs = [text for each in arguments for text in (f"{os.getpid():07}{next(serial):07}", json.dumps(each))]
    _run(ENQUEUE, (PENDING, WAKE, ROOT), *jobs)


def work(batch: int, *, fused: bool) -> None:
    """Run jobs for ever: complete and claim in one script, or in one after the other."""
    keys, done = (PENDING, ACTIVE, ROOT), []
    while True:
        if fused:
            told = _run(COMPLETE + CLAIM, keys, batch, NEVER, *done)
        else:
            if done:
                _run(COMPLETE, keys, batch, NEVER, *done)
            told = _run(CLAIM, keys, batch, NEVER)
        for payload in told[1::2]:
            marks.hit(json.loads(payload))
        done = told[::2]
        if not done:
            client.blpop([WAKE], timeout=1)


if __name__ == "__main__":
    work(int(sys.argv[1]), fused=sys.argv[2] == "fused")
