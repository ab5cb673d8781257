"""The database connections of a thread that runs jobs: alive before a job, clean after it."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, reset_queries

from .held import HeldJob

logger = logging.getLogger("echomq_django.worker")

IDLE = 0.1
"""Seconds after which a thread asks its database connections whether they live; while it is busy that would cost
a query a job, and a job that meets a dead one is retried."""

_thread = threading.local()


@contextmanager
def clean(job: HeldJob) -> Iterator[None]:
    """Run a job of this thread between `before` and `after`."""
    of_caller = before()
    try:
        yield
    finally:
        after(job, of_caller)


def before() -> frozenset[str]:
    """Give up connections that died while idle; the aliases that are inside a transaction of the caller's."""
    reset_queries()
    idled = time.monotonic() - getattr(_thread, "last_job", 0.0)
    if idled > IDLE:
        _close_dead()
    _close_stale()
    return frozenset(each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block)


def after(job: HeldJob, of_caller: frozenset[str]) -> None:
    """Leave the next job of this thread clean connections. Never raises: the job has ended as it ended."""
    try:
        for each in connections.all(initialized_only=True):
            if each.in_atomic_block and each.alias not in of_caller:
                logger.warning("a job left a transaction open on database %r: it is rolled back", each.alias)
                each.close()
                del connections[each.alias]
        _close_stale()
        reset_queries()
        _thread.last_job = time.monotonic()
    except Exception:
        # What is wrong with the connection, the next job is told.
        logger.exception("the database connections could not be cleaned after %r", job)


def _close_dead() -> None:
    """Ask connections that may live on whether they still do, whether or not CONN_HEALTH_CHECKS is on."""
    for each in connections.all(initialized_only=True):
        if each.connection is not None and not each.in_atomic_block and not each.is_usable():
            each.close()


def _close_stale() -> None:
    # Not close_old_connections(): inside a transaction SQLite has its autocommit off, which looks like a stale one.
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()
