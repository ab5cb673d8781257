"""Outcomes on their way to the server: all those of one turn, in as few calls as there are queues."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from echomq_django import keys, transitions
from echomq_django.call import Call
from echomq_django.conf import AliasConfig
from echomq_django.exceptions import EchoMQError, ServerUnavailable
from echomq_django.transitions import MAX_BATCH

from .heartbeat import Heartbeat
from .held import HeldJob
from .outcome import Complete, Defer, Fail, Outcome, Release
from .plan import Plan, Then

T = TypeVar("T")
logger = logging.getLogger("echomq_django.worker")

WARN_EVERY = 60.0

KEPT_BATCH = 50
"""The most jobs that one call completes and keeps: a result may have a megabyte, a kept row costs the server more."""


@dataclass(slots=True)
class Settle:
    """Hold an outcome until the server has answered. `resent`: an earlier sending may have been carried out."""

    job: HeldJob
    outcome: Outcome
    resent: bool = False


@dataclass(slots=True)
class Tally:
    """Count what became of the jobs. What is counted has been logged: who waits for the one finds the other."""

    completed: int = 0
    retried: int = 0
    dead: int = 0
    deferred: int = 0
    released: int = 0
    lost: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{value} {name}" for name in self.__slots__ if (value := getattr(self, name))) or "no jobs"


def _chunks(items: list[T], size: int) -> Iterator[list[T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


class Settling:
    """Keep outcomes until they are settled, whatever happens to the connection."""

    def __init__(self, config: AliasConfig, heartbeat: Heartbeat) -> None:
        self.tally = Tally()
        self._config, self._heartbeat = config, heartbeat
        self._waiting: list[Settle] = []
        self._warned: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, job: HeldJob, outcome: Outcome) -> None:
        """Settle this with the next turn."""
        self._waiting.append(Settle(job, outcome))

    def plan(self, plan: Plan) -> None:
        """Add the calls that settle everything that waits."""
        settles, self._waiting = self._waiting, []
        completes: dict[str, list[tuple[Settle, Complete]]] = {}
        releases: dict[str, list[Settle]] = {}
        for settle in settles:
            # A beat that met a settled job would call it lost.
            self._heartbeat.drop(settle.job)
            outcome = settle.outcome
            if isinstance(outcome, Complete):
                completes.setdefault(settle.job.queue, []).append((settle, outcome))
            elif isinstance(outcome, Release):
                releases.setdefault(settle.job.queue, []).append(settle)
            else:
                plan.add(self._single(settle.job, outcome), self._settled([settle]))
        for name, finished in completes.items():
            for done in _chunks(finished, KEPT_BATCH if self._config.queue(name).result_ttl_ms else MAX_BATCH):
                plan.add(self._complete(name, done), self._settled([settle for settle, _ in done]))
        for name, unrun in releases.items():
            for chunk in _chunks(unrun, MAX_BATCH):
                call = transitions.release(keys.of(name), [settle.job.claim for settle in chunk])
                plan.add(call, self._settled(chunk))

    def _complete(self, queue: str, done: Sequence[tuple[Settle, Complete]]) -> Call[list[str]]:
        config = self._config.queue(queue)
        results = [(config.result_ttl_ms, outcome.result) for _, outcome in done]
        claims = [settle.job.claim for settle, _ in done]
        return transitions.complete(keys.of(queue), claims, results=results, recent=config.keep_completed)

    def _single(self, job: HeldJob, outcome: Fail | Defer) -> Call[str]:
        queue_keys = keys.of(job.queue)
        if isinstance(outcome, Defer):
            return transitions.defer(queue_keys, job.claim, delay_ms=round(outcome.delay * 1000), reason=outcome.reason)
        config = self._config.queue(job.queue)
        wait_ms = config.backoff_ms(job.attempt) if outcome.delay is None else round(outcome.delay * 1000)
        return transitions.retry(
            queue_keys,
            job.claim,
            delay_ms=wait_ms,
            maximum=0 if outcome.bury else job.claim.max_attempts or outcome.maximum or config.max_attempts,
            reason=outcome.error.message,
            entry=outcome.error.dump(),
        )

    def _settled(self, settles: list[Settle]) -> Then:
        def then(result: Any) -> None:
            if isinstance(result, ServerUnavailable):
                for settle in settles:
                    settle.resent = settle.resent or result.unknown
                self._waiting += settles
            elif isinstance(result, EchoMQError):
                for settle in settles:
                    logger.error("%r could not be settled and is left to its lease: %s", settle.job, result)
            else:
                words = [result] if isinstance(result, str) else result
                for settle, word in zip(settles, words, strict=True):
                    self._note(settle, word)

        return then

    def _note(self, settle: Settle, word: str) -> None:
        job, outcome = settle.job, settle.outcome
        # After a resend a refusal means that the first sending was carried out, and only its reply was lost. But a
        # completed job is gone: one that is lost was claimed by another before the first sending came.
        believed = settle.resent and not (word == "lost" and isinstance(outcome, Complete))
        if word in ("lost", "gone") and not believed:
            self._refused(job, outcome, word)
        elif isinstance(outcome, Complete):
            logger.debug("job %s of queue %r completed, attempt %d", job.id, job.queue, job.attempt)
            self.tally.completed += 1
        elif isinstance(outcome, Release):
            logger.debug("job %s of queue %r released", job.id, job.queue)
            self.tally.released += 1
        elif isinstance(outcome, Defer):
            self._warn_seldom(job, outcome)
            self.tally.deferred += 1
        elif word == "dead":
            logger.debug("job %s of queue %r is dead: %s", job.id, job.queue, outcome.error.message)
            self.tally.dead += 1
        else:
            logger.debug("job %s of queue %r will be retried: %s", job.id, job.queue, outcome.error.message)
            self.tally.retried += 1

    def _refused(self, job: HeldJob, outcome: Outcome, word: str) -> None:
        # The heartbeat may have said so already; and nothing is dropped when a job that was not run is refused.
        if not job.lost and not isinstance(outcome, Release):
            logger.warning(
                "job %s of queue %r: token %d no longer holds it (%s); its outcome is dropped",
                job.id, job.queue, job.token, word,
            )  # fmt: skip
        self.tally.lost += 1

    def _warn_seldom(self, job: HeldJob, outcome: Defer) -> None:
        now = time.monotonic()
        if now - self._warned.get(job.queue, -WARN_EVERY) >= WARN_EVERY:
            self._warned[job.queue] = now
            logger.warning("jobs of queue %r are put off, %s first: %s", job.queue, job.id, outcome.reason)
