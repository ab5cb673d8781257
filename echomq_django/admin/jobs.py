"""The jobs: the list of a place, and the page of one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.exceptions import InvalidId, InvalidQueueName, JobGone, WrongPlace
from echomq_django.ids import check_job
from echomq_django.job import Location

from . import columns, hollow, many, one
from .arguments import Arguments, redaction
from .base import ServerAdmin, guarded
from .changelist import PARAMETERS, JobList
from .editing import JobForm
from .exporting import export
from .filters import ErrorFilter, PlaceFilter, QueueFilter, TaskFilter, asked
from .listing import shaped
from .moves import ADVANCE, REMOVABLE, REMOVE, REQUEUE, Move, NotMoved, place_of
from .page import JobPage

ACTIONS = {"requeue_selected": REQUEUE, "advance_selected": ADVANCE, "remove_selected": REMOVE}


class JobAdmin(ServerAdmin):
    """Browse and mend jobs."""

    form = JobForm
    change_list_template = "admin/echomq/job/change_list.html"
    change_form_template = "admin/echomq/job/change_form.html"
    delete_confirmation_template = one.CONFIRM
    # What matters first: in a window that is not wide the last ones are out of sight.
    list_display = (
        columns.short_id, columns.task, columns.remark, columns.time, columns.attempts, "queue", columns.place
    )  # fmt: skip
    list_display_links = (columns.short_id,)
    list_filter = (PlaceFilter, QueueFilter, TaskFilter, ErrorFilter)
    list_per_page = 50
    search_fields = ("key",)
    text_search = True
    """Whether the search looks for any text, or for ids only."""
    search_help_text = _("An ID finds its job at once; any other text is looked for in the first jobs of the place.")
    date_hierarchy = "at"
    actions = (*ACTIONS, "export_selected")

    # What may be done.

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Say who may remove; the script says from where."""
        return self.may(request, "delete_job")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those edit who may also see what they edit, and only the dead whose arguments a form can hold."""
        if not (self.may(request, "change_job") and self.may(request, "view_job_payload")):
            return False
        return obj is None or (obj.job.location is Location.DEAD and obj.arguments is not None)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Say who may requeue."""
        return self.may(request, REQUEUE.permission)

    def has_advance_permission(self, request: HttpRequest) -> bool:
        """Say who may run scheduled jobs now."""
        return self.may(request, ADVANCE.permission)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow what the sidebar and the date hierarchy write; nothing is looked up in a database."""
        return lookup in PARAMETERS

    # The list.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list over a place."""
        return JobList

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Offer what can be done in the place; one that was chosen on an older page is answered in words."""
        actions = super().get_actions(request, action_location)
        if request.method == "POST" or request.GET.get("q"):
            return actions
        place = asked(request, self).place
        return {
            name: action for name, action in actions.items() if name not in ACTIONS or place in ACTIONS[name].places
        }

    @admin.action(description=_("Requeue"), permissions=["requeue"])
    def requeue_selected(self, request: HttpRequest, chosen: many.Chosen) -> HttpResponse | None:
        """Give dead jobs a new life."""
        return many.run(self, request, "requeue_selected", REQUEUE, chosen)

    @admin.action(description=_("Run now"), permissions=["advance"])
    def advance_selected(self, request: HttpRequest, chosen: many.Chosen) -> HttpResponse | None:
        """Run scheduled jobs now."""
        return many.run(self, request, "advance_selected", ADVANCE, chosen)

    @admin.action(description=_("Remove"), permissions=["delete"])
    def remove_selected(self, request: HttpRequest, chosen: many.Chosen) -> HttpResponse | None:
        """Remove jobs that nobody runs."""
        return many.run(self, request, "remove_selected", REMOVE, chosen)

    @admin.action(description=_("Export as JSON Lines"), permissions=["view"])
    def export_selected(self, request: HttpRequest, chosen: many.Chosen) -> StreamingHttpResponse:
        """Give jobs as a file."""
        return export(self, request, chosen)

    # One job.

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> shapes.Job | None:
        """Read a job; None when there is none, or when this user may not see its queue."""
        queue, _colon, job_id = object_id.partition(":")
        if queue not in asked(request, self).names:
            return None
        try:
            job = hollow.read(queue, check_job(job_id), self.using)
        except (InvalidId, InvalidQueueName):
            return None
        if job is None:
            return None
        shape = shaped(job)
        contents = self._contents(shape)
        shape.arguments = contents.value if contents.is_editable else None
        return shape

    def _contents(self, shape: shapes.Job) -> Arguments:
        return Arguments(shape.job, redaction(self.using))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Give the form its one field, where that may be edited; everything else is shown by the template."""
        if not self.has_change_permission(request, obj):
            return []
        words = _("Saving gives this dead job the arguments below, and a new life.")
        return [(_("Edit and requeue"), {"fields": ["arguments"], "description": words})]

    @guarded
    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show a job, and take its edited arguments."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except NotMoved as error:  # it left while it was edited, and nothing was logged
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Requeue the job with its new arguments."""
        try:
            jobs.revise(obj.queue, obj.job_id, form.payload, using=self.using)
        except (WrongPlace, JobGone) as error:
            word = "elsewhere" if isinstance(error, WrongPlace) else "gone"
            raise NotMoved(REQUEUE.refusal(word, obj.job_id)) from error

    def about(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Show what is known of a job, and what may be done with it."""
        job = obj.job
        alike = self.url("job_changelist", location="dead", queue=job.queue, error=job.error_head)
        return {
            "buttons": one.buttons(self, request, obj),
            "shown": JobPage(job, self._contents(obj), self.using, self.may(request, "view_job_payload"), alike),
            "show_delete": job.location in REMOVABLE,
            "show_save_and_continue": False,
        }

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that Django has none for."""
        wrap, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_job"
        own = [
            path(f"<path:object_id>/{name}/", wrap(self.move_view), {"move": move}, name=f"{prefix}_{name}")
            for name, move in one.MOVES.items()
        ]
        raw = path("<path:object_id>/payload/", wrap(self.payload_view), name=f"{prefix}_payload")
        return [*own, raw, *super().get_urls()]

    def _asked_for(self, request: HttpRequest, object_id: str, permission: str) -> shapes.Job | None:
        if not (self.has_view_permission(request) and self.may(request, permission)):
            raise PermissionDenied
        return self.get_object(request, unquote(object_id))

    @guarded
    def move_view(self, request: HttpRequest, object_id: str, move: Move) -> HttpResponse:
        """Ask, and do."""
        shape = self._asked_for(request, object_id, move.permission)
        return self.gone(request, object_id) if shape is None else one.run(self, request, shape, move)

    @guarded
    def payload_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give the payload as it was stored, or as the redaction leaves it, as a file."""
        shape = self._asked_for(request, object_id, "view_job_payload")
        if shape is None:
            return self.gone(request, object_id)
        # A browser must neither show it nor guess what it is.
        headers = {
            "Content-Disposition": f'attachment; filename="{shape.job_id}.txt"',
            "X-Content-Type-Options": "nosniff",
        }
        return HttpResponse(self._contents(shape).raw(), content_type="text/plain; charset=utf-8", headers=headers)

    # Removal, by Django's own view, in our words.

    @guarded
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask, and remove."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except NotMoved as error:  # and the line that Django wrote of it was rolled back
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(self.url("job_changelist"))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Say that nothing hangs on a job."""
        return [str(each) for each in objs], {self.opts.verbose_name_plural: len(objs)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Remove a job from the place that the page showed."""
        REMOVE.one(obj.job, self.using, place_of(request.POST.get("seen", "")))

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        """Ask as the other moves do."""
        shape = context["object"]
        hidden = [("post", "yes"), ("seen", shape.job.location or "")]
        context |= {**one.question(self, shape, REMOVE), "hidden": hidden}
        return super().render_delete_form(request, context)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Tell that it was removed, and go back to the list as it was."""
        self.message_user(request, f"{REMOVE.done}: {obj_display}.", messages.SUCCESS)
        preserved: dict[str, Any] = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return HttpResponseRedirect(add_preserved_filters(preserved, self.url("job_changelist")))
