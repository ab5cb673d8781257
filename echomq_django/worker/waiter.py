"""Wait at the server for a queue to have work. One thread per queue, on connections of their own.

A waiter waits only when it is armed, that is while this process has room: a token that a full worker took would
be missing to an idle one.
"""

import logging
import random
import threading
from collections.abc import Callable

from echomq_django import keys
from echomq_django.connection import Client
from echomq_django.exceptions import EchoMQError

logger = logging.getLogger("echomq_django.worker")

BEAT = 2.0
"""Seconds after which a parked worker looks without having been woken: EchoMQ's flat enqueue wakes nobody."""

Woken = Callable[[str, bool], None]


class Waiter:
    """Wait for the wake token of one queue, once each time it is armed, and tell whether one came."""

    def __init__(self, client: Client, queue: str, woken: Woken) -> None:
        self._client = client
        self._queue = queue
        self._wake = keys.of(queue).wake
        self._woken = woken
        self._timeout = BEAT
        self._armed = threading.Semaphore(0)
        self._stopped = False
        self.parked = False
        self._thread = threading.Thread(target=self._wait, name=f"echomq-waiter-{queue}", daemon=True)
        self._thread.start()

    def arm(self, timeout: float) -> None:
        """Wait for a token, at most `timeout` seconds and at most a beat."""
        self.parked = True
        self._timeout = min(max(timeout, 0.001), BEAT)
        self._armed.release()

    def stop(self) -> None:
        """Wait no more; a wait under way ends within a beat."""
        self._stopped = True
        self._armed.release()
        self._thread.join(BEAT + 0.2)

    def _wait(self) -> None:
        pause = 0.1
        while True:
            self._armed.acquire()
            if self._stopped:
                return
            token = False
            try:
                [reply] = self._client.exchange((("BLPOP", self._wake, f"{self._timeout:.3f}"),))
                if isinstance(reply, Exception):
                    raise EchoMQError(str(reply))
                token = reply is not None
                pause = 0.1
            except Exception as error:
                # A waiter that ended would make its queue deaf.
                logger.debug("waiter of queue %r: %s", self._queue, error)
                threading.Event().wait(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, BEAT)
            self.parked = False
            self._woken(self._queue, token)
