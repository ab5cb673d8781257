"""Settings of the example shop: a development site, not one to deploy."""

import os
from pathlib import Path
from typing import Any

import django

BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = True
SECRET_KEY = "the example shop keeps no secrets"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "echomq_django",
    "shop",
    *(["django_tasks"] if django.VERSION < (6,) else []),  # from 6.0 on Django has tasks itself
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "shop_site.urls"
WSGI_APPLICATION = "shop_site.wsgi.application"
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

# Two worker processes of four threads each write to this one file. SQLite lets one writer in at a
# time: WAL keeps readers out of its way, IMMEDIATE makes a transaction queue for the write lock
# when it begins (a later upgrade from read to write fails at once, without waiting), and the
# timeout is how long it queues.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "db.sqlite3",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["orders"]}}

# Seconds. Everything is short, so that a retry and a crash can be watched; the defaults are longer.
ECHOMQ: dict[str, Any] = {
    "default": {
        "LOCATION": os.environ.get("ECHOMQ_URL", "embedded://"),
        "QUEUES": {
            "orders": {
                "LEASE": 5,
                "MAX_CRASHES": 3,
                "BACKOFF_BASE": 0.5,
                "BACKOFF_CAP": 2,
            },
        },
    },
}

ORDERS_FILE = BASE_DIR / "orders.csv"
RECEIPTS_DIR = BASE_DIR / "receipts"
WORKER_LOG = BASE_DIR / "worker.log"
