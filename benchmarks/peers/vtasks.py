"""django-vtasks: lists, a client in Rust."""

import django

django.setup()

from django.tasks import default_task_backend  # noqa: E402
from django_vtasks import task  # noqa: E402

from benchmarks import marks  # noqa: E402


@task
async def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def enqueue(argument: dict[str, int]) -> None:
    run.enqueue(argument)


def enqueue_many(arguments: list[dict[str, int]]) -> None:
    default_task_backend.enqueue_many([(run, (each,), {}) for each in arguments])
