"""rq: a list of ids, and a hash for each job."""

import os

from redis import Redis
from rq import Queue

from benchmarks import marks

queue = Queue("bench", connection=Redis.from_url(os.environ["BENCH_URL"]))


def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def enqueue(argument: dict[str, int]) -> None:
    queue.enqueue("benchmarks.peers.rq.run", argument, result_ttl=0)


def enqueue_many(arguments: list[dict[str, int]]) -> None:
    queue.enqueue_many([Queue.prepare_data("benchmarks.peers.rq.run", (each,), result_ttl=0) for each in arguments])
