"""EchoMQBackend: Django's Tasks on this queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from . import conf, envelope, jobs, keys
from .exceptions import InvalidId, InvalidQueueName, JobGone, PayloadError
from .job import Job
from .tasks.api import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from .tasks.resolve import NotATask, resolve
from .tasks.results import check_name, of_job, parse_result_id, ready
from .tasks.task import EchoMQTask

OPTIONS = ("ALIAS",)


class EchoMQBackend(BaseTaskBackend):
    """Enqueue tasks and tell their results.

    `OPTIONS["ALIAS"]` names the server in the ECHOMQ setting. It is made when the first module with tasks is
    imported, once for each thread: it holds no connection and reads no other setting until it is used.
    """

    task_class = EchoMQTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.using: str = self.options.get("ALIAS", conf.DEFAULT_ALIAS)

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Refuse a task that could not be stored; InvalidTask says why."""
        super().validate_task(task)
        if "." in task.func.__qualname__:
            raise InvalidTask(
                f"{task.module_path} is not at the top of a module, where workers look: take it out of its class."
            )
        try:
            check_name(task.queue_name)
            keys.check_queue(task.queue_name)
        except InvalidQueueName as error:
            raise InvalidTask(str(error)) from None

    def enqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Store a task's job and give its result, READY.

        InvalidTask; PayloadError (a TypeError and a ValueError) when an argument would not come back as it is;
        QueueFull or ServerUnavailable when the server does not take it.
        """
        body, options = self.prepared(task, args, kwargs)
        done = jobs.enqueue(task.queue_name, body, **options)
        result = self.ready(task, done.id, args, kwargs)
        # Robust: the job is stored, whatever a receiver thinks of it.
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Store a task's job, from a coroutine. Raises as enqueue does."""
        body, options = self.prepared(task, args, kwargs)
        done = await jobs.aenqueue(task.queue_name, body, **options)
        result = self.ready(task, done.id, args, kwargs)
        await task_enqueued.asend_robust(type(self), task_result=result)
        return result

    def enqueue_on_commit(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, database: str | None = None
    ) -> TaskResult[Any]:
        """Store a task's job when the transaction of `database` commits; its result at once.

        What is wrong with the task or its arguments is raised here; what is wrong with the server, from the commit.
        """
        body, options = self.prepared(task, args, kwargs)
        job_id = jobs.enqueue_on_commit(task.queue_name, body, database=database, **options)
        result = self.ready(task, job_id, args, kwargs)
        transaction.on_commit(partial(task_enqueued.send_robust, type(self), task_result=result), using=database)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Tell how a task is; TaskResultDoesNotExist when the id is unknown, or its result is not kept any more."""
        queue, job_id = self._located(result_id)
        try:
            return self._told(result_id, jobs.get(queue, job_id, using=self.using))
        except JobGone as error:
            raise TaskResultDoesNotExist(f"{result_id!r}: {error}") from None

    async def aget_result(self, result_id: str) -> TaskResult[Any]:
        """Tell how a task is, from a coroutine."""
        queue, job_id = self._located(result_id)
        try:
            return self._told(result_id, await jobs.aget(queue, job_id, using=self.using))
        except JobGone as error:
            raise TaskResultDoesNotExist(f"{result_id!r}: {error}") from None

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Check TASKS against ECHOMQ; no server is asked."""
        return list(self._problems())

    def prepared(
        self, task: Task[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[bytes, dict[str, Any]]:
        """Check everything that can be checked here, and write the payload and the options of its job."""
        self.validate_task(task)
        config = conf.alias(self.using).queue(task.queue_name)
        if config.handler:
            raise InvalidTask(
                f"Queue '{task.queue_name}' has a HANDLER in ECHOMQ, which gets its jobs as they are: enqueue tasks to "
                "a queue without one."
            )
        # A plain Task may be sent here with using(backend=…), and has none of these.
        attempts, timeout = getattr(task, "max_attempts", None), getattr(task, "timeout", None)
        delay, own = getattr(task, "delay", None), _declared(task)
        if attempts is None and getattr(own, "max_attempts", None) is not None:
            attempts = config.max_attempts  # it was reset, and the worker would take that of the declaration
        # What the worker finds in the declaration is not said again.
        backend = None if own and own.backend == self.alias else self.alias
        timeout = None if getattr(own, "timeout", None) == timeout else timeout or 0
        return _encoded(task, args, kwargs, backend=backend, timeout=timeout), {
            "delay": delay,
            "at": None if delay is not None else task.run_after,
            "priority": int(task.priority),
            "name": task.module_path,
            "max_attempts": attempts,
            "using": self.using,
        }

    def ready(
        self, task: Task[Any, Any], job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[Any]:
        """Tell a task that was enqueued just now."""
        whole = int(task.priority)  # 5.0 is a whole number for Django, and comes back as 5
        if type(task.priority) is not int:
            task = replace(task, priority=whole)
        return ready(task, job_id, args, kwargs, self.alias)

    def _located(self, result_id: str) -> tuple[str, str]:
        try:
            queue, job_id = parse_result_id(result_id)
        except (InvalidId, InvalidQueueName):
            raise TaskResultDoesNotExist(f"{result_id!r} is not the id of a result") from None
        if self.queues and queue not in self.queues:
            raise TaskResultDoesNotExist(f"{result_id!r} is of a queue that backend {self.alias!r} does not have")
        return queue, job_id

    def _told(self, result_id: str, job: Job) -> TaskResult[Any]:
        try:
            return of_job(job, self.alias)
        except PayloadError as error:
            raise TaskResultDoesNotExist(f"{result_id!r} is not of a task: {error}") from None

    def _problems(self) -> Iterator[CheckMessage]:
        where = f"TASKS[{self.alias!r}]"
        for name in self.options:
            if name not in OPTIONS:
                yield Error(
                    f"{where}['OPTIONS'] has the unknown key {name!r}.",
                    hint=f"Known are {', '.join(OPTIONS)}; queues are set up in ECHOMQ.",
                    id="echomq.E012",
                )
        try:
            config = conf.alias(self.using)
        except ImproperlyConfigured as error:
            if self.using not in conf.aliases():
                yield Error(f"{where}: {error}", hint="Name a server of ECHOMQ in OPTIONS['ALIAS'].", id="echomq.E013")
            return
        for queue in sorted(self.queues):
            try:
                check_name(queue)
            except InvalidQueueName as error:
                yield Error(f"{where}: {error}", hint="Rename it.", id="echomq.E014")
            if config.queue(queue).handler:
                yield Error(
                    f"{where}: queue {queue!r} has a HANDLER in ECHOMQ[{self.using!r}].",
                    hint="Take the HANDLER away, or give the tasks a queue of their own.",
                    id="echomq.E015",
                )
            elif config.queue(queue).result_ttl_ms == 0:
                yield Warning(
                    f"{where}: queue {queue!r} keeps no results (RESULT_TTL is 0).",
                    hint="get_result() will not find tasks that succeeded; set RESULT_TTL in ECHOMQ.",
                    id="echomq.W011",
                )


def _declared(task: Task[Any, Any]) -> Task[Any, Any] | None:
    """Give a task as its module declares it, which is what a worker finds; None when it cannot be imported here."""
    try:
        return resolve(task.module_path)
    except NotATask as error:
        raise InvalidTask(f"a worker finds something else at the path of this task: {error}.") from None
    except Exception:
        return None


def _encoded(
    task: Task[Any, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backend: str | None,
    timeout: float | None,
) -> bytes:
    """Write the payload of a task's job; the error names the task and its queue."""
    try:
        return envelope.encode(
            task.module_path, args, kwargs, backend=backend, run_after=task.run_after, timeout=timeout
        )
    except PayloadError as error:
        # The first words are those of Django's own backends.
        raise PayloadError(
            f"Unsupported type or value: task {task.module_path} was not enqueued to queue {task.queue_name!r}: "
            f"{error}."
        ) from None
