"""How our own jobs are enqueued: BENCH_KIND names what runs them."""

import os
from collections.abc import Sequence

import django

django.setup()

from django.db import connection  # noqa: E402

from benchmarks import handlers  # noqa: E402
from benchmarks.shelf.models import Item  # noqa: E402
from echomq_django import jobs  # noqa: E402

TASKS = {"task": handlers.noop_task, "coroutine": handlers.noop_coroutine}
KIND = os.environ.get("BENCH_KIND", "handler")


def prepare(count: int) -> None:
    """Open the connection: the clock starts afterwards. Make the ORM's table, where it is measured."""
    if handlers.ITEMS and Item._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Item)
        Item.objects.bulk_create(Item() for _ in range(handlers.ITEMS))
    jobs.counts("raw")


def enqueue(argument: dict[str, int]) -> None:
    """Store one job as an application does."""
    if KIND == "handler":
        jobs.enqueue("raw", argument)
    else:
        TASKS[KIND].enqueue(argument)


def enqueue_many(arguments: Sequence[dict[str, int]]) -> None:
    """Store jobs, 500 in a round trip; the tasks' own are written one by one, as there is no bulk enqueue of tasks."""
    if KIND == "handler":
        jobs.enqueue_many("raw", arguments)
        return
    task = TASKS[KIND]
    prepared = [task.get_backend().prepared(task, (each,), {}) for each in arguments]
    jobs.enqueue_many(task.queue_name, [body for body, _ in prepared], **prepared[0][1])
