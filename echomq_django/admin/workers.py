"""The workers: who lives, and what they do."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes

from .base import ServerAdmin, WholeList, guarded
from .showing import told


class WorkerAdmin(ServerAdmin):
    """Watch workers."""

    list_display = ("name", "queues", "load", "heartbeat", "started")
    list_display_links = None

    def rows(self, request: HttpRequest, changelist: Any) -> list[shapes.Worker]:
        """Read the workers that serve a queue which this user may see."""
        visible = set(self.get_queue_names(request))
        found = []
        for info in jobs.workers(using=self.using):
            if visible & set(info.facts.get("queues", "").split(",")):
                shape = shapes.Worker(name=info.id)
                shape.info = info
                found.append(shape)
        return found

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list of all workers."""
        return WholeList

    @guarded
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the workers."""
        return super().changelist_view(request, extra_context)

    @admin.display(description=_("queues"))
    def queues(self, shape: shapes.Worker) -> str:
        """Name the queues that it serves."""
        return str(shape.info.facts.get("queues", "")).replace(",", ", ")

    @admin.display(description=_("busy"))
    def load(self, shape: shapes.Worker) -> str:
        """Tell how many jobs it runs, of how many at most."""
        facts = shape.info.facts
        return f"{facts.get('busy', '?')}/{facts.get('concurrency', '?')}"

    @admin.display(description=_("last heartbeat"))
    def heartbeat(self, shape: shapes.Worker) -> str:
        """Tell how long it has been silent, and what that means."""
        seconds = shape.info.silent_ms // 1000
        words = gettext("%s s ago") % f"{seconds:,}"
        return words if shape.info.alive else gettext("%s: stale") % words

    @admin.display(description=_("started"))
    def started(self, shape: shapes.Worker) -> str:
        """Tell since when it runs."""
        since = shape.info.facts.get("started_at", "")
        return told(int(since)) if since.isdigit() else "—"
