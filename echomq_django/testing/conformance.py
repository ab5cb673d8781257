"""Our backend in the place of Django's own, so that Django's tests of Tasks can be run against it.

`tests/django_suite` does so for each Django that has Tasks. Both talk to a real server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async

from echomq_django import jobs
from echomq_django.backend import EchoMQBackend
from echomq_django.exceptions import JobGone
from echomq_django.tasks.api import Task, TaskResult
from echomq_django.tasks.results import parse_result_id

from .draining import run_until_empty


class Drained(EchoMQBackend):
    """Stand in for ImmediateBackend: what is enqueued is claimed, run and settled before the result is given."""

    def enqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Enqueue a task, work until its queue is empty, and give the result as the server then tells it."""
        return self._drained(super().enqueue(task, args, kwargs))

    async def aenqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Do as enqueue does, by way of the backend's own aenqueue."""
        return await sync_to_async(self._drained)(await super().aenqueue(task, args, kwargs))

    def _drained(self, result: TaskResult[Any]) -> TaskResult[Any]:
        run_until_empty(result.task.queue_name, using=self.using)
        return self.get_result(result.id)


class Stored(EchoMQBackend):
    """Stand in for DummyBackend: nothing is run, and what was enqueued can be looked at."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._ids: list[str] = []

    @property
    def results(self) -> list[TaskResult[Any]]:
        """Read the results of what was enqueued, in order, from the server."""
        return [self.get_result(each) for each in self._ids]

    def clear(self) -> None:
        """Delete what was enqueued."""
        for each in self._ids:
            queue, job_id = parse_result_id(each)
            with suppress(JobGone):
                jobs.remove(queue, job_id, using=self.using)
        self._ids.clear()

    def enqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Enqueue a task, and remember its result's id."""
        result = super().enqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    async def aenqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Do as enqueue does, from a coroutine."""
        result = await super().aenqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result
