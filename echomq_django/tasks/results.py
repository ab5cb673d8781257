"""A job as Django sees it: the TaskResult of a row, of a kept result, of a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

from django.conf import settings
from django.utils import timezone

from echomq_django import envelope, keys, payload
from echomq_django.envelope import Envelope
from echomq_django.exceptions import InvalidQueueName, WorkerLost
from echomq_django.ids import check_job
from echomq_django.job import CRASHED, Claim, ErrorRecord, Job, minted_ms

from .api import InvalidTask, Task, TaskError, TaskResult, TaskResultStatus
from .resolve import resolve
from .task import EchoMQTask

QUEUE_NAME_LIMIT = 48
"""Characters of a queue's name that fit into a result's id, which Django wants shorter than 64."""

LAST_MOMENT = 253_370_764_800_000
"""Unix ms, the year 9999; other programs write rows too."""

_STATUS = {
    "active": TaskResultStatus.RUNNING,
    "dead": TaskResultStatus.FAILED,
    "completed": TaskResultStatus.SUCCESSFUL,
}


def check_name(queue: str) -> None:
    """Refuse a queue whose name fits into no result's id; InvalidQueueName."""
    if len(queue) > QUEUE_NAME_LIMIT:
        raise InvalidQueueName(
            f"queue {queue!r} has a name of more than {QUEUE_NAME_LIMIT} characters: the id of a result carries it."
        )


def result_id(queue: str, job_id: str) -> str:
    """Name a result: it is found by its id alone, so the id carries the queue."""
    return f"{job_id}.{queue}"


def parse_result_id(text: str) -> tuple[str, str]:
    """Give the queue and the job of a result's id; InvalidId or InvalidQueueName when it is none."""
    job_id, _, queue = text.partition(".") if isinstance(text, str) else ("", "", "")
    return keys.check_queue(queue), check_job(job_id)


def moment(ms: int | None) -> datetime | None:
    """Give a time of the server, unix ms, as Django writes times: aware when USE_TZ is on. No calendar has some."""
    if ms is None or not 0 <= ms <= LAST_MOMENT:
        return None
    at = datetime.fromtimestamp(ms / 1000, tz=UTC)
    return at if settings.USE_TZ else timezone.make_naive(at)


def of_job(job: Job, backend: str) -> TaskResult[Any]:
    """Tell a job as a TaskResult; PayloadError when its payload is not that of a task."""
    told = envelope.decode(job.payload)
    return of_attempt(job, told, declared(job, told, backend), backend)


def of_attempt(job: Job, told: Envelope, task: Task[Any, Any], backend: str) -> TaskResult[Any]:
    """Tell a job whose task is known."""
    counted = [record for record in job.errors if record.error != CRASHED][-job.attempt :] if job.attempt else []
    worker_ids = [record.worker for record in counted]
    if job.state in ("active", "completed"):
        worker_ids.append(job.worker)
    # Only so many error records are kept, and other programs keep none.
    worker_ids = ["unknown"] * (job.attempt - len(worker_ids)) + worker_ids[-job.attempt :] if job.attempt else []
    # The records are by their workers' clocks, the row's own time is by the server's: let none run backwards.
    first_started = min((each.started_at for each in counted if each.started_at), default=job.started_at)
    if first_started is not None and job.started_at is not None:
        first_started = min(first_started, job.started_at)
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=result_id(job.queue, job.id),
        status=_STATUS.get(job.state, TaskResultStatus.READY),
        enqueued_at=moment(job.enqueued_at),
        started_at=moment(first_started),
        finished_at=moment(job.died_at if job.state == "dead" else job.finished_at),
        last_attempted_at=moment(job.started_at),
        args=told.args,
        kwargs=told.kwargs,
        backend=backend,
        errors=[_error(record) for record in job.errors],
        worker_ids=worker_ids,
    )
    if job.result is not None:
        change(result, _return_value=payload.decode(job.result))
    return result


def begun(claim: Claim, told: Envelope, task: Task[Any, Any], backend: str) -> TaskResult[Any]:
    """Tell a job whose first attempt begins now: its claim says all that there is to know."""
    now = timezone.now()
    return TaskResult(
        task=task,
        id=result_id(claim.queue, claim.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=moment(minted_ms(claim.id)),
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=told.args,
        kwargs=told.kwargs,
        backend=backend,
        errors=[],
        worker_ids=[claim.worker],
    )


def change(result: TaskResult[Any], **values: Any) -> None:
    """Bring a result up to date. It is frozen for its readers; Django's own backends write to it in this way."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def failed_with(result: TaskResult[Any], record: ErrorRecord) -> None:
    """Add a failed attempt to a result."""
    result.errors.append(_error(record))


def _error(record: ErrorRecord) -> TaskError:
    if record.error != CRASHED:
        return TaskError(exception_class_path=record.error, traceback=record.traceback or record.message)
    return TaskError(
        exception_class_path=f"{WorkerLost.__module__}.{WorkerLost.__qualname__}",
        traceback=f"The lease of worker {record.worker!r} ran out during attempt {record.attempt}: it died or hung.",
    )


def declared(job: Job, told: Envelope, backend: str) -> Task[Any, Any]:
    """Give the task as it was enqueued."""
    try:
        task = resolve(told.task)
    except Exception:
        # The result can be told all the same: its task equals no other, and calling it says why.
        task = EchoMQTask(func=missing, priority=0, backend=backend, queue_name=job.queue, run_after=None)
    try:
        return as_enqueued(task, job, told, backend)
    except InvalidTask:
        # What its row says fits no task here: other programs write rows too, and settings change.
        return task


def as_enqueued(task: Task[Any, Any], job: Job | Claim, told: Envelope, backend: str) -> Task[Any, Any]:
    """Give a task as its module declares it, with what `using` changed; InvalidTask when its backend takes it not."""
    wanted: dict[str, Any] = {
        "queue_name": job.queue, "priority": job.priority, "backend": backend, "run_after": _of_project(told.run_after),
    }  # fmt: skip
    if isinstance(task, EchoMQTask):
        wanted["max_attempts"] = job.max_attempts or task.max_attempts
        wanted["timeout"] = task.timeout if told.timeout is None else told.timeout or None
    changes = {name: value for name, value in wanted.items() if getattr(task, name) != value}
    return replace(task, **changes) if changes else task


def _of_project(at: datetime | None) -> datetime | None:
    """Make a time aware or naive, as USE_TZ has it: the producer may be another project."""
    if at is None or timezone.is_aware(at) == settings.USE_TZ:
        return at
    return timezone.make_aware(at) if settings.USE_TZ else timezone.make_naive(at)


def missing(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for the function of a task that cannot be imported here."""
    raise ImportError("the task of this result cannot be imported here")


def ready(
    task: Task[Any, Any], job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], backend: str
) -> TaskResult[Any]:
    """Tell a task that was enqueued just now. Arguments are copied: the caller may go on to change his own."""
    return TaskResult(
        task=task,
        id=result_id(task.queue_name, job_id),
        status=TaskResultStatus.READY,
        enqueued_at=moment(minted_ms(job_id)),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=backend,
        errors=[],
        worker_ids=[],
    )
