"""arq: one sorted set, polled, asyncio."""

import os
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from benchmarks import marks

redis = RedisSettings.from_dsn(os.environ["BENCH_URL"])
pools: list[Any] = []


async def run(context: Any, argument: dict[str, int]) -> None:
    marks.hit(argument)


class Settings:
    functions = [run]
    redis_settings = redis
    keep_result = 0
    max_jobs = 50
    poll_delay = 0.02
    log_results = False


async def prepare(count: int) -> None:
    pools.append(await create_pool(redis))


async def enqueue(argument: dict[str, int]) -> None:
    await pools[0].enqueue_job("run", argument)
