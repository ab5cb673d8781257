"""Promote and reap, again and again. Safe beside workers and other reapers: each move is one script."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import conf, jobs
from .exceptions import ServerUnavailable
from .jobs import Moved
from .transitions import Reaped

logger = logging.getLogger("echomq_django.reaper")

BATCH = 100
"""Jobs in one call: that many keep the server from others for about a millisecond."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Hold what a sweep of one queue moved. `waiting`: live workers were given time after an outage."""

    queue: str
    promoted: int
    pending: int
    schedule: int
    dead: int
    quarantined: int
    expired: int
    waiting: bool

    @property
    def reaped(self) -> int:
        """Give the number of jobs whose lease had run out."""
        return self.pending + self.schedule + self.dead


def sweep(queue: str, *, limit: int | None = None, reap: bool = True, using: str = conf.DEFAULT_ALIAS) -> Swept:
    """Promote what is due, take back what lapsed, forget the oldest dead; at most `limit` jobs of each."""
    most = limit if limit is not None else 2**63
    promotes: list[Moved] = []
    reaps: list[Reaped] = []

    def promote_some(size: int) -> int:
        promotes.append(jobs.promote(queue, size, using=using))
        return promotes[-1].done + promotes[-1].quarantined

    def reap_some(size: int) -> int:
        reaps.append(jobs.reap(queue, size, using=using))
        return reaps[-1].moved

    _until_done(promote_some, most)
    if reap:
        _until_done(reap_some, most)
    expired = _until_done(lambda size: jobs.expire(queue, size, using=using), most)
    return Swept(
        queue,
        promoted=sum(each.done for each in promotes),
        pending=sum(each.pending for each in reaps),
        schedule=sum(each.schedule for each in reaps),
        dead=sum(each.dead for each in reaps),
        quarantined=sum(each.quarantined for each in promotes) + sum(each.quarantined for each in reaps),
        expired=expired,
        waiting=any(each.waiting for each in reaps),
    )


def _until_done(move: Callable[[int], int], most: int) -> int:
    """Call a bounded move until it moves less than it could, or enough was moved."""
    moved = 0
    while moved < most:
        size = min(BATCH, most - moved)
        number = move(size)
        moved += number
        if number < size:
            break
    return moved


class Reaper:
    """Sweep some queues, `interval` seconds apart, until stopped; by default as often as their leases ask for."""

    def __init__(
        self,
        queues: Iterable[str],
        *,
        interval: float | None = None,
        limit: int | None = None,
        using: str = conf.DEFAULT_ALIAS,
    ) -> None:
        self._limit = limit
        self._queues = tuple(queues)
        self._using = using
        config = conf.alias(using)
        self._leases = {queue: config.queue(queue).lease for queue in self._queues}
        shortest = min(self._leases.values())
        self._interval = min(max(shortest / 6, 0.2), 5.0) if interval is None else interval
        self._reached = dict.fromkeys(self._queues, time.monotonic())
        self._reap_from = dict.fromkeys(self._queues, 0.0)
        self._silent = dict.fromkeys(self._queues, False)
        self._away = False

    def run(self, stopped: threading.Event, report: Callable[[list[Swept]], None] | None = None) -> None:
        """Sweep until `stopped` is set, and report each sweep."""
        # Not in step with other reapers that were started by the same deploy.
        while not stopped.wait(self._interval * random.uniform(0.8, 1.2)):
            swept = self.sweep_all()
            if report is not None:
                report(swept)

    def sweep_all(self) -> list[Swept]:
        """Sweep every queue once; what a server that is away keeps from it is left for the next time."""
        done = []
        for queue in self._queues:
            try:
                done.append(self._sweep(queue))
            except ServerUnavailable as error:
                if not self._away:
                    logger.warning("reaping of queue %r waits: %s", queue, error)
                self._away = True
            except Exception:
                # A reaper that ends is missed only when jobs are lost: it goes on, and says why.
                logger.exception("queue %r could not be swept", queue)
            else:
                self._away = False
        return done

    def _sweep(self, queue: str) -> Swept:
        """Sweep a queue; after a silence live workers, which were cut off too, get one lease to extend first."""
        lease = self._leases[queue]
        now = time.monotonic()
        if now - self._reached[queue] > self._interval * 1.2 + lease / 2:
            # This sweep may still be answered late; the lease begins when the server is seen to be back.
            self._silent[queue] = True
        swept = sweep(
            queue,
            limit=self._limit,
            reap=not self._silent[queue] and now >= self._reap_from[queue],
            using=self._using,
        )
        self._reached[queue] = time.monotonic()
        if self._silent[queue] or swept.waiting:
            self._reap_from[queue] = self._reached[queue] + lease
            self._silent[queue] = False
        if swept.reaped:
            logger.info("queue %r: %d jobs had lost their worker, %d of them are dead", queue, swept.reaped, swept.dead)
        return swept
