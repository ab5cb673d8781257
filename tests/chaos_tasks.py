"""The task of the chaos tests. It keeps no ledger of its own: what it did is in its result."""

import asyncio
import os
import signal
import time
from pathlib import Path

from echomq_django.tasks import EchoMQContext, task


@task(takes_context=True)
def crawl(context: EchoMQContext, pages: int, kill_at: int, folder: str) -> list[int]:
    """Note each page in a file, and kill this process at one, the first time it comes there."""
    done = context.last_checkpoint or 0
    for page in range(done, pages):
        if page == kill_at and context.token == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(Path(folder) / "pages", "a", encoding="ascii") as pages_file:
            pages_file.write(f"{page} {context.token}\n")
        context.progress(page + 1, pages)
        context.checkpoint(page + 1)
    return [context.attempt, context.token, done]


@task
def wait(folder: str) -> str:
    """Wait for a file, for ever; in C as far as Python's other threads let it."""
    while not (Path(folder) / "gate").exists():
        time.sleep(0.02)
    return "late"


@task
async def wait_in_a_thread(folder: str) -> None:
    """Sit in a thread of the loop's own, which no cancellation reaches."""
    (Path(folder) / "begun").touch()
    await asyncio.to_thread(time.sleep, 60)
