"""The database connections of a thread that runs jobs: alive before a job, clean after it."""

import logging
import threading
import time
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from .held import HeldJob

logger = logging.getLogger("echomq_django.worker")

IDLE = 0.1
"""Seconds after which a thread asks its database connections whether they live; while it is busy that would cost
a query a job, and a job that meets a dead one is retried."""

_thread = threading.local()

_elsewhere = threading.Event()
"""Whether a connection was ever opened in a thread that does more than run jobs: coroutines share such a one."""


def own_thread() -> None:
    """Say that this thread runs jobs and nothing else: between two of them its connections stay as they are."""
    _thread.own = True


def are_elsewhere() -> bool:
    """Say whether there may be connections in threads that are not a job's own."""
    return _elsewhere.is_set()


def _opened(**_: Any) -> None:
    if not getattr(_thread, "own", False):
        _elsewhere.set()


connection_created.connect(_opened)


def are_clean() -> bool:
    """Say whether this thread's connections are as `after` left them moments ago."""
    return getattr(_thread, "own", False) and not _has_idled()


def _has_idled() -> bool:
    return time.monotonic() - getattr(_thread, "last_job", 0.0) > IDLE


def before() -> frozenset[str]:
    """Give up connections that died while idle; the aliases that are inside a transaction of somebody else's."""
    of_others = set()
    idle = _has_idled()
    # Django's all() costs more than anything else that is done for an empty job: it is asked once, here and in `after`.
    for each in connections.all(initialized_only=True):
        each.queries_log.clear()
        if each.in_atomic_block:
            of_others.add(each.alias)
            continue
        # Whether or not CONN_HEALTH_CHECKS is on.
        if idle and each.connection is not None and not each.is_usable():
            each.close()
        _close_stale(each)
    return frozenset(of_others)


def after(job: HeldJob, of_others: frozenset[str]) -> None:
    """Leave the next job of this thread clean connections. Never raises: the job has ended as it ended."""
    try:
        for each in connections.all(initialized_only=True):
            if each.in_atomic_block and each.alias not in of_others:
                logger.warning("a job left a transaction open on database %r: it is rolled back", each.alias)
                each.close()
                del connections[each.alias]
                continue
            _close_stale(each)
            each.queries_log.clear()
        _thread.last_job = time.monotonic()
    except Exception:
        # What is wrong with the connection, the next job is told.
        logger.exception("the database connections could not be cleaned after %r", job)


def _close_stale(each: BaseDatabaseWrapper) -> None:
    # Not close_old_connections(): inside a transaction SQLite has its autocommit off, which looks like a stale one.
    if not each.in_atomic_block:
        each.close_if_unusable_or_obsolete()
