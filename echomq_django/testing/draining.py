"""Work off a queue inside a test: a worker's way of running and settling, in the thread of the test."""

import time
from collections.abc import Coroutine
from typing import Any

from asgiref.sync import async_to_sync
from django.utils.asyncio import async_unsafe

from echomq_django import conf, connection, jobs
from echomq_django.job import Location
from echomq_django.transitions import MAX_BATCH
from echomq_django.worker.heartbeat import Heartbeat
from echomq_django.worker.held import HeldJob
from echomq_django.worker.outcome import Defer, Outcome, Release
from echomq_django.worker.plan import Plan
from echomq_django.worker.running import Running
from echomq_django.worker.settling import Settling


@async_unsafe("Call it as await sync_to_async(run_until_empty)().")
def run_until_empty(
    queue: str = "default", *, using: str = conf.DEFAULT_ALIAS, scheduled: bool = False, limit: int = 10_000
) -> int:
    """Run the jobs of a queue, those that they enqueue too, until none is pending; how many were run.

    A job is claimed, run and settled as a worker does it, but in this thread: it sees what an open transaction of the
    test has written. With `scheduled` the jobs whose time has not come are run as well, in the order of their times;
    retries are among them. Whatever a worker would let through, KeyboardInterrupt above all, is raised here, and the
    job is released. RuntimeError after `limit` jobs: a job that always enqueues another would never end.
    """
    drain = _Drain(queue, using)
    ran = taken = 0
    while job := drain.claim(scheduled):
        if taken == limit:
            drain.settle(job, Release())
            raise RuntimeError(
                f"queue {queue!r} has more jobs after {limit}: does one enqueue another, or itself, each time? "
                "Give run_until_empty() a higher limit if there really are so many."
            )
        taken += 1
        ran += drain.run(job)
    return ran


class _Drain:
    """Hold the parts of a worker that a test needs: no pool, no waiter, no beats."""

    def __init__(self, queue: str, using: str) -> None:
        config = conf.alias(using)
        self._queue, self._using = queue, using
        self._lease = config.queue(queue).lease
        self._running = Running(config)
        self._settling = Settling(config, Heartbeat(config, [queue]))
        self._deferred: set[str] = set()

    def claim(self, scheduled: bool) -> HeldJob | None:
        """Take the next job; None when there is none."""
        while True:
            sent = time.monotonic()
            for claim in jobs.claim(self._queue, using=self._using):
                return HeldJob(claim, sent + self._lease)
            if not (scheduled and self._advance()):
                return None

    def _advance(self) -> bool:
        """Line up the scheduled job that is due first. A job that was put off here would only be put off again."""
        due = jobs.page(self._queue, Location.SCHEDULE, size=MAX_BATCH, using=self._using)
        first = [job.id for job in due if job.id not in self._deferred][:1]
        return jobs.advance_many(self._queue, first, using=self._using) == ["ok"]

    def run(self, job: HeldJob) -> bool:
        """Run a job and settle it; whether it was run."""
        try:
            outcome = self._running.run_here(job)
            if isinstance(outcome, Coroutine):
                outcome = async_to_sync(_ended)(outcome)
        except BaseException:
            self.settle(job, Release())
            raise
        self.settle(job, outcome)
        if isinstance(outcome, Defer):
            self._deferred.add(job.id)
        return not isinstance(outcome, (Defer, Release))

    def settle(self, job: HeldJob, outcome: Outcome) -> None:
        """Send how a job ended. Unlike a worker, raise what the server has against it."""
        plan = Plan()
        self._settling.add(job, outcome)
        self._settling.plan(plan)
        for call, then in zip(plan.calls, plan.then, strict=True):
            then(connection.client(self._using).run(call))


async def _ended(outcome: Coroutine[Any, Any, Outcome]) -> Outcome:
    return await outcome
