"""How a run of a job ended. Values: what becomes of them is the link's business."""

from dataclasses import dataclass

from echomq_django.job import ErrorRecord


@dataclass(frozen=True, slots=True)
class Complete:
    """Say that the work is done. `result` is the JSON text to keep, where results are kept."""

    result: str | bytes = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """Say that the attempt failed, and how. `bury` asks for dead at once: trying again cannot help."""

    error: ErrorRecord
    bury: bool = False
    delay: float | None = None
    """Seconds until the next attempt; None for the queue's backoff."""
    maximum: int | None = None
    """How many attempts the job's code allows, where its row does not say; None for the queue's number."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Say that this worker does not know how to run the job, and when to look again (seconds)."""

    reason: str
    delay: float


@dataclass(frozen=True, slots=True)
class Release:
    """Say that the job was not started and can go back."""


NotRun = Fail | Defer | Release
Outcome = Complete | NotRun
