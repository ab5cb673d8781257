"""What the overview shows: the places, the oldest pending job, the workers, and the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from echomq_django import jobs

CHART_HEIGHT = 100
BAR = 10


@dataclass(frozen=True)
class Bar:
    """Hold one minute of the chart: where it is drawn, and how high its two parts are."""

    x: int
    completed: float
    failed: float

    @property
    def completed_y(self) -> float:
        """Give where the upper part begins."""
        return CHART_HEIGHT - self.completed - self.failed

    @property
    def failed_y(self) -> float:
        """Give where the lower part begins."""
        return CHART_HEIGHT - self.failed


@dataclass(frozen=True)
class Overview:
    """Hold the numbers of all queues that somebody may see."""

    places: dict[str, int]
    oldest: float | None
    alive: int
    stale: int
    paused: Sequence[str]
    completed: int
    failed: int
    bars: Sequence[Bar]

    @property
    def width(self) -> int:
        """Give the width of the chart."""
        return len(self.bars) * BAR


def overview(queues: Sequence[str], using: str) -> Overview:
    """Read everything once."""
    counts = {queue: jobs.counts(queue, using=using) for queue in queues}
    ages = [age for queue in queues if (age := jobs.oldest_pending_age(queue, using=using)) is not None]
    visible = set(queues)
    workers = [each for each in jobs.workers(using=using) if visible & set(each.facts.get("queues", "").split(","))]
    hours = [jobs.minutes(queue, using=using) for queue in queues]
    minutes = [(sum(one.completed for one in row), sum(one.failed for one in row)) for row in zip(*hours, strict=True)]
    most = max((completed + failed for completed, failed in minutes), default=0) or 1
    return Overview(
        places={
            place: sum(getattr(each, place) for each in counts.values())
            for place in ("pending", "active", "schedule", "dead")
        },
        oldest=max(ages, default=None),
        alive=sum(each.alive for each in workers),
        stale=sum(not each.alive for each in workers),
        paused=[queue for queue, each in counts.items() if each.paused],
        completed=sum(completed for completed, _ in minutes),
        failed=sum(failed for _, failed in minutes),
        bars=[
            Bar(at * BAR, completed / most * CHART_HEIGHT, failed / most * CHART_HEIGHT)
            for at, (completed, failed) in enumerate(minutes)
        ],
    )
