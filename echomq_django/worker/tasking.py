"""A job of a queue without a HANDLER: a task of Django's, from its payload to how it ended. Knows no server."""

from __future__ import annotations

import logging
import math
import time
from datetime import timedelta
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.dispatch import Signal
from django.utils import timezone
from django.utils.module_loading import import_string

from echomq_django import envelope, payload
from echomq_django.conf import QueueConfig
from echomq_django.exceptions import Discard, EchoMQError, PayloadError, Retry
from echomq_django.job import Job
from echomq_django.tasks.api import (
    InvalidTask,
    Task,
    TaskResult,
    TaskResultStatus,
    only_logs,
    task_backends,
    task_finished,
    task_started,
)
from echomq_django.tasks.context import EchoMQContext
from echomq_django.tasks.resolve import NotATask, resolve
from echomq_django.tasks.results import as_enqueued, begun, change, failed_with, of_attempt

from .held import HeldJob
from .outcome import Complete, Fail, NotRun, Release
from .work import Work, record, unknown

logger = logging.getLogger("echomq_django.worker")

_is_coroutine = cache(iscoroutinefunction)


class Notes(Protocol):
    """Be the way to a job's row, for what a task reads and writes while it runs."""

    def read(self, job: HeldJob) -> Job:
        """Give the job with its error records."""

    def write(self, job: HeldJob, kind: str, value: str) -> None:
        """Annotate the job; LeaseLost when its claim no longer holds."""

    async def awrite(self, job: HeldJob, kind: str, value: str) -> None:
        """Annotate the job, from the loop."""


class HeldLease:
    """Be what a task's context knows of its claim."""

    def __init__(self, job: HeldJob, checkpoint: bytes | None, notes: Notes) -> None:
        self._job, self._notes = job, notes
        self.checkpoint = checkpoint

    @property
    def token(self) -> int:
        """Give the fencing token."""
        return self._job.token

    @property
    def lost(self) -> bool:
        """Say whether another claim may hold the job."""
        return self._job.lost

    def raise_if_lost(self) -> None:
        """Raise LeaseLost when it is lost."""
        self._job.raise_if_lost()

    def annotate(self, kind: str, value: str) -> None:
        """Write to the job."""
        self._notes.write(self._job, kind, value)
        self._wrote(kind, value)

    async def aannotate(self, kind: str, value: str) -> None:
        """Write to the job, from the loop."""
        await self._notes.awrite(self._job, kind, value)
        self._wrote(kind, value)

    def _wrote(self, kind: str, value: str) -> None:
        if kind == "checkpoint":
            self.checkpoint = value.encode()


