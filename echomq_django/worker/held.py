"""A job that this process holds: what its handler gets."""

import time
from typing import Any

from echomq_django.exceptions import LeaseLost
from echomq_django.job import Claim


class HeldJob:
    """Hold a claimed job while it is run. This, and not a copy, is what heartbeat and handler share."""

    __slots__ = ("claim", "lost", "valid_until")

    def __init__(self, claim: Claim, valid_until: float) -> None:
        self.claim = claim
        self.valid_until = valid_until
        """When the lease ends at the earliest, on this process's monotonic clock."""
        self.lost = False
        """Whether another claim may hold the job by now: stop what has effects."""

    def __repr__(self) -> str:
        return f"<job {self.id} of queue {self.queue!r}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """Give the job's id."""
        return self.claim.id

    @property
    def queue(self) -> str:
        """Give the queue's name."""
        return self.claim.queue

    @property
    def name(self) -> str:
        """Give the name that the producer gave the job."""
        return self.claim.name

    @property
    def group(self) -> str:
        """Give the group of a job that an EchoMQ producer put into a lane."""
        return self.claim.group

    @property
    def payload(self) -> bytes:
        """Give the payload as it was stored."""
        return self.claim.payload

    @property
    def data(self) -> Any:
        """Give the payload read as JSON; a job whose payload is none goes to dead when this is asked."""
        return self.claim.data

    @property
    def attempt(self) -> int:
        """Give the number of this attempt; the first is 1."""
        return self.claim.attempt

    @property
    def token(self) -> int:
        """Give the fencing token: greater than that of every earlier claim of this job."""
        return self.claim.token

    @property
    def lapsed(self) -> bool:
        """Say whether the lease may have ended on the server, by this process's own clock."""
        return time.monotonic() >= self.valid_until

    def raise_if_lost(self) -> None:
        """Raise LeaseLost when another claim may hold the job: call it before what cannot be undone."""
        if self.lost:
            raise LeaseLost(f"job {self.id} of queue {self.queue!r}: token {self.token} no longer holds it.")
