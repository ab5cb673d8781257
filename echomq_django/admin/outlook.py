"""What comes next for a job, and who has it now: the answers to "why does it not run?"."""

from __future__ import annotations

from django.utils.translation import gettext

from echomq_django import conf, jobs
from echomq_django.job import Job, Location

from .overview import served
from .showing import lasting, visible


def most(job: Job, using: str) -> int:
    """Give the most attempts that a job has."""
    return job.max_attempts or conf.alias(using).queue(job.queue).max_attempts


def outlook(job: Job, using: str) -> str:
    """Tell what comes next for a job; nothing of one that runs, that is done, or that waits in a lane."""
    if job.location is Location.DEAD:
        return gettext("nothing runs it until it is requeued")
    if job.location not in (Location.PENDING, Location.SCHEDULE) or job.group:
        return ""
    if jobs.counts(job.queue, using=using).paused:
        return gettext("nobody claims it while its queue is paused")
    if not any(worker.alive and served(worker, [job.queue]) for worker in jobs.workers(using=using)):
        return gettext("no living worker serves its queue")
    if job.location is Location.PENDING:
        return gettext("a worker claims it when it is its turn")
    return gettext("attempt %(number)s of %(most)s") % {"number": job.attempt + 1, "most": most(job, using)}


def told_worker(job: Job, using: str) -> str:
    """Name the worker of the latest claim; of a job that runs, tell too when its worker was heard."""
    name = job.worker
    if not name or job.location is not Location.ACTIVE:
        return visible(name)
    found = next((worker for worker in jobs.workers(using=using) if worker.id == name), None)
    if found is None:
        words = gettext("has not announced itself")
    else:
        words = gettext("heard %s ago") if found.alive else gettext("silent for %s: stale")
        words %= lasting(found.silent_ms / 1000)
    return f"{visible(name)} ({words})"