class TaskWork:
    """Be an attempt of a task."""

    def __init__(
        self, job: HeldJob, task: Task[Any, Any], result: TaskResult[Any], lease: HeldLease, config: QueueConfig
    ) -> None:
        self.job, self._task, self.result, self._lease = job, task, result, lease
        own_maximum = getattr(task, "max_attempts", None)
        self.maximum: int = job.claim.max_attempts or own_maximum or config.max_attempts
        self.timeout: float | None = getattr(result.task, "timeout", None)
        self._keeps_results = config.result_ttl_ms > 0
        self._started = time.time()
        self._is_done = False
        # Not task_backends[…]: each job has a context of its own, and Django makes its backends anew in each.
        self._sender: type = import_string(task_backends.settings[result.backend]["BACKEND"])

    def start(self) -> Any:
        """Call the task's function."""
        if _is_coroutine(self._task.func):
            return self._start()
        self._begun()
        return self._task.func(*self._arguments, **self.result.kwargs)

    def _begun(self) -> None:
        # Robust, here and below: what a receiver raises is logged, and changes nothing for the job.
        self._send(task_started)

    async def _start(self) -> Any:
        if only_logs(task_started):
            self._begun()
        else:
            await sync_to_async(self._begun)()
        return await self._task.func(*self._arguments, **self.result.kwargs)

    @property
    def _arguments(self) -> list[Any]:
        context = [EchoMQContext(task_result=self.result, lease=self._lease)] if self._task.takes_context else []
        return [*context, *self.result.args]

    def done(self, value: Any) -> Complete:
        """Keep the value; a TypeError when it cannot be kept. Either way the work is done, and is not done again."""
        self._is_done = True
        try:
            text = payload.to_keep(value)
        except PayloadError as error:
            # The class and the first words are those of Django's own backends.
            raise TypeError(f"Unsupported type or value: the return value cannot be kept: {error}") from None
        change(self.result, _return_value=value, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
        return Complete(text if self._keeps_results else "")

    def failed(self, error: BaseException) -> Fail:
        """Say when the task is tried again, by its own backoff or the queue's."""
        entry = record(self.job, self._started, error)
        failed_with(self.result, entry)
        change(self.result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
        bury = self._is_done or isinstance(error, Discard) or self.job.attempt >= self.maximum
        delay = None
        if not bury:
            delay = error.delay if isinstance(error, Retry) else None
            if delay is None:
                bury, delay = self._backoff(error)
        if not bury:
            change(self.result, status=TaskResultStatus.READY, finished_at=None)
        return Fail(entry, bury=bury, delay=delay, maximum=self.maximum)

    def _backoff(self, error: BaseException) -> tuple[bool, float | None]:
        """Ask the task's own backoff: whether this was the last attempt, and the delay; None for the queue's."""
        backoff = getattr(self._task, "backoff", None)
        if backoff is None:
            return False, None
        try:
            asked = backoff(error, self.result)
            if asked is None:
                return True, None
            seconds = asked.total_seconds() if isinstance(asked, timedelta) else float(asked)
            if not (0 <= seconds < math.inf):
                raise ValueError(f"it gave {asked!r}, which is no delay")
        except Exception:
            logger.exception("the backoff of task %s failed; the queue's is used", self._task.module_path)
            return False, None
        return False, min(seconds, 10 * 365 * 86_400.0)

    def tell(self) -> None:
        """Send task_finished, when no further attempt follows and this one still counts."""
        if self._is_over:
            self._send(task_finished)

    def _send(self, signal: Signal) -> None:
        try:
            signal.send_robust(self._sender, task_result=self.result)
        except KeyboardInterrupt:
            raise
        except BaseException:
            # send_robust lets through what is no Exception: SystemExit, for one.
            logger.exception("a receiver of a signal of %r failed", self.job)

    async def atell(self) -> None:
        """Send task_finished, from the loop: not with asend, in whose receivers sys.exc_info() is empty."""
        if self.result.status == TaskResultStatus.SUCCESSFUL and only_logs(task_finished):
            self.tell()
        elif self._is_over:
            # A failure is logged as an error, which may mean an e-mail.
            await sync_to_async(self.tell)()

    @property
    def _is_over(self) -> bool:
        return self.result.is_finished and not self.job.lost


def prepare_task(job: HeldJob, config: QueueConfig, notes: Notes) -> Work | NotRun:
    """Find the task of a payload. What cannot be read, or is no task, is dead at once, with its payload kept."""
    try:
        told = envelope.decode(job.payload)
    except PayloadError as error:
        return Fail(record(job, time.time(), error), bury=True)
    try:
        task = resolve(told.task)
    except NotATask as error:
        return Fail(record(job, time.time(), error), bury=True)
    except Exception as error:
        return unknown(job, f"task {told.task!r} cannot be imported", error)
    # An alias of the producer's that this project does not have says nothing here.
    backend = told.backend if told.backend and told.backend in task_backends.settings else task.backend
    checkpoint = None
    try:
        if job.token == 1:
            result = begun(job.claim, told, as_enqueued(task, job.claim, told, backend), backend)
        else:
            row = notes.read(job)
            checkpoint = row.checkpoint
            result = of_attempt(row, told, as_enqueued(task, row, told, backend), backend)
    except InvalidTask as error:
        return unknown(job, f"task {told.task!r} is not for this worker", error)
    except EchoMQError as error:
        logger.info("%r is given back unrun: %s", job, error)
        return Release()
    return TaskWork(job, task, result, HeldLease(job, checkpoint, notes), config)
