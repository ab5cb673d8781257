"""streaq: streams, anyio."""

import os
from typing import Any

from streaq import Worker

from benchmarks import marks

worker: Worker[Any] = Worker(redis_url=os.environ["BENCH_URL"], queue_name="bench", concurrency=50)


@worker.task(ttl=0, silent=True)
async def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


async def prepare(count: int) -> None:
    await worker.__aenter__()


async def enqueue(argument: dict[str, int]) -> None:
    await run.enqueue(argument)


async def enqueue_many(arguments: list[dict[str, int]]) -> None:
    await worker.enqueue_many([run.enqueue(each) for each in arguments])
