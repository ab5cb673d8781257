"""The Django settings of the tests, and of the processes that they start.

A test's own `ECHOMQ` is set by conftest.py. A child process takes the server from `ECHOMQ_TEST_URL` and the SQLite file
from `ECHOMQ_TEST_DATABASE`.
"""

import os
import tempfile
from typing import Any

import django


def echomq(url: str) -> dict[str, Any]:
    return {"default": {"LOCATION": url, "QUEUES": {"default": {}, "mail": {}}}}


if "ECHOMQ_TEST_URL" in os.environ:
    ECHOMQ = echomq(os.environ["ECHOMQ_TEST_URL"])

SECRET_KEY = "only for tests"
DEBUG = False
USE_TZ = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("ECHOMQ_TEST_DATABASE", ":memory:"),
        # Django closes none in memory, and those of threads are then closed when they are forgotten.
        "TEST": {"NAME": os.path.join(tempfile.gettempdir(), f"echomq-test-{os.getpid()}.sqlite3")},
    },
}

TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": []}}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "echomq_django",
    *(["django_tasks"] if django.VERSION < (6,) else []),
]

MIDDLEWARE = [
    "tests.csp.strict",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
