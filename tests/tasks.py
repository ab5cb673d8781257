"""The tasks of the tests."""

import asyncio
import inspect
import threading
import time
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from echomq_django.exceptions import Discard, Retry
from echomq_django.tasks import EchoMQContext, task
from echomq_django.worker.held import HeldJob


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


script: list[Any] = []
"""What the scripted tasks do, one after the other."""

backoffs: list[Any] = []
asked: list[tuple[BaseException, dict[str, Any]]] = []


@task(takes_context=True)
def scripted(context: EchoMQContext) -> Any:
    return script.pop(0)(context)


@task(takes_context=True)
async def ascripted(context: EchoMQContext) -> Any:
    value = script.pop(0)(context)
    return await value if inspect.isawaitable(value) else value


@task(takes_context=True, timeout=0.05)
def brief(context: EchoMQContext) -> Any:
    return script.pop(0)(context)


@task
def scripted_to_fail() -> None:
    raise ValueError("no")


def ask(error: BaseException, result: Any) -> Any:
    classes = [each.exception_class_path for each in result.errors]
    asked.append((error, {"status": result.status, "attempts": result.attempts, "errors": classes}))
    [value] = backoffs
    if isinstance(value, Exception):
        raise value
    return value


@task(takes_context=True, backoff=ask)
def backing_off(context: EchoMQContext) -> Any:
    return script.pop(0)(context)


@task(max_attempts=3)
async def afail(text: str = "no") -> None:
    raise ValueError(text)


@task(takes_context=True)
async def aabout(context: EchoMQContext) -> Any:
    await context.aprogress(1, 2, "half")
    await context.alog("a line")
    await context.acheckpoint({"row": 7})
    return [context.attempt, context.token, context.lost, context.last_checkpoint]


async def on_mail(job: HeldJob) -> list[str]:
    await asyncio.sleep(0)
    return [job.data["to"], threading.current_thread().name]


@task
def query() -> int:
    return ask_database()


@task
async def aquery() -> int:
    return await sync_to_async(ask_database)()


def ask_database() -> int:
    with connections["work"].cursor() as cursor:
        cursor.execute("SELECT 1")
        return int(cursor.fetchone()[0])
