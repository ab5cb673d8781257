"""The tasks of the tests."""

import asyncio
import time
from datetime import timedelta
from typing import Any

from echomq_django.exceptions import Discard, Retry
from echomq_django.tasks import EchoMQContext, task


@task
def add(left: Any, right: Any) -> Any:
    return left + right


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return {"args": list(args), "kwargs": kwargs}


@task
async def aadd(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


@task(max_attempts=3)
def fail(text: str = "no") -> None:
    raise ValueError(text)


@task(max_attempts=2, backoff=lambda error, result: 0)
def flaky() -> None:
    raise ValueError("flaky")


@task(timeout=0.05, max_attempts=1)
def slow() -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pass


@task(timeout=0.05, max_attempts=1)
async def aslow() -> None:
    await asyncio.sleep(20)


@task
def again(delay: float | None = None) -> None:
    raise Retry("later", delay=timedelta(seconds=delay) if delay is not None else None)


@task
def discard() -> None:
    raise Discard("no use")


@task(takes_context=True)
def about(context: EchoMQContext) -> Any:
    context.progress(1, 2, "half")
    context.log("a line")
    context.checkpoint({"row": 7})
    return [context.attempt, context.token, context.lost, context.last_checkpoint]


not_a_task = print
