"""Ids that lie in a place and have no row any more: another program deleted it, or the server evicted it."""

from __future__ import annotations

from dataclasses import replace

from echomq_django import jobs
from echomq_django.exceptions import JobGone
from echomq_django.job import Job


def is_hollow(job: Job) -> bool:
    """Say whether of a job nothing is left but its id in a place, and what its errors were."""
    return replace(job, errors=()) == Job.load(
        job.queue, job.id, {}, job.location, None if job.time is None else float(job.time)
    )


def read(queue: str, job_id: str, using: str) -> Job | None:
    """Read a job, also one whose row is missing; None when the id is nowhere."""
    try:
        return jobs.get(queue, job_id, using=using)
    except JobGone:
        return jobs.stray(queue, job_id, using=using)
