"""The peers: what is installed, what command works, and what the figures of each do not say.

Each is set up as its own documentation says for short jobs in one process: results off where they can be, jobs
acknowledged after they have run where that can be had. "{url}" is the server's address.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """Hold one peer as data; its module of the same name is imported in its own environment only."""

    name: str
    module: str
    requirements: tuple[str, ...]
    work: tuple[str, ...]
    delivery: str
    results: str
    runs: str
    kind: str = ""
    settings: str = ""
    setup: bool = False
    """Whether something must be made before a worker starts, such as tables."""
    bulk: bool = False
    note: str = ""

    @property
    def package(self) -> str:
        """Give the name under which it is asked for, and its environment found."""
        return self.name.partition(",")[0]


AT_LEAST, AT_MOST = "at least once", "at most once"
DJANGO = "benchmarks.peers.django_settings"

ALL = (
    Peer(
        "ardiq", "ardiq", ("ardiq",), ("ardiq", "run", "-q", "benchmarks.peers.ardiq:app"),
        AT_LEAST, "for a second", "coroutines, 100 at once; its loop is in Rust", kind="async", bulk=True,
    ),
    Peer(
        "ardiq, sync", "ardiq", ("ardiq",), ("ardiq", "run", "-q", "benchmarks.peers.ardiq:app"),
        AT_LEAST, "for a second", "functions in threads", kind="sync", bulk=True,
    ),
    Peer(
        "django-vtasks", "vtasks", ("django-vtasks[valkey]",),
        ("python", "-m", "django", "runworker", "--concurrency", "50", "--verbosity", "0"),
        AT_LEAST, "off", "coroutines, 50 at once; its client is in Rust", kind="vtasks", settings=DJANGO, bulk=True,
        note="with VTASKS_MAX_RESCUES set; idle, it sleeps up to a second between looks of a second",
    ),
    Peer(
        "dramatiq", "dramatiq", ("dramatiq[redis]", "hiredis"),
        ("dramatiq", "--processes", "1", "--threads", "8", "benchmarks.peers.dramatiq"),
        AT_LEAST, "off", "functions in 8 threads",
    ),
    Peer(
        "huey", "huey", ("huey", "redis", "hiredis"),
        ("huey_consumer", "benchmarks.peers.huey.queue", "-w", "1", "-k", "thread", "-q", "-n"),
        AT_MOST, "off", "functions in one thread", note="a job is gone from the server when it is popped",
    ),
    Peer(
        "celery", "celery", ("celery[redis]", "hiredis"),
        (
            "celery", "-A", "benchmarks.peers.celery", "worker", "-P", "solo", "-l", "ERROR",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        ),
        AT_LEAST, "off", "functions in the main thread (solo), acks_late",
    ),
    Peer(
        "rq", "rq", ("rq", "hiredis"),
        ("rq", "worker", "-q", "-w", "rq.SimpleWorker", "--disable-job-desc-logging", "-u", "{url}", "bench"),
        "a lost job is marked as failed", "off", "functions in the main thread (SimpleWorker)", bulk=True,
        note="its default worker forks for each job, and is slower",
    ),
    Peer(
        "saq", "saq", ("saq[redis,hiredis]", "typing-extensions"), ("saq", "benchmarks.peers.saq.settings", "-q"),
        AT_LEAST, "off", "coroutines, 50 at once",
    ),
    Peer(
        "arq", "arq", ("arq", "hiredis"), ("arq", "benchmarks.peers.arq.Settings"),
        AT_LEAST, "off", "coroutines, 50 at once, polling every 20 ms",
    ),
    Peer(
        "streaq", "streaq", ("streaq",), ("streaq", "run", "benchmarks.peers.streaq:worker"),
        AT_LEAST, "off", "coroutines, 50 at once", bulk=True,
    ),
    Peer(
        "taskiq-redis", "taskiq", ("taskiq-redis", "hiredis"),
        ("taskiq", "worker", "--workers", "1", "--log-level", "ERROR", "benchmarks.peers.taskiq:broker"),
        AT_LEAST, "off", "coroutines, 100 at once, streams",
    ),
    Peer(
        "bullmq", "bullmq", ("bullmq", "hiredis"), ("python", "-m", "benchmarks.peers.bullmq"),
        AT_LEAST, "off", "coroutines, 50 at once", bulk=True,
    ),
    Peer(
        "django-tasks-redis", "django_tasks", ("django-tasks-redis", "hiredis"),
        ("python", "-m", "django", "run_redis_tasks", "--continuous", "--verbosity", "0"),
        AT_LEAST, "kept for a minute", "functions in the main thread", kind="redis", settings=DJANGO,
    ),
    Peer(
        "django-tasks-db", "django_tasks", ("django-tasks-db",),
        ("python", "-m", "django", "db_worker", "--no-startup-delay", "--verbosity", "0"),
        "a lost job stays running", "kept", "functions in the main thread", kind="db", settings=DJANGO, setup=True,
        note="here on SQLite; it looks for jobs once a second when it had none",
    ),
)  # fmt: skip
