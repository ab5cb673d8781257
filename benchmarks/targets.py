"""What shall be reached, each as a ratio of medians of one run of the benchmark: met, not met, or not measured."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import enqueue, field, latency
from .peers.catalogue import ALL, AT_LEAST
from .report import Table, medians

Cell = Callable[["Figures"], float | None]


class Figures:
    """Hold the medians of all measurements."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._tables = {name: medians(results, name) for name in results["measurements"]}

    def table(self, measurement: str) -> Table:
        """Give a measurement's table, empty when it was not made."""
        return self._tables.get(measurement, {})

    def cell(self, measurement: str, row: str, column: str) -> float | None:
        """Give one figure."""
        return self.table(measurement).get(row, {}).get(column)

    def peers(self, measurement: str, column: str, *, django: bool = False, sure: bool = False) -> list[float]:
        """Give the figures of all peers, or of those that are Django's, or of those that lose no jobs."""
        wanted = [
            peer.name for peer in ALL if (not django or peer.settings) and (not sure or peer.delivery == AT_LEAST)
        ]
        return [value for name in wanted if (value := self.cell(measurement, name, column)) is not None]


@dataclass(frozen=True)
class Target:
    """Hold one aim: `above / below` shall be at least, or at most, so much."""

    text: str
    above: Cell
    below: Cell
    bound: float
    most: bool = False

    def line(self, figures: Figures) -> str:
        """Say how far it is."""
        above, below = self.above(figures), self.below(figures)
        sign = "≤" if self.most else "≥"
        if above is None or not below:
            return f"not measured   {self.text} {sign} {self.bound:g}"
        ratio = above / below
        met = ratio <= self.bound if self.most else ratio >= self.bound
        return f"{'met' if met else 'NOT MET':<14} {self.text} {sign} {self.bound:g}: {ratio:.2f}"


def cell(measurement: str, row: str, column: str) -> Cell:
    """Name a figure."""
    return lambda figures: figures.cell(measurement, row, column)


def best(measurement: str, column: str, *, least: bool = False, **which: bool) -> Cell:
    """Name the best peer's figure."""
    choose = min if least else max
    return lambda figures: choose(figures.peers(measurement, column, **which), default=None)


def number(value: float) -> Cell:
    """Name a fixed value."""
    return lambda figures: value


def spread(rows: str, column: str) -> Cell:
    """Name the dearest of a place's sizes."""
    return lambda figures: max(_sizes(figures, rows, column), default=None)


def smallest(rows: str, column: str) -> Cell:
    """Name the figure of a place's smallest size."""
    return lambda figures: next(iter(_sizes(figures, rows, column)), None)


def _sizes(figures: Figures, place: str, column: str) -> list[float]:
    return [row[column] for name, row in figures.table("growth").items() if name.endswith(f" {place}")]


def share(database: str) -> Cell:
    """Name the part of a job's time that is the queue's, in percent; none of it is 0."""

    def figure(figures: Figures) -> float | None:
        queue = figures.cell("orm", "echomq-django, 1 thread", database)
        loop = figures.cell("orm", "raw: a loop without a queue", database)
        return None if not queue or not loop else (1 - queue / loop) * 100

    return figure


HANDLER, TASK = field.HANDLER.name, field.TASK.name
ONE, TWO = "1 process", "2 processes"
DRAIN = cell("drain", HANDLER, ONE)
SINGLE, BULK = enqueue.SINGLE, enqueue.BULK
IDLE = "p50, 1 idle worker"

ASKED = (
    Target("enqueue one by one: bare EVALSHA / ours", cell("enqueue", enqueue.WIRE.name, SINGLE),
           cell("enqueue", HANDLER, SINGLE), 1.3, most=True),
    Target("enqueue of a task: bare EVALSHA / ours", cell("enqueue", enqueue.WIRE.name, SINGLE),
           cell("enqueue", TASK, SINGLE), 1.3, most=True),
    Target("enqueue_many: bare script for 500 / ours", cell("enqueue", enqueue.WIRE.name, BULK),
           cell("enqueue", HANDLER, BULK), 1.5, most=True),
    *(
        Target(f"growth, {place}: {column}, the dearest size / the smallest", spread(place, column),
               smallest(place, column), 1.3, most=True)
        for place in ("pending", "scheduled", "dead") for column in ("enqueue", "claim and complete")
    ),
    Target("memory of a worker, handler: last / first", cell("memory", HANDLER, "_growth"), number(1), 1.1, most=True),
    Target("memory of a worker, task: last / first", cell("memory", TASK, "_growth"), number(1), 1.1, most=True),
    Target("idle worker: % of CPU", cell("idle", HANDLER, "CPU, %"), number(1), 0.5, most=True),
    Target("idle worker: commands a second", cell("idle", HANDLER, "commands a second"), number(1), 2, most=True),
    Target("latency p50, 1 idle worker: ours / raw", cell("latency", HANDLER, IDLE),
           cell("latency", latency.BARE.name, IDLE), 1.5, most=True),
    Target("latency p50, 10 idle workers: ours / raw", cell("latency", HANDLER, "p50, 10 idle workers"),
           cell("latency", latency.BARE.name, "p50, 10 idle workers"), 1.5, most=True),
    Target("latency p50, 100 idle workers: ours / raw with 10", cell("latency", HANDLER, "p50, 100 idle workers"),
           cell("latency", latency.BARE.name, "p50, 10 idle workers"), 1.5, most=True),
    Target("latency p50, half loaded: ours / raw", cell("latency", HANDLER, "p50, half loaded"),
           cell("latency", latency.BARE.name, "p50, half loaded"), 1.5, most=True),
    Target("ORM on SQLite: the queue's % of the time", share("sqlite"), number(1), 10, most=True),
    Target("ORM on PostgreSQL: the queue's % of the time", share("postgresql"), number(1), 10, most=True),
    Target("1 ms of CPU: 2 processes / 1", cell("drain", f"{HANDLER}, 1 ms of CPU", TWO),
           cell("drain", f"{HANDLER}, 1 ms of CPU", ONE), 1.6),
)  # fmt: skip

TO_REACH = (
    Target("drain, handler / the fastest peer", DRAIN, best("drain", ONE), 3),
    Target("drain, handler / the fastest Django peer", DRAIN, best("drain", ONE, django=True), 5),
    Target("drain, handler / the raw loop of 32", DRAIN, cell("drain", field.RAW_BATCH.name, ONE), 0.4),
    Target("drain, task with its result kept / the fastest peer", cell("drain", TASK, ONE), best("drain", ONE), 2),
    Target("drain, handler: 2 processes / 1", cell("drain", HANDLER, TWO), DRAIN, 1.5),
    Target("enqueue one by one / the fastest peer", cell("enqueue", HANDLER, SINGLE), best("enqueue", SINGLE), 1),
    Target("enqueue in bulk / the fastest peer", cell("enqueue", HANDLER, BULK), best("enqueue", BULK), 1.3),
    Target("latency p50 / the raw wake and claim", cell("latency", HANDLER, IDLE),
           cell("latency", latency.BARE.name, IDLE), 1.3, most=True),
    Target("latency p50 / the quickest at-least-once peer", cell("latency", HANDLER, IDLE),
           best("latency", IDLE, least=True, sure=True), 1, most=True),
)  # fmt: skip


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Write all aims, those of the project last."""
    figures = Figures(results)
    for title, targets in (("Also asked", ASKED), ("To reach", TO_REACH)):
        yield ""
        yield title
        yield from (target.line(figures) for target in targets)
