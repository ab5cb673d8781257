"""dramatiq: lists, prefetched by a consumer thread."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks import marks

dramatiq.set_broker(RedisBroker(url=os.environ["BENCH_URL"]))


@dramatiq.actor
def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def enqueue(argument: dict[str, int]) -> None:
    run.send(argument)
