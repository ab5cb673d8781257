"""What a task that takes its context gets: Django's, and what the claim of its job can tell and do."""

from dataclasses import dataclass
from typing import Any, Protocol

from echomq_django import failure, payload
from echomq_django.exceptions import PayloadError

from .api import TaskContext

LINE_LIMIT = 1_000
"""Characters of a log line that are kept."""


class Lease(Protocol):
    """Be the hold that this attempt has on its job, and the way to write to it."""

    @property
    def token(self) -> int:
        """Give the fencing token."""

    @property
    def lost(self) -> bool:
        """Say whether another claim may hold the job."""

    @property
    def checkpoint(self) -> bytes | None:
        """Give the last checkpoint, JSON."""

    def raise_if_lost(self) -> None:
        """Raise LeaseLost when it is lost."""

    def annotate(self, kind: str, value: str) -> None:
        """Write to the job while the claim holds; LeaseLost when it does not."""

    async def aannotate(self, kind: str, value: str) -> None:
        """Write to the job, from a coroutine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoMQContext(TaskContext):
    """Be Django's TaskContext, and know the claim: its token, whether it is lost, and how to leave a trace.

    What is written is written by one script and only while the claim holds: LeaseLost is raised when it does not,
    and stops a task whose job another worker has by now.
    """

    lease: Lease

    @property
    def token(self) -> int:
        """Give the fencing token: greater than that of every earlier claim of this job."""
        return self.lease.token

    @property
    def lost(self) -> bool:
        """Say whether another worker may have the job by now: stop what has effects."""
        return self.lease.lost

    def raise_if_lost(self) -> None:
        """Raise LeaseLost when another worker may have the job: call it before what cannot be undone."""
        self.lease.raise_if_lost()

    @property
    def last_checkpoint(self) -> Any:
        """Give what an earlier attempt, or this one, saved last; None when there is nothing."""
        text = self.lease.checkpoint
        return None if text is None else payload.decode(text)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the task is, for the people who look."""
        self.lease.annotate("progress", progress_text(done, total, note))

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the task is, from a coroutine."""
        await self.lease.aannotate("progress", progress_text(done, total, note))

    def log(self, line: str) -> None:
        """Add a line to the job's own log; the last 100 are kept."""
        self.lease.annotate("log", log_text(line))

    async def alog(self, line: str) -> None:
        """Add a line to the job's own log, from a coroutine."""
        await self.lease.aannotate("log", log_text(line))

    def checkpoint(self, value: Any) -> None:
        """Save where a later attempt shall go on, any JSON value; PayloadError when it would change."""
        self.lease.annotate("checkpoint", checkpoint_text(value))

    async def acheckpoint(self, value: Any) -> None:
        """Save where a later attempt shall go on, from a coroutine."""
        await self.lease.aannotate("checkpoint", checkpoint_text(value))


def progress_text(done: float, total: float | None, note: str) -> str:
    """Write a progress as JSON; PayloadError when the numbers are none."""
    for number in (done, total):
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            raise PayloadError(f"progress is {number!r} where a number belongs")
    text = failure.printable(str(note))[:LINE_LIMIT]
    return payload.to_json({"done": done, "total": total, "note": text}).decode()


def log_text(line: str) -> str:
    """Make a line fit to be kept."""
    return failure.printable(str(line))[:LINE_LIMIT]


def checkpoint_text(value: Any) -> str:
    """Write a checkpoint as JSON."""
    try:
        return payload.to_keep(value).decode()
    except PayloadError as error:
        raise PayloadError(f"the checkpoint was not saved: {error}") from None
