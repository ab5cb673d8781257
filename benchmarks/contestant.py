"""Who is measured: a module that enqueues, a command that works, and the Python in which both run."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Contestant:
    """Hold how to enqueue jobs for a queue, and how to run its worker.

    `module` has enqueue(argument) and perhaps enqueue_many(arguments); `kind` tells it which of its ways to take. Two
    worker processes are the same command twice, for all.
    """

    name: str
    module: str
    work: tuple[str, ...]
    kind: str = ""
    python: str = sys.executable
    env: Mapping[str, str] = field(default_factory=dict)
    bulk: bool = True
    """Whether it has an enqueue of many that is its own."""
    setup: bool = False
    """Whether its module makes something that a worker needs before it starts."""

    def drive(self, *words: object) -> list[str]:
        """Give the command that enqueues; see drive.py."""
        return [self.python, "-m", "benchmarks.drive", self.module, *map(str, words)]

    def worker(self, url: str) -> list[str]:
        """Give the command of one worker process; a program of the venv is found beside its Python."""
        program, *options = (word.replace("{url}", url) for word in self.work)
        return [self.python if program == "python" else str(Path(self.python).parent / program), *options]

    def environment(self, url: str, marks: Path) -> dict[str, str]:
        """Give the environment of both."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "BENCH_URL": url,
            "BENCH_MARKS": str(marks),
            "BENCH_KIND": self.kind,
            **self.env,
        }
