"""saq: lists and sorted sets, asyncio."""

import os
from typing import Any

from saq import Queue

from benchmarks import marks

queue = Queue.from_url(os.environ["BENCH_URL"])


async def run(context: Any, *, argument: dict[str, int]) -> None:
    marks.hit(argument)


settings = {"queue": queue, "functions": [run], "concurrency": 50}


async def enqueue(argument: dict[str, int]) -> None:
    await queue.enqueue("run", argument=argument, ttl=-1)
