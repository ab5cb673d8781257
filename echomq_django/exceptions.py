"""What this package raises, and when."""

from datetime import timedelta


class EchoMQError(Exception):
    """Be the base of everything that this package raises on purpose."""


class LeaseLost(EchoMQError):
    """Say that the claim no longer holds its job: another claim, or nobody, holds it now."""


class JobGone(EchoMQError):
    """Say that no job has this id: it was completed, removed, or never enqueued."""


class WrongPlace(EchoMQError):
    """Say that the job exists but is not in a place from which this move starts."""


class InvalidId(EchoMQError, ValueError):
    """Say that a text is not a branded id: 3 capital letters and 11 base62 characters."""


class InvalidQueueName(EchoMQError, ValueError):
    """Say that a queue's name is not 1 to 128 of A-Z a-z 0-9 . _ -, or is the reserved "emq"."""


class PayloadError(EchoMQError, TypeError, ValueError):
    """Say that a payload would not come back as it went in, or cannot be read.

    It is a TypeError and a ValueError at once, since callers that guard ``json.dumps`` catch either.
    """


class Retry(EchoMQError):
    """Ask, from inside a handler or a task, for another attempt: after `delay` (seconds or a timedelta) when given.

    The attempt counts like any that fails; without a delay the backoff decides.
    """

    def __init__(self, message: str = "", *, delay: float | timedelta | None = None) -> None:
        super().__init__(message or "another attempt was asked for")
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else delay
        if self.delay is not None and not 0 <= self.delay < 2**31:
            raise ValueError(f"delay is {delay!r}: use seconds from 0, or a timedelta")


class Discard(EchoMQError):
    """Say, from inside a handler or a task, that no further attempt can help: the job is dead, with this reason."""


class TaskTimeout(EchoMQError, TimeoutError):
    """Say that a task ran longer than its `timeout`; raised inside it, wherever it is."""


class WorkerLost(EchoMQError):
    """Stand in a task's errors for an attempt whose worker died or fell silent until its lease ran out."""


class WireVersionMismatch(EchoMQError):
    """Say that this server is fenced for another wire version than the configured one."""


class ServerUnavailable(EchoMQError):
    """Say that the server could not be reached, or does not serve (loading, read-only, busy).

    `unknown` tells whether the command may have been carried out all the same.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class ServerTooOld(EchoMQError):
    """Say that the server is older than Redis 7.0, which the scripts need."""


class QueueFull(EchoMQError):
    """Say that the server is at its `maxmemory`: nothing was stored; what is queued still drains."""
