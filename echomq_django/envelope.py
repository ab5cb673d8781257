"""The payload of a task: documented JSON, so that any program can enqueue one.

``{"v": 1, "task": "shop.tasks.send_receipt", "args": [17], "kwargs": {"copy": true}}``

`task` is the dotted path of the Task object. `args` and `kwargs` may be missing. Python's producer adds what
differs from the task as it is declared: `backend` (its alias in TASKS), `run_after` (ISO 8601) and `timeout`
(seconds; 0 for none). Unknown names, and values that make no sense of these three, are ignored, so that a newer
producer may say more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from . import payload
from .exceptions import PayloadError

VERSION = 1

LONGEST_TIMEOUT = 10 * 365 * 86_400.0
"""Seconds; a timer cannot wait for ever."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Hold what a task's payload says."""

    task: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    backend: str | None = None
    run_after: datetime | None = None
    timeout: float | None = None


def encode(
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backend: str | None = None,
    run_after: datetime | None = None,
    timeout: float | None = None,
) -> bytes:
    """Write a payload; PayloadError when an argument would come back as something else."""
    body: dict[str, Any] = {"v": VERSION, "task": task, "args": list(args), "kwargs": dict(kwargs)}
    if backend is not None:
        body["backend"] = backend
    if run_after is not None:
        body["run_after"] = run_after.isoformat()
    if timeout is not None:
        body["timeout"] = timeout
    return payload.encode(body)


def decode(body: bytes) -> Envelope:
    """Read a payload; PayloadError says what is wrong with it."""
    found = payload.decode(body)
    if not isinstance(found, dict):
        raise PayloadError('it is not a task: write {"v": 1, "task": "app.tasks.name", "args": [], "kwargs": {}}')
    version = found.get("v", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise PayloadError(f"its version is {version!r}, and this program reads {VERSION}: update the workers")
    task, args, kwargs = found.get("task"), found.get("args", []), found.get("kwargs", {})
    if not isinstance(task, str) or "." not in task:
        raise PayloadError(f"its task is {task!r}: name the dotted path of a Task")
    if not isinstance(args, list):
        raise PayloadError(f"its args are {args!r}: use a list")
    if not isinstance(kwargs, dict):
        raise PayloadError(f"its kwargs are {kwargs!r}: use an object")
    backend, timeout = found.get("backend"), found.get("timeout")
    return Envelope(
        task=task,
        args=args,
        kwargs=kwargs,
        backend=backend if isinstance(backend, str) else None,
        run_after=_time(found.get("run_after")),
        timeout=timeout if _is_timeout(timeout) else None,
    )


def _is_timeout(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST_TIMEOUT


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
