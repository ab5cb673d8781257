"""Our own side: the handler and the tasks that are measured, and how each is enqueued."""

import os
from typing import Any

from benchmarks import marks
from benchmarks.shelf.models import Item
from echomq_django.tasks import task

ITEMS = int(os.environ.get("BENCH_ITEMS", "0"))
"""How many rows the ORM's jobs share."""


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


def get_and_update(job: Any) -> None:
    """Be a raw handler that uses the ORM."""
    work_on_item(job.data)


def work_on_item(argument: dict[str, int]) -> None:
    """Get a row and update it."""
    item = Item.objects.get(pk=argument["order"] % ITEMS + 1)
    Item.objects.filter(pk=item.pk).update(count=item.count + 1)
    marks.hit(argument)
