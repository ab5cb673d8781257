"""The producer, in the contestant's own Python: `python -m benchmarks.drive MODULE fill|single|bulk|ping|load|setup …`.

Prints how many jobs it stored in how many seconds, and how many with the first one, as JSON. Standard library only: the
peers' venvs run this.
"""

import asyncio
import inspect
import json
import sys
import time
from collections.abc import Coroutine, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from benchmarks.marks import argument

T = TypeVar("T")
BULK = 500
TOGETHER = 100


def has_loop(module: ModuleType) -> bool:
    """Say whether a module's functions are coroutines."""
    return inspect.iscoroutinefunction(module.enqueue)


def plainly(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing without a loop: Django's ORM refuses to work inside one."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("it waits for something")


async def pause(module: ModuleType, seconds: float) -> None:
    """Sleep, on the loop where there is one."""
    if has_loop(module):
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)


async def call(function: Any, *given: Any) -> None:
    """Call what may be a coroutine function; a plain one runs as it would anywhere."""
    made = function(*given)
    if inspect.isawaitable(made):
        await made


async def fill(module: ModuleType, count: int, seconds: float, burn: int = 0) -> int:
    """Store jobs the quickest way there is, until there are enough or it took too long."""
    return await _repeat(module, count, seconds, burn, bulk=hasattr(module, "enqueue_many"))


async def _repeat(module: ModuleType, count: int, seconds: float, burn: int, *, bulk: bool) -> int:
    step = BULK if bulk else TOGETHER if has_loop(module) else 1
    deadline = time.perf_counter() + seconds
    stored = 0
    while stored < count and time.perf_counter() < deadline:
        jobs = [argument(stored + number, burn=burn) for number in range(min(step, count - stored))]
        if bulk:
            await call(module.enqueue_many, jobs)
        elif step == 1:
            module.enqueue(jobs[0])
        else:
            await asyncio.gather(*map(module.enqueue, jobs))
        stored += len(jobs)
    return stored


async def single(module: ModuleType, count: int, seconds: float) -> int:
    """Store jobs one after the other, each acknowledged before the next."""
    enqueue, deadline, stored = module.enqueue, time.perf_counter() + seconds, 0
    is_async = has_loop(module)
    for job in _arguments(count):
        if is_async:
            await enqueue(job)
        else:
            enqueue(job)
        stored += 1
        if time.perf_counter() > deadline:
            break
    return stored


async def bulk(module: ModuleType, count: int, seconds: float) -> int:
    """Store jobs 500 at a time."""
    return await _repeat(module, count, seconds, 0, bulk=True)


async def ping(module: ModuleType, count: int, gap: float) -> int:
    """Store jobs that say when they were sent, each when the one before has long been run."""
    for number in range(count):
        await pause(module, gap * (1 + number % 7 / 14))  # never in step with anybody's beat
        await call(module.enqueue, argument(number, sent=time.perf_counter_ns()))
    return count


async def load(module: ModuleType, per_second: float, seconds: float, burn: int) -> int:
    """Store jobs at a steady pace."""
    began, stored = time.perf_counter(), 0
    while (now := time.perf_counter() - began) < seconds:
        if now * per_second < stored:
            await pause(module, (stored / per_second) - now)
        await call(module.enqueue, argument(stored, burn=burn))
        stored += 1
    return stored


async def setup(module: ModuleType, count: int) -> int:
    """Store nothing: what the worker needs was made in prepare."""
    return 0


def _arguments(count: int) -> Iterator[dict[str, int]]:
    return (argument(number) for number in range(count))


WAYS = {"fill": fill, "single": single, "bulk": bulk, "ping": ping, "load": load, "setup": setup}


async def produce(module: ModuleType, way: str, *numbers: str) -> None:
    """Enqueue as told. The first job of each producer, for which some open a connection, is not measured."""
    given = [float(number) if "." in number else int(number) for number in numbers]
    if hasattr(module, "prepare"):
        await call(module.prepare, int(given[0]))
    first = way != "setup"
    if first:
        await call(module.enqueue, argument(0))
    began = time.perf_counter()
    jobs = await WAYS[way](module, *given)  # type: ignore[operator]
    print(json.dumps({"jobs": jobs, "seconds": time.perf_counter() - began, "stored": jobs + first}), flush=True)


def main(name: str, *words: str) -> None:
    """Import the contestant's module and enqueue."""
    module = import_module(name)
    (asyncio.run if has_loop(module) else plainly)(produce(module, *words))


if __name__ == "__main__":
    main(*sys.argv[1:])
