"""A job as its row tells it, and the claim of one. Values: a new state is a new object."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from . import ids, payload
from .exceptions import InvalidId

CRASHED = "crashed"
"""What an error record says, in place of a class, of an attempt whose lease was lost."""

_NUMBER = re.compile(rb"-?[0-9]{1,15}")


def clock_ms(score: float) -> int | None:
    """Read a score as unix ms; None when it is beyond all time."""
    return int(score) if math.isfinite(score) else None


def minted_ms(job_id: str) -> int | None:
    """Give the time at which an id was minted, unix ms; None when it is no id."""
    try:
        return ids.parse(job_id).milliseconds
    except InvalidId:
        return None


def head(last_error: str) -> str:
    """Give what stands before the first colon of an error, in at most 100 characters."""
    return last_error.partition(":")[0][:100]


def _worker(owner: str) -> str:
    # An owner is <worker>:<number of its claim>.
    return owner.rpartition(":")[0]


class Location(StrEnum):
    """Name the places in which a job's id can live."""

    PENDING = "pending"
    ACTIVE = "active"
    SCHEDULE = "schedule"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Hold what is known of one failed attempt. Times are unix ms; `error` is a class path, or "crashed"."""

    error: str
    message: str
    traceback: str
    attempt: int
    worker: str
    started_at: int
    finished_at: int

    @classmethod
    def load(cls, text: bytes) -> "ErrorRecord":
        """Read a record; one that another program wrote may lack anything."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            found = {"error": "unreadable", "message": text.decode(errors="backslashreplace")}

        def words(name: str) -> str:
            return str(found.get(name) or "").encode(errors="backslashreplace").decode()

        def number(name: str) -> int:
            value = found.get(name)
            return value if isinstance(value, int) else 0

        return cls(
            error=words("error"),
            message=words("message"),
            traceback=words("traceback"),
            attempt=number("attempt"),
            worker=words("worker"),
            started_at=number("started_at"),
            finished_at=number("finished_at"),
        )

    def dump(self) -> str:
        """Write the record as JSON. A half character in a message is escaped, never an error."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True)
class Job:
    """Hold a job as it was when it was looked at. Times are unix ms; None where the row does not say."""

    id: str
    queue: str
    location: Location | None
    time: int | None
    """The place's own time: when it runs, when its lease ends, when it died. None in pending."""
    state: str
    attempts: int
    payload: bytes
    name: str
    group: str
    priority: int
    max_attempts: int | None
    spared: int
    stalled: int
    last_error: str
    owner: str
    started_at: int | None
    died_at: int | None
    deferred_at: int | None
    progress: str
    errors: tuple[ErrorRecord, ...] = ()
    result: bytes | None = None
    """What the work gave, as JSON. None until the job is completed."""
    finished_at: int | None = None
    checkpoint: bytes | None = None
    """What the latest attempt left for the next one."""

    @property
    def worker(self) -> str:
        """Name the worker of the latest claim; "" when there was none, or it was EchoMQ's."""
        return _worker(self.owner)

    @property
    def attempt(self) -> int:
        """Give the number of attempts that count against the maximum."""
        return self.attempts - self.spared

    @property
    def error_head(self) -> str:
        """Give the head of the last error, which is most often its class: what stands before the first colon."""
        return head(self.last_error)

    @property
    def enqueued_at(self) -> int | None:
        """Give the time at which the id was minted, unix ms, on the producer's clock; None when it is no id."""
        return minted_ms(self.id)

    @classmethod
    def load(
        cls,
        queue: str,
        job_id: str,
        row: Mapping[bytes, bytes],
        location: Location | None,
        score: float | None,
        errors: Sequence[bytes] = (),
    ) -> "Job":
        """Read a row. Every field may be missing: an EchoMQ producer writes three."""

        def words(name: bytes) -> str:
            return row.get(name, b"").decode(errors="backslashreplace")

        def number(name: bytes) -> int | None:
            value = row.get(name, b"")
            return int(value) if _NUMBER.fullmatch(value) else None

        return cls(
            id=job_id,
            queue=queue,
            location=location,
            time=None if score is None or location is Location.PENDING else clock_ms(score),
            state=words(b"state"),
            attempts=number(b"attempts") or 0,
            payload=row.get(b"payload", b""),
            name=words(b"name"),
            group=words(b"group"),
            priority=number(b"priority") or 0,
            max_attempts=number(b"max_attempts"),
            spared=number(b"spared") or 0,
            stalled=number(b"stalled") or 0,
            last_error=words(b"last_error"),
            owner=words(b"owner"),
            started_at=number(b"started_at"),
            died_at=number(b"died_at"),
            deferred_at=number(b"deferred_at"),
            progress=words(b"progress"),
            errors=tuple(map(ErrorRecord.load, errors)),
            result=row.get(b"result"),
            finished_at=number(b"finished_at"),
            checkpoint=row.get(b"checkpoint"),
        )


ROW_FIELDS = tuple(
    field.name for field in fields(Job) if field.name not in ("id", "queue", "location", "time", "errors")
)
"""What is read of a row."""


LARGE_FIELDS = ("payload", "result", "checkpoint")
"""What a list leaves out: one job with a large payload would make it slow."""


@dataclass(frozen=True)
class Claim:
    """Hold a job that is ours until its lease ends, and the token and nonce that prove it."""

    queue: str
    id: str
    token: int
    """The fencing token: greater than that of every earlier claim of this job."""
    owner: str
    payload: bytes
    spared: int = 0
    stalled: int = 0
    max_attempts: int | None = None
    name: str = ""
    group: str = ""
    deferred_ms: int | None = None
    """How long ago the job was first deferred, ms; None when it never was."""
    priority: int = 0

    @property
    def worker(self) -> str:
        """Name the worker that made this claim."""
        return _worker(self.owner)

    @property
    def attempt(self) -> int:
        """Give the number of this attempt; the first is 1. Crashes, releases and deferrals do not count."""
        return self.token - self.spared

    @cached_property
    def data(self) -> Any:
        """Give the payload read as JSON; PayloadError when it is none."""
        return payload.decode(self.payload)

    @property
    def proof(self) -> tuple[str, int, str]:
        """Give what a script needs to tell this claim from another."""
        return self.id, self.token, self.owner
