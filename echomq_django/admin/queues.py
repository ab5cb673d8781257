"""The queues: how full they are, how fast they go, and whether they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.job import Location

from .base import Rows, ServerAdmin, WholeList, guarded, number
from .draining import DRAIN, drain
from .filters import ServerFilter
from .overview import overview, served, waiting
from .showing import NOTHING, PLACE_WORDS, lasting

FACTS = ("state", "pending", "active", "scheduled", "dead", "latency", "rate", "workers")


@dataclass(frozen=True)
class Switch:
    """Hold what pausing and resuming do not share."""

    do: Callable[..., None]
    title: Any
    question: Any
    done: Any


SWITCHES = {
    "pause": Switch(
        jobs.pause,
        _("Pause"),
        _("Let nobody claim jobs of this queue until it is resumed? What is active goes on."),
        _("Paused: %s."),
    ),
    "resume": Switch(jobs.resume, _("Resume"), _("Let jobs of this queue be claimed again?"), _("Resumed: %s.")),
}


class StateFilter(ServerFilter):
    """Choose running or paused queues."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer both."""
        return [("running", _("running")), ("paused", _("paused"))]


class QueueAdmin(ServerAdmin):
    """Watch, pause and drain queues."""

    list_display = ("name", *FACTS)
    list_filter = (StateFilter,)
    fields = readonly_fields = ("name", *FACTS)
    actions = ("pause_selected", "resume_selected", "drain_selected")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list of all queues."""
        return WholeList

    def rows(self, request: HttpRequest, changelist: Any) -> list[shapes.Queue]:
        """Read the queues that this user may see."""
        state = next((each.value() for each in changelist.filter_specs), None)
        found = self._read(request, self.get_queue_names(request))
        return [shape for shape in found if state in (None, "paused" if shape.counts.paused else "running")]

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> shapes.Queue | None:
        """Read a queue; None when there is none, or this user may not see it."""
        return next(
            iter(self._read(request, [each for each in self.get_queue_names(request) if each == object_id])), None
        )

    def _read(self, request: HttpRequest, names: Sequence[str]) -> list[shapes.Queue]:
        workers = [worker for worker in jobs.workers(using=self.using) if worker.alive]
        linked = self.may(request, "view_job")
        found = []
        for name in names:
            shape = shapes.Queue(name=name)
            shape.counts = jobs.counts(name, using=self.using)
            shape.age = waiting(name, shape.counts.pending, self.using)
            shape.minutes = jobs.minutes(name, using=self.using)
            shape.serving = sum(bool(served(worker, [name])) for worker in workers)
            shape.jobs_url = self.url("job_changelist", queue=name) if linked else ""
            found.append(shape)
        return found

    def overview(self, request: HttpRequest) -> dict[str, Any]:
        """Read what the index page of the app shows to this user."""
        return overview(self, request)

    # What is shown.

    @admin.display(description=PLACE_WORDS[Location.PENDING])
    def pending(self, shape: shapes.Queue) -> str:
        """Count the pending jobs."""
        return _jobs(shape, Location.PENDING)

    @admin.display(description=PLACE_WORDS[Location.ACTIVE])
    def active(self, shape: shapes.Queue) -> str:
        """Count the active jobs."""
        return _jobs(shape, Location.ACTIVE)

    @admin.display(description=PLACE_WORDS[Location.SCHEDULE])
    def scheduled(self, shape: shapes.Queue) -> str:
        """Count the scheduled jobs."""
        return _jobs(shape, Location.SCHEDULE)

    @admin.display(description=PLACE_WORDS[Location.DEAD])
    def dead(self, shape: shapes.Queue) -> str:
        """Count the dead jobs."""
        return _jobs(shape, Location.DEAD)

    @admin.display(description=_("oldest pending"))
    def latency(self, shape: shapes.Queue) -> str:
        """Tell for how long the oldest pending job has waited."""
        return NOTHING if shape.age is None else lasting(shape.age)

    @admin.display(description=_("completed a minute"))
    def rate(self, shape: shapes.Queue) -> str:
        """Tell how many jobs were completed in a minute, over the last ten whole ones."""
        return number_format(sum(minute.completed for minute in shape.minutes[-11:-1]) / 10, 1, force_grouping=True)

    @admin.display(description=_("workers"))
    def workers(self, shape: shapes.Queue) -> str:
        """Count the living workers that serve the queue."""
        return number(shape.serving)

    @admin.display(description=_("state"))
    def state(self, shape: shapes.Queue) -> Any:
        """Say whether jobs may be claimed."""
        return _("paused") if shape.counts.paused else _("running")

    # What may be done.

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Say who may pause and resume."""
        return self.may(request, "pause_queue")

    def has_drain_permission(self, request: HttpRequest) -> bool:
        """Say who may drain."""
        return self.may(request, "drain_queue")

    @admin.action(description=_("Pause selected queues"), permissions=["pause"])
    def pause_selected(self, request: HttpRequest, chosen: Rows) -> None:
        """Let nobody claim from them."""
        self._switch(request, chosen, SWITCHES["pause"])

    @admin.action(description=_("Resume selected queues"), permissions=["pause"])
    def resume_selected(self, request: HttpRequest, chosen: Rows) -> None:
        """Let jobs be claimed again."""
        self._switch(request, chosen, SWITCHES["resume"])

    @admin.action(description=_("Drain selected queues: remove what is pending"), permissions=["drain"])
    def drain_selected(self, request: HttpRequest, chosen: Rows) -> HttpResponse | None:
        """Ask, and remove the pending jobs."""
        return drain(self, request, chosen, {"back": self.url("queue_changelist")})

    def _switch(self, request: HttpRequest, chosen: Sequence[shapes.Queue], switch: Switch) -> None:
        for shape in chosen:
            switch.do(shape.name, using=self.using)
            self.log_change(request, shape, switch.done % shape.name)
        self.message_user(request, switch.done % ", ".join(shape.name for shape in chosen), messages.SUCCESS)

    # The page of one queue.

    def about(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Show a queue, and what may be done with it."""
        keys = []
        if self.has_pause_permission(request):
            keys.append("resume" if obj.counts.paused else "pause")
        if self.has_drain_permission(request):
            keys.append("drain")
        titles = {**{key: switch.title for key, switch in SWITCHES.items()}, "drain": DRAIN}
        return {"buttons": [{"url": self.url(f"queue_{key}", quote(obj.pk)), "title": titles[key]} for key in keys]}

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that ask before a queue is paused, resumed or drained."""
        wrap = self.admin_site.admin_view
        own = [
            path(
                f"<path:object_id>/{key}/", wrap(self.ask_view), {"key": key}, name=f"{self.opts.app_label}_queue_{key}"
            )
            for key in (*SWITCHES, "drain")
        ]
        return [*own, *super().get_urls()]

    @guarded
    def ask_view(self, request: HttpRequest, object_id: str, key: str) -> HttpResponse:
        """Ask, and do."""
        may = self.has_drain_permission(request) if key == "drain" else self.has_pause_permission(request)
        if not (may and self.has_view_permission(request)):
            raise PermissionDenied
        shape = self.get_object(request, unquote(object_id))
        if shape is None:
            return self.gone(request, object_id)
        back = self.url("queue_change", object_id)
        context = {"object": shape, "back": back}
        if key == "drain":
            return drain(self, request, [shape], context) or HttpResponseRedirect(back)
        if request.method == "POST":
            self._switch(request, [shape], SWITCHES[key])
            return HttpResponseRedirect(back)
        context |= {"title": SWITCHES[key].title, "question": SWITCHES[key].question, "jobs": [shape]}
        return self.page(request, "admin/echomq/job/confirm.html", context)


def _jobs(shape: shapes.Queue, place: Location) -> str:
    count = number(getattr(shape.counts, place.value))
    if not shape.jobs_url:
        return count
    return format_html('<a href="{}&amp;location={}">{}</a>', shape.jobs_url, place.value, count)
