"""Our own scripts in a bare loop: what the wire costs, without the worker around it.

Claim and complete of 32 go in one round trip, made and read by our own Call objects. Enqueue is `execute_command` of
redis-py with commands that were written before the clock started.
"""

import json
import os
import sys
from collections.abc import Iterator

import redis

from benchmarks import marks
from echomq_django import ids, keys, scripts, transitions

QUEUE = keys.of("raw")
LEASE_MS = 30_000

client = redis.Redis.from_url(os.environ["BENCH_URL"], protocol=2)
written: Iterator[tuple[object, ...]] = iter(())


def prepare(count: int) -> None:
    """Load the script, and write the commands of the jobs that will be stored one by one."""
    global written
    client.script_load(scripts.enqueue.source)
    written = iter([_command([marks.argument(number)]) for number in range(count + 1)])


def enqueue(argument: dict[str, int]) -> None:
    """Send the next written command; one that says when it was sent is written now."""
    client.execute_command(*(_command([argument]) if argument["sent"] else next(written)))


def enqueue_many(arguments: list[dict[str, int]]) -> None:
    """Store jobs with one script."""
    client.execute_command(*_command(arguments))


def _command(arguments: list[dict[str, int]]) -> tuple[object, ...]:
    jobs = [text for each in arguments for text in (ids.mint(), json.dumps(each))]
    return transitions.enqueue(QUEUE, jobs, receipt=ids.mint()).commands[0]


def work(batch: int) -> None:
    """Run jobs for ever."""
    for script in (scripts.claim, scripts.complete):
        client.script_load(script.source)
    connection = client.connection_pool.get_connection()
    done, number = [], 0
    while True:
        number += 1
        calls = [transitions.complete(QUEUE, done)] if done else []
        calls.append(transitions.claim(QUEUE, limit=batch, lease_ms=LEASE_MS, owner=f"raw:{os.getpid()}:{number}"))
        connection.send_packed_command(connection.pack_commands([call.commands[0] for call in calls]))
        answers = [call.parse([connection.read_response()]) for call in calls]
        done = answers[-1].claims
        for claim in done:
            marks.hit(json.loads(claim.payload))
        if not done:
            client.blpop([QUEUE.wake], timeout=1)


if __name__ == "__main__":
    work(int(sys.argv[1]))
