"""Promote and reap, again and again. Safe beside workers and other reapers: each move is one script."""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import conf, jobs
from .exceptions import ServerUnavailable
from .jobs import Moved
from .transitions import Reaped

logger = logging.getLogger("echomq_django.reaper")

BATCH = 100
"""Jobs in one call: that many keep the server from others for about a millisecond."""


TURN = 5_000
"""Jobs of one queue in one turn, so that a great backlog does not keep a reaper from the other queues."""


EXPIRE_EVERY = 60.0
"""Seconds after which a reaper asks again for dead jobs that are to be forgotten, when there were none."""


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


def sweep(
    queue: str,
    *,
    limit: int | None = None,
    reap: bool = True,
    expire: bool = True,
    using: str = conf.DEFAULT_ALIAS,
) -> Swept:
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
    expired = _until_done(lambda size: jobs.expire(queue, size, using=using), most) if expire else 0
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
    """Sweep queues, `interval` seconds apart, until stopped; by default as often as their leases ask for.

    `queues` names them anew for each turn, so that one that is used later is not forgotten.
    """

    def __init__(
        self,
        queues: Callable[[], Sequence[str]],
        *,
        interval: float | None = None,
        limit: int | None = TURN,
        using: str = conf.DEFAULT_ALIAS,
    ) -> None:
        self._queues, self._interval, self._limit, self._using = queues, interval, limit, using
        self._reached = time.monotonic()
        self._reap_from: dict[str, float] = {}
        self._expire_from: dict[str, float] = {}
        self._silent: set[str] = set()
        self._away = False

    def run(self, stopped: threading.Event, report: Callable[[list[Swept]], None] | None = None) -> None:
        """Sweep until `stopped` is set, and report each sweep."""
        # Not in step with other reapers that were started by the same deploy.
        while not stopped.wait(self._pause() * random.uniform(0.8, 1.2)):
            swept = self.sweep_all()
            if report is not None:
                report(swept)

    def _lease(self, queue: str) -> float:
        return conf.alias(self._using).queue(queue).lease

    def _pause(self) -> float:
        if self._interval is not None:
            return self._interval
        try:
            return min(max(min(map(self._lease, self._queues()), default=30.0) / 6, 0.2), 5.0)
        except ServerUnavailable:
            return 5.0

    def sweep_all(self) -> list[Swept]:
        """Sweep every queue once; what a server that is away keeps from it is left for the next time."""
        done: list[Swept] = []
        try:
            queues = self._queues()
            # The silence of the server, not the time that this reaper itself took for a turn.
            gap = time.monotonic() - self._reached - self._pause() * 1.2
            self._silent.update(queue for queue in queues if gap > self._lease(queue) / 2)
            for queue in queues:
                try:
                    done.append(self._sweep(queue))
                except ServerUnavailable:
                    raise
                except Exception:
                    # A reaper that ends is missed only when jobs are lost: it goes on, and says why.
                    logger.exception("queue %r could not be swept", queue)
                self._reached = time.monotonic()
            self._away = False
        except ServerUnavailable as error:
            if not self._away:
                logger.warning("reaping waits: %s", error)
            self._away = True
        return done

    def _sweep(self, queue: str) -> Swept:
        """Sweep a queue; after a silence live workers, which were cut off too, get one lease to extend first."""
        # This sweep may still be answered late: the lease begins when the server is seen to be back.
        silent = queue in self._silent
        reap = not silent and time.monotonic() >= self._reap_from.get(queue, 0.0)
        expire = time.monotonic() >= self._expire_from.get(queue, 0.0)
        swept = sweep(queue, limit=self._limit, reap=reap, expire=expire, using=self._using)
        if expire and not swept.expired:
            self._expire_from[queue] = time.monotonic() + EXPIRE_EVERY
        if silent or swept.waiting:
            self._reap_from[queue] = time.monotonic() + self._lease(queue)
            self._silent.discard(queue)
        if swept.reaped:
            logger.info("queue %r: %d jobs had lost their worker, %d of them are dead", queue, swept.reaped, swept.dead)
        return swept
