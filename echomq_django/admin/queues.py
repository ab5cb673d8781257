"""The queues: how full they are, how fast they go, and whether they go."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes

from .base import Rows, ServerAdmin, WholeList, guarded
from .filters import ServerFilter


class StateFilter(ServerFilter):
    """Choose running or paused queues."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Offer both."""
        return [("running", _("running")), ("paused", _("paused"))]


class QueueAdmin(ServerAdmin):
    """Watch, pause and drain queues."""

    list_display = ("name", "pending", "active", "scheduled", "dead", "latency", "rate", "workers", "state")
    list_display_links = None
    list_filter = (StateFilter,)
    actions = ("pause_selected", "resume_selected", "drain_selected")

    def rows(self, request: HttpRequest, changelist: Any) -> list[shapes.Queue]:
        """Read the queues that this user may see."""
        state = next((each.value() for each in changelist.filter_specs), None)
        serving = [
            worker.facts.get("queues", "").split(",") for worker in jobs.workers(using=self.using) if worker.alive
        ]
        found = []
        for name in self.get_queue_names(request):
            counts = jobs.counts(name, using=self.using)
            if state in (None, "paused" if counts.paused else "running"):
                shape = shapes.Queue(name=name)
                shape.counts, shape.serving = counts, sum(name in queues for queues in serving)
                shape.age = jobs.oldest_pending_age(name, using=self.using)
                shape.minutes = jobs.minutes(name, using=self.using)
                found.append(shape)
        return found

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list of all queues."""
        return WholeList

    @guarded
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the queues."""
        return super().changelist_view(request, extra_context)

    def _jobs_link(self, shape: shapes.Queue, place: str, number: int) -> Any:
        url = reverse(f"admin:{self.opts.app_label}_job_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?location={}&amp;queue={}">{}</a>', url, place, shape.name, f"{number:,}")

    @admin.display(description=_("pending"))
    def pending(self, shape: shapes.Queue) -> Any:
        """Count the pending jobs."""
        return self._jobs_link(shape, "pending", shape.counts.pending)

    @admin.display(description=_("active"))
    def active(self, shape: shapes.Queue) -> Any:
        """Count the active jobs."""
        return self._jobs_link(shape, "active", shape.counts.active)

    @admin.display(description=_("scheduled"))
    def scheduled(self, shape: shapes.Queue) -> Any:
        """Count the scheduled jobs."""
        return self._jobs_link(shape, "schedule", shape.counts.schedule)

    @admin.display(description=_("dead"))
    def dead(self, shape: shapes.Queue) -> Any:
        """Count the dead jobs."""
        return self._jobs_link(shape, "dead", shape.counts.dead)

    @admin.display(description=_("oldest pending"), empty_value="—")
    def latency(self, shape: shapes.Queue) -> str | None:
        """Tell for how long the oldest pending job has waited."""
        return None if shape.age is None else gettext("%s s") % f"{shape.age:,.0f}"

    @admin.display(description=_("completed a minute"))
    def rate(self, shape: shapes.Queue) -> str:
        """Tell how many jobs were completed in a minute, over the last ten whole ones."""
        return f"{sum(minute.completed for minute in shape.minutes[-11:-1]) / 10:g}"

    @admin.display(description=_("workers"))
    def workers(self, shape: shapes.Queue) -> int:
        """Count the living workers that serve the queue."""
        return int(shape.serving)

    @admin.display(description=_("state"))
    def state(self, shape: shapes.Queue) -> Any:
        """Say whether jobs may be claimed."""
        return _("paused") if shape.counts.paused else _("running")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Say who may pause and resume."""
        return self.may(request, "pause_queue")

    def has_drain_permission(self, request: HttpRequest) -> bool:
        """Say who may drain."""
        return self.may(request, "drain_queue")

    @admin.action(description=_("Pause selected queues"), permissions=["pause"])
    def pause_selected(self, request: HttpRequest, chosen: Rows) -> None:
        """Let nobody claim from them."""
        self._each(request, chosen, jobs.pause, gettext("Paused."))

    @admin.action(description=_("Resume selected queues"), permissions=["pause"])
    def resume_selected(self, request: HttpRequest, chosen: Rows) -> None:
        """Let jobs be claimed again."""
        self._each(request, chosen, jobs.resume, gettext("Resumed."))

    def _each(self, request: HttpRequest, chosen: Rows, do: Any, words: str) -> None:
        for shape in chosen:
            do(shape.name, using=self.using)
            self.log_change(request, shape, words)
        self.message_user(request, f"{words} ({', '.join(shape.name for shape in chosen)})", messages.SUCCESS)

    @admin.action(description=_("Drain selected queues: delete what is pending"), permissions=["drain"])
    def drain_selected(self, request: HttpRequest, chosen: Rows) -> HttpResponse | None:
        """Ask, and delete the pending jobs."""
        if "confirmed" in request.POST:
            for shape in chosen:
                number = jobs.drain(shape.name, using=self.using)
                self.log_change(request, shape, gettext("Drained of %s jobs.") % number)
            self.message_user(request, gettext("The queues were drained."), messages.SUCCESS)
            return None
        request.current_app = self.admin_site.name  # type: ignore[attr-defined]
        number = sum(shape.counts.pending for shape in chosen)
        hidden = [
            ("action", "drain_selected"),
            ("confirmed", "yes"),
            *(("_selected_action", each.pk) for each in chosen),
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": _("Drain queues"), "opts": self.opts, "hidden": hidden, "back": request.get_full_path(),
            "question": ngettext("Delete %s pending job?", "Delete %s pending jobs?", number) % f"{number:,}",
            "jobs": chosen,
        }  # fmt: skip
        return TemplateResponse(request, "admin/echomq/job/confirm.html", context)
