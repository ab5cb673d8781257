"""The heartbeat: extend the leases of all held jobs, a third of a lease apart, on a connection of its own.

It tells a handler at once when its job was lost. What it says is for the handler's sake: whether a settle is
still believed, the script decides.
"""

import logging
import threading
import time
from collections.abc import Iterable

from echomq_django import keys, transitions
from echomq_django.conf import AliasConfig
from echomq_django.connection import Client
from echomq_django.exceptions import EchoMQError
from echomq_django.transitions import MAX_BATCH

from .held import HeldJob

logger = logging.getLogger("echomq_django.worker")


class Heartbeat:
    """Keep the jobs that this process holds, and their leases alive."""

    def __init__(self, config: AliasConfig, queues: Iterable[str]) -> None:
        self._config = config
        shortest = min(config.queue(queue).lease for queue in queues)
        self._interval = shortest / 3
        # A reply that takes longer than this would come too late for the next try.
        self._client = Client(config, socket_timeout=shortest / 6)
        self._held: set[HeldJob] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="echomq-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        self._thread.join(self._interval)
        self._client.close()

    def hold(self, jobs: Iterable[HeldJob]) -> None:
        """Extend these from now on."""
        with self._lock:
            self._held.update(jobs)

    def drop(self, job: HeldJob) -> None:
        """Extend this no more: it is about to be settled."""
        with self._lock:
            self._held.discard(job)

    def held(self) -> list[HeldJob]:
        """List what is held."""
        with self._lock:
            return list(self._held)

    def _beat(self) -> None:
        wait = self._interval
        while not self._stopped.wait(wait):
            wait = self._interval
            try:
                self.beat()
            except EchoMQError as error:
                logger.debug("heartbeat: %s", error)
                wait = self._interval / 4
            except Exception:
                # A heart that stops would cost every job its lease.
                logger.exception("a heartbeat failed")

    def beat(self) -> None:
        """Extend every held job once. An error of one queue is raised when the others have had their turn."""
        by_queue: dict[str, list[HeldJob]] = {}
        for job in self.held():
            by_queue.setdefault(job.queue, []).append(job)
        failed: EchoMQError | None = None
        for queue, jobs in by_queue.items():
            for first in range(0, len(jobs), MAX_BATCH):
                try:
                    self._extend(queue, jobs[first : first + MAX_BATCH])
                except EchoMQError as error:
                    failed = error
        if failed is not None:
            raise failed

    def _extend(self, queue: str, jobs: list[HeldJob]) -> None:
        config = self._config.queue(queue)
        sent = time.monotonic()
        call = transitions.extend(keys.of(queue), [job.claim for job in jobs], lease_ms=config.lease_ms)
        [words] = self._client.attempt([call])
        if isinstance(words, Exception):
            raise words
        for job, word in zip(jobs, words, strict=True):
            if word == "ok":
                job.valid_until = sent + config.lease
            elif job in self._held and not job.lost:
                job.lost = True
                logger.warning(
                    "job %s of queue %r: the lease of token %d was lost while it runs; another worker may have it",
                    job.id, queue, job.token,
                )  # fmt: skip
