"""bullmq: its Python port, which runs the same scripts."""

import asyncio
import os
import signal
from typing import Any

from bullmq import Queue, Worker

from benchmarks import marks

URL = os.environ["BENCH_URL"]
OPTIONS = {"removeOnComplete": True}
queues: list[Queue] = []


async def run(job: Any, token: str) -> None:
    marks.hit(job.data)


async def prepare(count: int) -> None:
    queues.append(Queue("bench", {"connection": URL}))


async def enqueue(argument: dict[str, int]) -> None:
    await queues[0].add("run", argument, OPTIONS)


async def enqueue_many(arguments: list[dict[str, int]]) -> None:
    await queues[0].addBulk([{"name": "run", "data": each, "opts": OPTIONS} for each in arguments])


async def work() -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker("bench", run, {"connection": URL, "concurrency": 50})
    await stopped.wait()
    await worker.close(force=True)


if __name__ == "__main__":
    asyncio.run(work())
