"""Collect what happened, from the database, the receipts folder and the queue."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from echomq_django import envelope, jobs
from echomq_django.job import Job
from shop.demo import queue
from shop.models import Receipt, Run

MANY = 12


@dataclass(frozen=True, order=True)
class DeadJob:
    number: str
    reason: str


@dataclass(frozen=True)
class Results:
    receipts: frozenset[str]  # order numbers, as everywhere here: these have a row and a file
    half_receipts: frozenset[str]  # only one of the two
    dead: tuple[DeadJob, ...]
    retried: frozenset[str]  # done after a run that failed
    recovered: frozenset[str]  # done after a run that went down with its worker
    unsettled: int
    worker_exit: int | None  # None: it had to be stopped


def collect(worker_exit: int | None) -> Results:
    """Take stock when the worker has ended."""
    rows = set(Receipt.objects.values_list("number", flat=True))
    files = {path.stem for path in Path(settings.RECEIPTS_DIR).glob("*.html")}
    retried, recovered = _ran_again()
    return Results(
        receipts=frozenset(rows & files),
        half_receipts=frozenset(rows ^ files),
        dead=tuple(sorted(DeadJob(_number(job), job.last_error) for job in queue.dead())),
        retried=retried,
        recovered=recovered,
        unsettled=queue.unsettled(jobs.counts(queue.QUEUE)),
        worker_exit=worker_exit,
    )


def listed(numbers: Iterable[str]) -> str:
    """Name orders, but not hundreds of them."""
    in_order = sorted(numbers)
    more = len(in_order) - MANY
    return ", ".join(in_order[:MANY]) + (f" and {more} more" if more > 0 else "")


def _number(job: Job) -> str:
    [row] = envelope.decode(job.payload).args
    return str(row["number"])


def _ran_again() -> tuple[frozenset[str], frozenset[str]]:
    """Return the orders retried, and those recovered."""
    runs = defaultdict(list)
    for run in Run.objects.order_by("pk"):
        runs[run.result_id].append(run)
    done = [of_job for of_job in runs.values() if of_job[-1].outcome == Run.Outcome.DONE]
    return (
        frozenset(of_job[0].number for of_job in done if any(run.outcome == Run.Outcome.FAILED for run in of_job)),
        # A failed run costs an attempt, a lost one does not: the next run has the same number.
        frozenset(of_job[0].number for of_job in done if len({run.attempt for run in of_job}) < len(of_job)),
    )
