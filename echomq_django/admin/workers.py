"""The workers: who lives, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.job import Job, Location

from .base import ServerAdmin, WholeList, number, whole
from .overview import served
from .showing import NOTHING, lasting, told, visible

WINDOW = 500
"""How many active jobs the page of a worker looks at: the places do not know whose they are."""


class WorkerAdmin(ServerAdmin):
    """Watch workers."""

    list_display = ("title", "heartbeat", "load", "serves", "started")
    fields = readonly_fields = ("title", "host", "process", "heartbeat", "load", "serves", "started")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list of all workers."""
        return WholeList

    def rows(self, request: HttpRequest, changelist: Any) -> list[shapes.Worker]:
        """Read the workers that serve a queue which this user may see, the living first."""
        visible = self.get_queue_names(request)
        found = []
        for info in jobs.workers(using=self.using):
            if queues := served(info, visible):
                shape = shapes.Worker(name=info.id)
                shape.info, shape.queues = info, queues
                found.append(shape)
        return sorted(found, key=lambda shape: (not shape.info.alive, shape.name))

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> shapes.Worker | None:
        """Read a worker; None when there is none, or it serves no queue that this user may see."""
        return next((shape for shape in self.rows(request, None) if shape.name == object_id), None)

    # What is shown.

    @admin.display(description=_("name"))
    def title(self, shape: shapes.Worker) -> str:
        """Name the worker."""
        return visible(shape.name)

    @admin.display(description=_("host"))
    def host(self, shape: shapes.Worker) -> str:
        """Name the machine."""
        return _fact(shape, "host")

    @admin.display(description=_("process"))
    def process(self, shape: shapes.Worker) -> str:
        """Name the process on that machine."""
        return _fact(shape, "pid")

    @admin.display(description=_("queues"))
    def serves(self, shape: shapes.Worker) -> str:
        """Name the queues that it serves."""
        return ", ".join(shape.queues)

    @admin.display(description=_("busy"))
    def load(self, shape: shapes.Worker) -> str:
        """Tell how many jobs it runs, of how many at most."""
        words = {"busy": _fact(shape, "busy"), "most": _fact(shape, "concurrency")}
        return gettext("%(busy)s of %(most)s") % words

    @admin.display(description=_("last heartbeat"))
    def heartbeat(self, shape: shapes.Worker) -> str:
        """Tell how long it has been silent, and what that means."""
        age = lasting(shape.info.silent_ms / 1000)
        return (gettext("%s ago") if shape.info.alive else gettext("%s ago: stale")) % age

    @admin.display(description=_("started"))
    def started(self, shape: shapes.Worker) -> str:
        """Tell since when it runs."""
        return told(whole(shape.info.facts.get("started_at", "")) or None)

    # The page of one worker.

    def about(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Show a worker, and to those who may see jobs, what it runs."""
        if not self.may(request, "view_job"):
            return {}
        looked, complete = self._active(obj.queues)
        return {
            "running": [self._line(job) for job in looked if job.worker == obj.name],
            "looked": number(len(looked)),
            "is_complete": complete,
        }

    def _active(self, queues: Sequence[str]) -> tuple[list[Job], bool]:
        """Read active jobs, those first whose lease ends first; and whether these are all."""
        looked: list[Job] = []
        for queue in queues:
            looked += jobs.browse(queue, Location.ACTIVE, 0, WINDOW - len(looked), using=self.using)
            if len(looked) == WINDOW:
                return looked, False
        return looked, True

    def _line(self, job: Job) -> dict[str, str]:
        return {
            "url": self.url("job_change", quote(f"{job.queue}:{job.id}")),
            "id": job.id,
            "name": visible(job.name) or NOTHING,
            "queue": job.queue,
            "started": told(job.started_at),
        }


def _fact(shape: shapes.Worker, name: str) -> str:
    return visible(shape.info.facts.get(name, "")) or NOTHING
