"""django-tasks-redis and django-tasks-db: Django's own decorator, on either backend."""

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.tasks import task  # noqa: E402

from benchmarks import marks  # noqa: E402


@task
def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def prepare(count: int) -> None:
    call_command("migrate", verbosity=0)


def enqueue(argument: dict[str, int]) -> None:
    run.enqueue(argument)
