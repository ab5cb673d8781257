"""The Django settings of our own worker and producer while they are measured."""

import os
from typing import Any

import django

ECHOMQ = {
    "default": {
        "LOCATION": os.environ.get("BENCH_URL", "redis://127.0.0.1:6379/0"),
        "QUEUES": {"raw": {"HANDLER": os.environ.get("BENCH_HANDLER", "benchmarks.handlers.noop")}},
    },
}
TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"]}}

# Django writes two lines for each task, at INFO, and its own settings then drop them.
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"django.tasks": {"level": "WARNING"}}}

SECRET_KEY = "only for benchmarks"
DEBUG = False
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["echomq_django", "benchmarks.shelf", *(["django_tasks"] if django.VERSION < (6,) else [])]


def _database(url: str) -> dict[str, Any]:
    """Read sqlite:PATH or postgresql:FOLDER-OF-THE-SOCKET."""
    kind, _, where = url.partition(":")
    if kind == "postgresql":
        return {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": where,
            "NAME": "postgres",
            "USER": "postgres",
            "CONN_MAX_AGE": 60,
        }
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": where or ":memory:",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", "timeout": 20},
    }


DATABASES = {"default": _database(os.environ.get("BENCH_DATABASE", ""))}
