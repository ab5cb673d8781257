"""Django's Tasks on this queue: the decorator, the task class, the context, and what a task may raise."""

from echomq_django.exceptions import Discard, Retry, TaskTimeout

from .context import EchoMQContext
from .fencing import fenced_update
from .task import EchoMQTask, task

__all__ = ["Discard", "EchoMQContext", "EchoMQTask", "Retry", "TaskTimeout", "fenced_update", "task"]
