"""What a measurement is made of: cases, which are run in turn, and again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .contestant import Contestant

Figures = dict[str, float]
"""Values by the title of their column. "foreign" is the part of the machine that others used, 0 to 1."""


@dataclass(frozen=True)
class Options:
    """Hold how much is measured. Times are seconds."""

    jobs: int = 30_000
    seconds: float = 5.0
    """What one drain or one enqueue may take: the slow have a part of the jobs."""
    pings: int = 200
    idle_seconds: float = 30.0
    sizes: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    memory_jobs: int = 1_000_000
    databases: tuple[str, ...] = ("sqlite", "postgresql")
    peers: tuple[Contestant, ...] = field(default=())


@dataclass(frozen=True)
class Case:
    """Be one thing to measure: the row of the table that it belongs to, and how. May raise Failed."""

    row: str
    run: Callable[[], Figures]
