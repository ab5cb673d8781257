"""Our own side: the handler and the tasks that are measured, and how each is enqueued."""

from typing import Any

from benchmarks import marks
from echomq_django.tasks import task


def noop(job: Any) -> None:
    """Be a raw handler."""
    marks.hit(job.data)


@task
def noop_task(argument: dict[str, int]) -> None:
    """Be a task whose result is kept."""
    marks.hit(argument)


@task
async def noop_coroutine(argument: dict[str, int]) -> None:
    """Be a task that is a coroutine."""
    marks.hit(argument)
