"""Run the jobs of one server's queues, each in the way of its queue: by its HANDLER, or as a task."""

from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from echomq_django.conf import AliasConfig

from . import runner
from .held import HeldJob
from .notes import ServerNotes
from .outcome import NotRun, Outcome
from .work import Work, prepare_handler


def has_tasks() -> bool:
    """Say whether there are Tasks here: Django 6.0's own, or the backport's."""
    return any(map(find_spec, ("django.tasks", "django_tasks")))


def served_queues(config: AliasConfig) -> list[str]:
    """List the queues of a server that the settings name: those of ECHOMQ, and those of the backends in TASKS."""
    of_tasks = [queue for backend in _backends(config) for queue in sorted(backend.queues)]
    return list(dict.fromkeys([*config.queues, *of_tasks]))


def can_run(config: AliasConfig, queue: str) -> bool:
    """Say whether the jobs of a queue can be run: it has a HANDLER, or a backend in TASKS takes it."""
    takes = any(queue in backend.queues or not backend.queues for backend in _backends(config))
    return takes or bool(config.queue(queue).handler)


def _backends(config: AliasConfig) -> list[Any]:
    if not has_tasks():
        return []
    ours = import_string("echomq_django.backend.EchoMQBackend")
    backends = import_string("echomq_django.tasks.api.task_backends").all()
    return [each for each in backends if isinstance(each, ours) and each.using == config.alias]


class Running:
    """Know how to run the jobs of each queue."""

    def __init__(self, config: AliasConfig) -> None:
        self._config = config
        self._notes = ServerNotes(config.alias)
        # By its path: on Django 5.2 without the backport there is nothing to import, and handlers work all the same.
        self._prepare_task = import_string("echomq_django.worker.tasking.prepare_task") if has_tasks() else None

    def run(self, job: HeldJob) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Run a job in this thread; see runner.run."""
        return runner.run(job, self._prepare, self._config.queue(job.queue).max_crashes)

    def run_here(self, job: HeldJob) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Run a job in a thread whose database connections are the caller's business, a test's for example."""
        work = runner.begin(job, self._prepare, self._config.queue(job.queue).max_crashes)
        return work if isinstance(work, NotRun) else runner.attempt(work)

    def _prepare(self, job: HeldJob) -> Work | NotRun:
        config = self._config.queue(job.queue)
        if config.handler:
            return prepare_handler(job, config)
        if self._prepare_task is None:
            raise ImproperlyConfigured(f"queue {job.queue!r} has no HANDLER, and there are no Tasks here")
        prepared: Work | NotRun = self._prepare_task(job, config, self._notes)
        return prepared
