"""What the workers call: settings.ECHOMQ names on_order as the handler of the queue "orders"."""

import os
from typing import Any, Protocol

from shop import receipts, troubles
from shop.models import Run
from shop.orders import validate


class Job(Protocol):
    """The part of a worker's job that the handler reads."""

    @property
    def id(self) -> str: ...
    @property
    def data(self) -> Any: ...
    @property
    def attempt(self) -> int: ...


def on_order(job: Job) -> None:
    """Check one order and write its receipt. May run twice for one job, and must then do nothing new."""
    run = Run.objects.create(
        number=job.data.get("number", "")[:20],
        job_id=job.id,
        attempt=job.attempt,
        worker_pid=os.getpid(),
    )
    try:
        order = validate(job.data)
        troubles.before_the_receipt(order.note, job.attempt)
        receipts.write(order, job.id)
        first_run = not Run.objects.filter(job_id=job.id, pk__lt=run.pk).exists()
        troubles.after_the_receipt(order.note, first_run=first_run)
    except Exception:
        _end(run, Run.Outcome.FAILED)
        raise  # the worker writes the error down and decides: retry with backoff, or dead
    _end(run, Run.Outcome.DONE)


def _end(run: Run, outcome: Run.Outcome) -> None:
    Run.objects.filter(pk=run.pk).update(outcome=outcome)
