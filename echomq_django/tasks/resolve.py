"""From the dotted path in a payload to the Task. Nothing else is ever called from a queue."""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from .api import Task

_known: dict[str, Task[Any, Any]] = {}


class NotATask(Exception):
    """Say that a dotted path names something, and that it is no Task."""


def resolve(path: str) -> Task[Any, Any]:
    """Import a Task; NotATask when the path names something else, and whatever importing it raises."""
    found = _known.get(path)
    if found is None:
        found = import_string(path)
        if not isinstance(found, Task):
            raise NotATask(f"{path!r} is a {type(found).__qualname__}, not a Task: decorate the function with @task")
        _known[path] = found
    return found
