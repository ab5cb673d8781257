"""taskiq-redis: its stream broker, the one that acknowledges."""

import os

from taskiq_redis import RedisStreamBroker

from benchmarks import marks

broker = RedisStreamBroker(os.environ["BENCH_URL"])


@broker.task
async def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


async def prepare(count: int) -> None:
    await broker.startup()


async def enqueue(argument: dict[str, int]) -> None:
    await run.kiq(argument)
