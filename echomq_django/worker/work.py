"""What a claimed job turns out to be: something to start, and what its end means."""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from django.utils.module_loading import import_string

from echomq_django import failure, payload, retries
from echomq_django.conf import QueueConfig
from echomq_django.exceptions import Discard, PayloadError, Retry
from echomq_django.job import ErrorRecord

from .held import HeldJob
from .outcome import Complete, Defer, Fail, NotRun

logger = logging.getLogger("echomq_django.worker")


class Work(Protocol):
    """Be a job that can be run: once, by one thread or on the loop."""

    job: HeldJob
    maximum: int
    """How many attempts it has."""
    timeout: float | None
    """Seconds that one attempt may take."""

    def start(self) -> Any:
        """Call the user's code; its value, or an awaitable that gives it."""

    def done(self, value: Any) -> Complete:
        """Say what a value means; what it raises is a failed attempt."""

    def failed(self, error: BaseException) -> Fail:
        """Say what an exception means."""

    def tell(self) -> None:
        """Tell the project how it ended; inside the `except` block when it failed."""

    async def atell(self) -> None:
        """Tell the project how it ended, on the loop."""


Prepare = Callable[[HeldJob], Work | NotRun]
"""Find the code of a job; or say at once what becomes of a job that is not run."""


class HandlerWork:
    """Be a job of a queue that has a HANDLER."""

    timeout: float | None = None

    def __init__(self, job: HeldJob, handler: Callable[[HeldJob], Any], config: QueueConfig) -> None:
        self.job, self._handler = job, handler
        self.maximum = job.claim.max_attempts or config.max_attempts
        self._keeps_results = config.result_ttl_ms > 0
        self._started = time.time()

    def start(self) -> Any:
        """Call the handler."""
        return self._handler(self.job)

    def done(self, value: Any) -> Complete:
        """Keep the value where the queue keeps results and it can be written; the work is done either way."""
        if not self._keeps_results:
            return Complete()
        try:
            return Complete(payload.to_keep(value))
        except PayloadError as error:
            logger.warning("the result of %r is not kept: %s", self.job, error)
            return Complete()

    def failed(self, error: BaseException) -> Fail:
        """Describe the failed attempt. An undecodable payload will be no better the next time."""
        undecodable = isinstance(error, PayloadError) and _is_undecodable(self.job)
        delay = error.delay if isinstance(error, Retry) else None
        return Fail(record(self.job, self._started, error), bury=undecodable or isinstance(error, Discard), delay=delay)

    def tell(self) -> None:
        """Have nobody to tell."""

    async def atell(self) -> None:
        """Have nobody to tell."""


def prepare_handler(job: HeldJob, config: QueueConfig) -> Work | NotRun:
    """Find the handler of a job's queue."""
    try:
        handler = import_string(config.handler)
    except Exception as error:
        return unknown(job, f"handler {config.handler!r} cannot be imported", error)
    return HandlerWork(job, handler, config)


def unknown(job: HeldJob, what: str, error: Exception) -> Defer | Fail:
    """Put off a job whose code is not here: during a deploy old workers meet new jobs."""
    age = (job.claim.deferred_ms or 0) / 1000
    reason = f"{what}: {failure.message(error)}"
    if age >= retries.DEFER_LIMIT:
        return Fail(entry(job, time.time(), "unknown", reason, failure.trace(error)), bury=True)
    return Defer(reason, retries.deferral(age))


def record(job: HeldJob, started: float, error: BaseException) -> ErrorRecord:
    """Write down what an exception was, and when (`started` is unix seconds)."""
    return entry(job, started, failure.kind(error), failure.message(error), failure.trace(error))


def entry(job: HeldJob, started: float, kind: str, message: str, trace: str) -> ErrorRecord:
    """Write down how an attempt failed."""
    return ErrorRecord(
        error=kind,
        message=message,
        traceback=trace,
        attempt=job.attempt,
        worker=job.claim.worker,
        started_at=int(started * 1000),
        finished_at=int(time.time() * 1000),
    )


def _is_undecodable(job: HeldJob) -> bool:
    # The handler may have raised a PayloadError of another job that it tried to enqueue.
    try:
        payload.decode(job.payload)
    except PayloadError:
        return True
    return False
