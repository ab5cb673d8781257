"""The demo's side of the queue: empty it, fill it, look at it. It uses nothing that an application could not."""

import time
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.core.management.base import CommandError

from echomq_django import envelope, jobs
from echomq_django.job import Job, Location
from echomq_django.looks import Counts
from shop.tasks import process_order

QUEUE = process_order.queue_name
NAME = process_order.module_path
PAGE = 50
# A lease that a killed run left behind runs out after one; after a restart of the server nothing is
# reaped for one more, so that workers which are alive can say so.
LEASES_TO_WAIT = 3


def server() -> str:
    """Say which server it is, without what its URL may give away."""
    embedded = settings.ECHOMQ["default"]["LOCATION"].startswith("embedded://")
    return "the example's own server" if embedded else "the server in ECHOMQ_URL"


def empty() -> None:
    """Remove every job of the last demo, wherever it is."""
    _leave_the_jobs_of_others_alone()
    jobs.pause(QUEUE)  # a worker that is there takes no new job, and ends those it has
    try:
        _wait_until_nothing_is_active()
        for place in (Location.PENDING, Location.SCHEDULE, Location.DEAD):
            jobs.remove_all(QUEUE, place)
    finally:
        jobs.resume(QUEUE)


def _leave_the_jobs_of_others_alone() -> None:
    for place in Location:
        for job in jobs.page(QUEUE, place, 0, PAGE):
            if job.name != NAME:
                raise CommandError(
                    f'Queue "{QUEUE}" holds job {job.id} in {place}, which no demo made, and the demo would delete it. '
                    "Nothing was changed. Point ECHOMQ_URL at another server, or leave it unset."
                )


def _wait_until_nothing_is_active() -> None:
    wait = LEASES_TO_WAIT * settings.ECHOMQ["default"]["QUEUES"][QUEUE]["LEASE"]
    deadline = time.monotonic() + wait
    while jobs.counts(QUEUE).active:
        if time.monotonic() > deadline:
            raise CommandError(f'Jobs of queue "{QUEUE}" are still active after {wait} s: stop their worker first.')
        time.sleep(0.1)
        jobs.reap(QUEUE)


def fill(orders: Iterable[dict[str, str]]) -> None:
    """Enqueue one job per order, 500 in a round trip."""
    # Django has no call for many tasks at once, process_order.enqueue(order) would be a round trip for each.
    payloads = [envelope.encode(NAME, [order], {}) for order in orders]
    jobs.enqueue_many(QUEUE, payloads, name=NAME, max_attempts=process_order.max_attempts)


def unsettled(counts: Counts) -> int:
    """Count the jobs to which something is still to happen."""
    return counts.pending + counts.active + counts.schedule


def dead() -> Iterator[Job]:
    """Read all dead jobs, page by page."""
    start = 0
    while page := jobs.page(QUEUE, Location.DEAD, start, PAGE):
        yield from page
        start += PAGE
