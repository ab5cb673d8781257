"""Backends for TASKS in the settings of tests: no server is asked, and what EchoMQBackend refuses is refused too."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from asgiref.sync import async_to_sync
from django.core.checks import CheckMessage
from django.db import transaction
from django.utils import timezone

from echomq_django import ids
from echomq_django.backend import EchoMQBackend
from echomq_django.conf import QueueConfig
from echomq_django.job import Claim, Job
from echomq_django.tasks import api
from echomq_django.tasks.api import InvalidTask, Task, TaskResult, TaskResultStatus, task_enqueued
from echomq_django.tasks.results import change, failed_with, result_id
from echomq_django.tasks.task import EchoMQTask
from echomq_django.worker import runner
from echomq_django.worker.held import HeldJob
from echomq_django.worker.outcome import Fail, Outcome
from echomq_django.worker.tasking import TaskWork, prepare_task


class Note(NamedTuple):
    """Hold what a task wrote through its context: a "progress", a "log" line or a "checkpoint"."""

    result_id: str
    kind: str
    value: Any


class DummyBackend(api.DummyBackend):
    """Run nothing, and keep in `results` what was enqueued."""

    task_class = EchoMQTask

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._real = EchoMQBackend(alias, params)

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Refuse what EchoMQBackend refuses."""
        super().validate_task(task)
        self._real.validate_task(task)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check what EchoMQBackend checks."""
        return self._real.check(**kwargs)

    def enqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Keep the result, READY. Raises as EchoMQBackend does, but for what only a server could say."""
        result = self._promised(task, args, kwargs)
        self._keep(result)
        # Whoever changes his own does not change what is kept.
        return deepcopy(result)

    def enqueue_on_commit(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, database: str | None = None
    ) -> TaskResult[Any]:
        """Keep the result when the transaction of `database` commits, and give it at once."""
        result = self._promised(task, args, kwargs)
        transaction.on_commit(partial(self._keep, result), using=database)
        return deepcopy(result)

    def _promised(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        self.validate_task(task)
        self._real.prepared(task, args, kwargs)
        return self._real.ready(task, ids.mint(), args, kwargs)

    def _keep(self, result: TaskResult[Any]) -> None:
        self.results.append(result)
        task_enqueued.send_robust(type(self), task_result=result)


class ImmediateBackend(api.ImmediateBackend):
    """Run a task at once, in the thread that enqueues it, as a worker runs it; but only once, whatever it raises.

    A `run_after` is accepted and nobody waits for it. `notes` has the last 1,000 of what tasks wrote through their
    contexts.
    """

    task_class = EchoMQTask
    supports_defer = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._real = EchoMQBackend(alias, params)
        self.notes: deque[Note] = deque(maxlen=1000)

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Refuse what EchoMQBackend refuses."""
        super().validate_task(task)
        self._real.validate_task(task)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check what EchoMQBackend checks."""
        return self._real.check(**kwargs)

    def enqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Run a task and give its result. Raises as EchoMQBackend does, but for what only a server could say.

        InvalidTask, too, when the task cannot be imported from where it says it is: a worker could not run it.
        """
        result, job = self._promised(task, args, kwargs)
        self._run(result, job)
        return result

    def enqueue_on_commit(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, database: str | None = None
    ) -> TaskResult[Any]:
        """Run a task when the transaction of `database` commits; its result, given at once, is brought up to date."""
        result, job = self._promised(task, args, kwargs)
        transaction.on_commit(partial(self._run, result, job), using=database)
        return result

    def _promised(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[TaskResult[Any], HeldJob]:
        self.validate_task(task)
        body, options = self._real.prepared(task, args, kwargs)
        claim = Claim(
            queue=task.queue_name, id=ids.mint(), token=1, owner=f"{ids.worker_name()}:1", payload=body,
            priority=options["priority"], max_attempts=options["max_attempts"], name=options["name"],
        )  # fmt: skip
        return self._real.ready(task, claim.id, args, kwargs), HeldJob(claim, valid_until=math.inf)

    def _run(self, result: TaskResult[Any], job: HeldJob) -> None:
        task_enqueued.send_robust(type(self), task_result=result)
        work = prepare_task(job, QueueConfig(), _Memory(self.notes))
        if isinstance(work, TaskWork):
            work.maximum = 1
            _ended(work)
            told = ("status", "started_at", "finished_at", "last_attempted_at", "errors", "worker_ids", "_return_value")
            change(result, **{name: getattr(work.result, name) for name in told})
        elif isinstance(work, Fail):
            failed_with(result, work.error)
            change(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
        else:
            raise InvalidTask(f"no worker could run it, here and now: {work}")


def _ended(work: TaskWork) -> None:
    outcome = runner.attempt(work)
    if isinstance(outcome, Coroutine):
        async_to_sync(_awaited)(outcome)


async def _awaited(outcome: Coroutine[Any, Any, Outcome]) -> Outcome:
    return await outcome


class _Memory:
    """Keep what a task writes to its job. The last checkpoint its context knows by itself."""

    def __init__(self, notes: deque[Note]) -> None:
        self._notes = notes

    def read(self, job: HeldJob) -> Job:
        raise NotImplementedError("only a later attempt reads its job")

    def write(self, job: HeldJob, kind: str, value: str) -> None:
        told = value if kind == "log" else json.loads(value)
        self._notes.append(Note(result_id(job.queue, job.id), kind, told))

    async def awrite(self, job: HeldJob, kind: str, value: str) -> None:
        self.write(job, kind, value)
