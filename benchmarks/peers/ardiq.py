"""ardiq: streams, a Rust core."""

import os

from ardiq import Ardiq

from benchmarks import marks

app = Ardiq(redis_url=os.environ["BENCH_URL"], queue_name="bench", concurrency=100, result_ttl_ms=1000)


@app.task(name="async")
async def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


@app.task(name="sync")
def run_sync(argument: dict[str, int]) -> None:
    marks.hit(argument)


task = {"async": run, "sync": run_sync}[os.environ["BENCH_KIND"]]


async def enqueue(argument: dict[str, int]) -> None:
    await task.enqueue(argument)


async def enqueue_many(arguments: list[dict[str, int]]) -> None:
    await app.enqueue_many([task.prepare(each) for each in arguments])
