"""Django's own Tasks: `django.tasks` where there is one (6.0 and later), else the django-tasks backport.

The only file that imports from either. On Django 6 the backport is a world of its own, whose exceptions nobody
there would catch: it is never used when Django has Tasks itself.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import ReferenceType

from django.core.exceptions import ImproperlyConfigured
from django.dispatch import Signal

BUILT_IN = find_spec("django.tasks") is not None

if not BUILT_IN and find_spec("django_tasks") is None:
    raise ImproperlyConfigured(
        "Tasks need Django 6.0, or the backport on Django 5.2: pip install echomq-django[tasks], and add "
        '"django_tasks" to INSTALLED_APPS.'
    )

# The types come from the backport: Django's own has none.
if TYPE_CHECKING or not BUILT_IN:
    from django_tasks import default_task_backend, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.backends.dummy import DummyBackend
    from django_tasks.backends.immediate import ImmediateBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import default_task_backend, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.backends.dummy import DummyBackend
    from django.tasks.backends.immediate import ImmediateBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

__all__ = [
    "BUILT_IN",
    "BaseTaskBackend",
    "DummyBackend",
    "ImmediateBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "default_task_backend",
    "normalize_json",
    "only_logs",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


def only_logs(signal: Signal) -> bool:
    """Say whether nobody listens to a signal of Tasks but the functions that come with it, which log it."""
    module = "django.tasks.signals" if BUILT_IN else "django_tasks.signals"
    # A look-up key comes first, then the receiver; what follows differs between versions of Django.
    receivers = [entry[1] for entry in signal.receivers]
    functions = [each() if isinstance(each, ReferenceType) else each for each in receivers]
    return all(getattr(function, "__module__", "") == module for function in functions)
