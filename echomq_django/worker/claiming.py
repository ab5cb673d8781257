"""Which queues to ask for how many jobs, and what to do when the answer is lost."""

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from echomq_django import keys, transitions
from echomq_django.conf import AliasConfig
from echomq_django.exceptions import EchoMQError, ServerUnavailable
from echomq_django.job import Claim
from echomq_django.transitions import MAX_BATCH

from .heartbeat import Heartbeat
from .held import HeldJob
from .plan import Plan, Then
from .waiter import BEAT

logger = logging.getLogger("echomq_django.worker")

PREFETCH_MAX = 400


@dataclass(slots=True)
class Asked:
    """Hold a claim that was sent: for recover, when its reply does not come."""

    queue: str
    owner: str
    share: int
    sent: float
    seen: bool = False
    """Whether the server was asked what became of it, and answered."""
    look_at: float = 0.0
    """When to look for it the next time."""
    found: set[str] = field(default_factory=set)
    """The ids of its jobs that have turned up."""


class Claiming:
    """Know which queues are hot, that is may have work, and share the free room out among them."""

    def __init__(
        self,
        config: AliasConfig,
        queues: Iterable[str],
        worker: str,
        heartbeat: Heartbeat,
        begin: Callable[[list[HeldJob]], None],
    ) -> None:
        self.claimed = 0
        self.last = time.monotonic()
        """When a claim brought something the last time."""
        self._config, self._worker, self._heartbeat, self._begin = config, worker, heartbeat, begin
        self._hot = dict.fromkeys(queues, True)
        self._due: dict[str, float | None] = dict.fromkeys(queues)
        self._lost: list[Asked] = []
        self._serial = itertools.count(1)

    @property
    def any_hot(self) -> bool:
        """Say whether some queue may have work."""
        return any(self._hot.values())

    @property
    def taken(self) -> int:
        """Give how many jobs were claimed, with those that a claim whose reply was lost may have brought."""
        return self.claimed + sum(asked.share for asked in self._lost)

    @property
    def unseen(self) -> bool:
        """Say whether there is a claim whose reply was lost and of which nothing is known."""
        return any(not asked.seen for asked in self._lost)

    @property
    def unsure(self) -> bool:
        """Say whether the server may still hold jobs for us of a claim whose reply was lost."""
        return bool(self._lost)

    def heat(self, *queues: str) -> None:
        """Ask these, or all, with the next turn."""
        for name in queues or self._hot:
            self._hot[name] = True

    def cold(self) -> list[tuple[str, float | None]]:
        """List the queues that had nothing, and when the next job of each is due (monotonic)."""
        return [(name, self._due[name]) for name, hot in self._hot.items() if not hot]

    def plan(self, plan: Plan, room: int) -> None:
        """Add a claim for each hot queue, of an equal share of the room."""
        hot = [name for name, is_hot in self._hot.items() if is_hot]
        random.shuffle(hot)  # so that none is always asked first
        while hot and room > 0:
            name = hot.pop()
            share = min(-(-room // (len(hot) + 1)), MAX_BATCH)
            room -= share
            asked = Asked(name, f"{self._worker}:{next(self._serial)}", share, time.monotonic())
            lease_ms = self._config.queue(name).lease_ms
            call = transitions.claim(keys.of(name), limit=share, lease_ms=lease_ms, owner=asked.owner)
            plan.add(call, self._received(asked))

    def plan_recovery(self, plan: Plan) -> None:
        """Add a look for the jobs of each claim whose reply was lost."""
        now = time.monotonic()
        for asked in self._lost:
            if now >= asked.look_at:
                asked.look_at = now + BEAT
                self._look(plan, asked, first=0)

    def _received(self, asked: Asked) -> Then:
        def then(result: Any) -> None:
            if isinstance(result, ServerUnavailable):
                if result.unknown:
                    self._lost.append(asked)
            elif isinstance(result, EchoMQError):
                logger.error("%s", result)
                self._hot[asked.queue] = False
            else:
                self._hot[asked.queue] = not result.paused and (result.left > 0 or len(result.claims) == asked.share)
                due = result.due_in_ms
                self._due[asked.queue] = None if due is None else time.monotonic() + due / 1000
                self._hold(asked, result.claims)

        return then

    def _hold(self, asked: Asked, claims: list[Claim]) -> None:
        if claims:
            # From the sending on: by the server's clock the lease may have begun right then.
            until = asked.sent + self._config.queue(asked.queue).lease
            jobs = [HeldJob(claim, until) for claim in claims]
            self.claimed += len(jobs)
            self.last = time.monotonic()
            self._heartbeat.hold(jobs)
            self._begin(jobs)

    def _look(self, plan: Plan, asked: Asked, first: int, new: int = 0) -> None:
        lease_ms = self._config.queue(asked.queue).lease_ms
        call = transitions.recover(keys.of(asked.queue), owner=asked.owner, lease_ms=lease_ms, first=first)
        plan.add(call, self._looked(plan, asked, first, new))

    def _looked(self, plan: Plan, asked: Asked, first: int, new: int) -> Then:
        def then(result: Any) -> None:
            if isinstance(result, EchoMQError):
                return
            size, claims = result
            # Ranks move between two pages: a job may be met again, and one may be missed until the next look.
            fresh = [claim for claim in claims if claim.id not in asked.found]
            asked.found.update(claim.id for claim in fresh)
            self._hold(asked, fresh)
            if size == MAX_BATCH:
                self._look(plan, asked, first + size, new + len(fresh))
                return
            asked.seen = True
            fresh_in_all = new + len(fresh)
            if fresh_in_all:
                logger.info("found %d jobs of a claim of queue %r whose reply was lost", fresh_in_all, asked.queue)
            # The claim may arrive late: look until the lease that it would have is over, or nothing more turns up.
            whole = len(asked.found) == asked.share or (asked.found and not fresh_in_all)
            if whole or time.monotonic() > asked.sent + self._config.queue(asked.queue).lease:
                self._lost.remove(asked)

        return then
