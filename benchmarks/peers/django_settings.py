"""Django settings of the peers that need Django; BENCH_KIND says which."""

import os

KIND = os.environ["BENCH_KIND"]
URL = os.environ["BENCH_URL"]

BACKENDS = {
    "db": {"BACKEND": "django_tasks_db.DatabaseBackend"},
    "redis": {
        "BACKEND": "django_tasks_redis.RedisTaskBackend",
        "OPTIONS": {"REDIS_URL": URL, "REDIS_COMPLETED_TASK_TTL": 60},
    },
    "vtasks": {
        "BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend",
        "OPTIONS": {"BROKER_URL": URL},
    },
}
APPS = {"db": "django_tasks_db", "redis": "django_tasks_redis", "vtasks": "django_vtasks"}

VTASKS_MAX_RESCUES = 3
TASKS = {"default": BACKENDS[KIND]}
INSTALLED_APPS = ["django.contrib.contenttypes", APPS[KIND]]
SECRET_KEY = "only for benchmarks"
DEBUG = False
USE_TZ = True
LOGGING_CONFIG = None
# In the folder of the run, in which producer and worker are started.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "peer.sqlite3",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
        },
    }
}
