"""What a worker is told when it is started."""

from dataclasses import dataclass
from pathlib import Path

from echomq_django import conf


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the options of echomq_worker. Times are seconds; None is "no limit"."""

    queues: tuple[str, ...]
    using: str = conf.DEFAULT_ALIAS
    concurrency: int = 4
    burst: bool = False
    max_jobs: int | None = None
    max_idle_time: float | None = None
    max_memory: int | None = None
    """MB of resident memory after which the process is replaced."""
    shutdown_timeout: float = 30.0
    reap: bool = True
    heartbeat_file: Path | None = None
    worker_id: str = ""
    verbosity: int = 1
    """0 prints warnings, 1 what changes, 2 every job."""
    supervisor: int | None = None
    """The pid of the process that started this one and without which it should end."""
