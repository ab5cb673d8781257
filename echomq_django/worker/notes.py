"""What a task reads and writes of its own row while it runs, at the server."""

import logging
from dataclasses import replace

from asgiref.sync import sync_to_async

from echomq_django import connection, jobs, keys, transitions
from echomq_django.exceptions import ServerUnavailable
from echomq_django.job import Job

from .held import HeldJob

logger = logging.getLogger("echomq_django.worker")


class ServerNotes:
    """Read and annotate jobs of one server."""

    def __init__(self, using: str) -> None:
        self._using = using

    def read(self, job: HeldJob) -> Job:
        """Give the job with its error records, as this claim has it."""
        claim = job.claim
        row = jobs.get(claim.queue, claim.id, using=self._using)
        return replace(row, state="active", attempts=claim.token, spared=claim.spared, owner=claim.owner)

    def write(self, job: HeldJob, kind: str, value: str) -> None:
        """Annotate the job; LeaseLost, and the job is marked as lost, when its claim no longer holds.

        A progress or a log line that cannot be delivered fails no task; a checkpoint does.
        """
        call = transitions.annotate(keys.of(job.queue), job.claim, [(kind, value)])
        try:
            word = connection.client(self._using).run(call)
        except ServerUnavailable as error:
            if kind == "checkpoint":
                raise
            logger.info("%r: its %s is not kept: %s", job, kind, error)
            return
        if word == "lost":
            job.lost = True
            job.raise_if_lost()

    async def awrite(self, job: HeldJob, kind: str, value: str) -> None:
        """Annotate the job, from the loop."""
        await sync_to_async(self.write, thread_sensitive=False)(job, kind, value)
