"""What the overview shows: the places, the oldest pending job, the workers, and the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext, ngettext

from echomq_django import jobs
from echomq_django.job import Location
from echomq_django.jobs import Minute, WorkerInfo

from .base import ServerAdmin, briefly, number
from .showing import NOTHING, PLACE_WORDS, lasting

CHART_HEIGHT = 100
BAR = 10


@dataclass(frozen=True)
class Bar:
    """Hold one minute of the chart: where it is drawn, and how high its two parts are. Whole numbers."""

    x: int
    completed: int
    failed: int

    @property
    def completed_y(self) -> int:
        """Give where the upper part begins."""
        return CHART_HEIGHT - self.completed - self.failed

    @property
    def failed_y(self) -> int:
        """Give where the lower part begins."""
        return CHART_HEIGHT - self.failed


@dataclass(frozen=True)
class Overview:
    """Hold the numbers of all queues that somebody may see."""

    places: dict[Location, int]
    oldest: tuple[float, str] | None
    """For how many seconds the oldest pending job has waited, and in which queue."""
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


def overview(page: ServerAdmin, request: HttpRequest) -> dict[str, Any]:
    """Give the template what a user sees of all queues that he may see."""
    with briefly():
        found = read(page.get_queue_names(request), page.using)
    return {"overview": found, "tiles": tiles(found, page, request), "caption": caption(found)}


def tiles(found: Overview, page: ServerAdmin, request: HttpRequest) -> list[dict[str, str]]:
    """Write the tiles: a link leads to where the user may go."""
    see_jobs, see_workers = page.may(request, "view_job"), page.may(request, "view_worker")

    def tile(value: str, title: str, url: str, note: str = "") -> dict[str, str]:
        return {"value": value, "title": title, "url": url, "note": note}

    def place(location: Location) -> dict[str, str]:
        url = page.url("job_changelist", location=location.value) if see_jobs else ""
        return tile(number(found.places[location]), str(PLACE_WORDS[location]), url)

    age, queue = found.oldest or (None, "")
    stale = ngettext("%s stale", "%s stale", found.stale) % number(found.stale) if found.stale else ""
    oldest_url = page.url("job_changelist", location=Location.PENDING.value, queue=queue) if queue and see_jobs else ""
    return [
        *map(place, (Location.PENDING, Location.ACTIVE, Location.SCHEDULE, Location.DEAD)),
        tile(NOTHING if age is None else lasting(age), gettext("oldest pending"), oldest_url, queue),
        tile(
            number(found.alive),
            ngettext("worker alive", "workers alive", found.alive),
            page.url("worker_changelist") if see_workers else "",
            stale,
        ),
        tile(
            number(len(found.paused)),
            ngettext("paused queue", "paused queues", len(found.paused)),
            page.url("queue_changelist", state="paused"),
            ", ".join(found.paused),
        ),
    ]


def caption(found: Overview) -> str:
    """Say in words what the chart shows."""
    done = ngettext("%s job completed", "%s jobs completed", found.completed) % number(found.completed)
    failed = ngettext("%s attempt failed", "%s attempts failed", found.failed) % number(found.failed)
    words = {"completed": done, "failed": failed}
    return gettext("The last 60 minutes: %(completed)s (the upper part of a bar), %(failed)s (the lower).") % words


def read(queues: Sequence[str], using: str) -> Overview:
    """Read everything once."""
    counts = {queue: jobs.counts(queue, using=using) for queue in queues}
    ages = [(age, queue) for queue, each in counts.items() if (age := waiting(queue, each.pending, using)) is not None]
    workers = [each for each in jobs.workers(using=using) if served(each, queues)]
    hours = [jobs.minutes(queue, using=using) for queue in queues]
    minutes = [_together(row) for row in zip(*hours, strict=False)]
    return Overview(
        places={place: sum(getattr(each, place.value) for each in counts.values()) for place in Location},
        oldest=max(ages, default=None),
        alive=sum(each.alive for each in workers),
        stale=sum(not each.alive for each in workers),
        paused=[queue for queue, each in counts.items() if each.paused],
        completed=sum(completed for completed, _ in minutes),
        failed=sum(failed for _, failed in minutes),
        bars=bars(minutes),
    )


def waiting(queue: str, pending: int, using: str) -> float | None:
    """Give the age of the oldest pending job; an empty queue is not asked, for the answer takes 200 commands."""
    return jobs.oldest_pending_age(queue, using=using) if pending else None


def served(worker: WorkerInfo, queues: Sequence[str]) -> list[str]:
    """Give the queues that a worker serves, of those that somebody may see."""
    names = worker.facts.get("queues", "").split(",")
    return [queue for queue in queues if queue in names]


def bars(minutes: Sequence[tuple[int, int]]) -> list[Bar]:
    """Draw the minutes, the highest as high as the chart; what is not nothing can be seen."""
    most = max((completed + failed for completed, failed in minutes), default=0)
    return [Bar(at * BAR, *_heights(completed, failed, most)) for at, (completed, failed) in enumerate(minutes)]


def _heights(completed: int, failed: int, most: int) -> tuple[int, int]:
    if not completed + failed:
        return 0, 0
    whole = max((completed + failed) * CHART_HEIGHT // most, bool(completed) + bool(failed))
    part = min(max(whole * failed // (completed + failed), bool(failed)), whole - bool(completed))
    return whole - part, part


def _together(row: Sequence[Minute]) -> tuple[int, int]:
    return sum(minute.completed for minute in row), sum(minute.failed for minute in row)
