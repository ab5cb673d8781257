"""huey: one list, popped."""

import os

from huey import RedisHuey

from benchmarks import marks

queue = RedisHuey("bench", results=False, url=os.environ["BENCH_URL"])


@queue.task()
def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def enqueue(argument: dict[str, int]) -> None:
    run(argument)
