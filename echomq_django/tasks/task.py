"""EchoMQTask: Django's Task with attempts, a backoff and a timeout; and the decorator that makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, overload

from django.utils import timezone

from echomq_django import retries
from echomq_django.envelope import LONGEST_TIMEOUT

from .api import InvalidTask, Task, TaskResult

Backoff = Callable[[BaseException, "TaskResult[Any]"], float | timedelta | None]
"""Give the delay before the next attempt, seconds or a timedelta; None for no further attempt.

Gets the exception and the result as the failed attempt leaves it. The names `max_attempts` and `backoff` and their
meaning are those of Django's own proposal for retries (django/new-features issue 142).
"""

_KEEP: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoMQTask(Task):  # type: ignore[type-arg]
    """Be a Task that says how often it is tried, how long apart, and how long an attempt may take."""

    max_attempts: int | None = None
    """How many attempts it has; None for its queue's MAX_ATTEMPTS."""

    backoff: Backoff | None = None
    """The delay after a failed attempt; None for its queue's BACKOFF."""

    timeout: float | None = None
    """Seconds that an attempt may take; None for no limit."""

    delay: timedelta | None = field(default=None, compare=False, repr=False)
    """What `using(run_after=timedelta(…))` was given, so that it counts from the enqueue on the server's clock."""

    def __post_init__(self) -> None:
        attempts, timeout = self.max_attempts, self.timeout
        if attempts is not None and not retries.is_number_of_attempts(attempts):
            raise InvalidTask(f"max_attempts of {self.func.__name__} is {attempts!r}: use a whole number from 1.")
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= LONGEST_TIMEOUT
        ):
            raise InvalidTask(f"timeout of {self.func.__name__} is {timeout!r}: use seconds, more than 0 and finite.")
        if self.backoff is not None and not callable(self.backoff):
            raise InvalidTask(
                f"backoff of {self.func.__name__} is {self.backoff!r}: use a function of the exception and the result "
                "that returns seconds, or None for no further attempt."
            )
        # Not super(): in a dataclass with slots it looks for a class that is not there (Python 3.12, 3.13).
        Task.__post_init__(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = _KEEP,
        backend: str | None = None,
        max_attempts: int | None = _KEEP,
        timeout: float | None = _KEEP,
    ) -> EchoMQTask:
        """Create a new Task with other values.

        `run_after`, `max_attempts` and `timeout` are reset by None; None leaves the others alone, as in Django. A
        `run_after` that is a timedelta counts from the enqueue. The backoff is code, and belongs to the task.
        """
        changes: dict[str, Any] = {}
        if run_after is not _KEEP:
            # One that is past is now, as it is for a datetime.
            delay = max(run_after, timedelta(0)) if isinstance(run_after, timedelta) else None
            changes["run_after"] = run_after if delay is None else timezone.now() + delay
            changes["delay"] = delay
        resettable = {"max_attempts": max_attempts, "timeout": timeout}
        plain = {"priority": priority, "queue_name": queue_name, "backend": backend}
        changes |= {name: value for name, value in resettable.items() if value is not _KEEP}
        changes |= {name: value for name, value in plain.items() if value is not None}
        return replace(self, **changes)

    def enqueue_on_commit(self, *args: Any, **kwargs: Any) -> TaskResult[Any]:
        """Enqueue when the transaction of the default database commits, and give the result at once.

        A rollback enqueues nothing: the result then stays unknown to `refresh()`. For another database call the
        backend's method of this name, which takes `database`.
        """
        backend = self.get_backend()
        store = getattr(backend, "enqueue_on_commit", None)
        if store is None:
            raise InvalidTask(
                f"backend {self.backend!r} ({type(backend).__qualname__}) has no enqueue_on_commit: use EchoMQBackend, "
                "or a backend of echomq_django.testing, or transaction.on_commit()."
            )
        result: TaskResult[Any] = store(self, args, kwargs)
        return result


@overload
def task(function: Callable[..., Any], /) -> EchoMQTask: ...


@overload
def task(
    function: None = None,
    /,
    *,
    priority: int = 0,
    queue_name: str = "default",
    backend: str = "default",
    takes_context: bool = False,
    max_attempts: int | None = None,
    backoff: Backoff | None = None,
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], EchoMQTask]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task, as Django's decorator does, with `max_attempts`, `backoff` and `timeout`.

    It gives an EchoMQTask whatever the backend is: Django 6.0's own decorator refuses the extra arguments, and
    later ones do when TASKS names a backend that does not know them.
    """
    if "run_after" in options:
        raise TypeError("run_after belongs to one enqueue: use .using(run_after=…).")

    def decorate(function: Callable[..., Any]) -> EchoMQTask:
        # Django 6.0 has no defaults for these.
        defaults: dict[str, Any] = {
            "priority": 0, "queue_name": "default", "backend": "default", "run_after": None, "takes_context": False,
        }  # fmt: skip
        return EchoMQTask(**{**defaults, **options}, func=function)

    return decorate if function is None else decorate(function)
