"""The jobs: the list of a place, and the page of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.exceptions import InvalidId, InvalidQueueName, JobGone, PayloadError, WrongPlace
from echomq_django.ids import check_job
from echomq_django.job import Job, Location
from echomq_django.jobs import Span

from . import bulk
from .base import ServerAdmin, guarded
from .filters import ErrorFilter, PlaceFilter, QueueFilter, TaskFilter, place_of, queues_of
from .listing import Listing, shaped
from .showing import PLACE_WORDS, Shown

MOVES: dict[str, tuple[str, tuple[Location, ...], Callable[..., None], Any, Any]] = {
    # move: permission, from where, what does it, the button's and the question's words
    "requeue": ("requeue_job", (Location.DEAD,), jobs.requeue, _("Requeue"), _("Give this job a new life?")),
    "advance": ("advance_job", (Location.SCHEDULE,), jobs.advance, _("Run now"), _("Run this job now?")),
}


class JobList(ChangeList):
    """Be a change list over a place."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Listing:
        """Read the filters and say what they ask for."""
        skip = (self.filter_params.pop("skip", ["0"]) or ["0"])[-1]
        self.params.pop("skip", None)
        (self.filter_specs, self.has_filters, remaining, _dup, self.has_active_filters) = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(
            new_params={name: value for name, value in remaining.items() if not name.startswith("at__")},
            remove=self.get_filters_params(),
        )
        place = place_of(request)
        since, until = (_ms(remaining.get(f"at__{edge}")) for edge in ("gte", "lt"))
        return Listing(
            queues=queues_of(request, self.model_admin),
            place=place,
            span=Span(since, None if until is None else until - 1),
            task=request.GET.get("task", ""),
            error=request.GET.get("error", ""),
            text=self.query.strip(),
            skip=int(skip) if skip.isdigit() else 0,
            payloads=self.model_admin.may(request, "view_job_payload"),
            using=self.model_admin.using,
        )

    def get_results(self, request: HttpRequest) -> None:
        """Read one page."""
        self.result_count = self.full_result_count = self.queryset.count()
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = True
        self.multi_page = self.result_count > self.list_per_page
        self.paginator = Paginator(range(self.result_count), self.list_per_page)
        if not 1 <= self.page_num <= self.paginator.num_pages:
            raise IncorrectLookupParameters
        self.result_list = self.queryset.page((self.page_num - 1) * self.list_per_page, self.list_per_page)

    @property
    def older_query_string(self) -> str | None:
        """Give the link to what a search has not looked at; None when it has seen everything."""
        looked = self.queryset.found[1] if self.queryset.is_search else 0
        if not looked or self.queryset.skip + looked >= self.queryset.total:
            return None
        return self.get_query_string({"skip": self.queryset.skip + looked})


def _ms(value: Any) -> int | None:
    if isinstance(value, list):
        value = value[-1] if value else None
    return None if value is None else int(value.timestamp() * 1000)


class JobForm(forms.ModelForm):
    """Edit the arguments of a dead job."""

    class Meta:
        model = shapes.Job
        fields = ("arguments",)

    def _post_clean(self) -> None:
        # Not the model's own validation, which asks the database whether the key is free.
        return


class JobAdmin(ServerAdmin):
    """Browse and mend jobs."""

    form = JobForm
    change_list_template = "admin/echomq/job/change_list.html"
    change_form_template = "admin/echomq/job/change_form.html"
    list_display = ("short_id", "task", "queue", "place", "attempts", "time", "remark")
    list_display_links = ("short_id",)
    list_filter = (PlaceFilter, QueueFilter, TaskFilter, ErrorFilter)
    list_per_page = 50
    search_fields = ("key",)
    search_help_text = _("An ID finds its job at once; any other text is looked for in the latest jobs of the place.")
    date_hierarchy = "at"
    actions = ("requeue_selected", "advance_selected", "remove_selected")

    # What is shown.

    @admin.display(description=_("ID"))
    def short_id(self, shape: shapes.Job) -> str:
        """Show the id: it is short enough to be shown whole."""
        return shape.job_id

    @admin.display(description=_("task"), empty_value="—")
    def task(self, shape: shapes.Job) -> str:
        """Show the name that the producer gave the job."""
        return shape.name

    @admin.display(description=_("place"))
    def place(self, shape: shapes.Job) -> Any:
        """Show the place, in words."""
        return Shown(self, None, shape).place()

    @admin.display(description=_("attempts"))
    def attempts(self, shape: shapes.Job) -> str:
        """Show how many attempts were made, and of how many, where the row says."""
        job: Job = shape.job
        return f"{job.attempt}/{job.max_attempts}" if job.max_attempts else str(job.attempt)

    @admin.display(description=_("time"))
    def time(self, shape: shapes.Job) -> Any:
        """Show the time that matters in this place."""
        return Shown(self, None, shape).time()

    @admin.display(description=_("error or worker"), empty_value="—")
    def remark(self, shape: shapes.Job) -> str:
        """Show who runs the job, or what went wrong."""
        job: Job = shape.job
        if job.location is Location.ACTIVE:
            return job.owner.rpartition(":")[0]
        return job.last_error[:80]

    # What may be done.

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those remove who may, and only what nobody runs."""
        removable = obj is None or obj.job.location in (Location.PENDING, Location.SCHEDULE, Location.DEAD)
        return removable and self.may(request, "delete_job")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those edit who may also see what they edit, and only the dead, whose payload is JSON."""
        if obj is None or obj.job.location is not Location.DEAD:
            return False
        can = self.may(request, "change_job") and self.may(request, "view_job_payload")
        return can and Shown(self, request, obj).is_editable

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Say who may requeue."""
        return self.may(request, "requeue_job")

    def has_advance_permission(self, request: HttpRequest) -> bool:
        """Say who may run scheduled jobs now."""
        return self.may(request, "advance_job")

    # The list.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Give the list over a place."""
        return JobList

    @guarded
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show a page of a place."""
        return super().changelist_view(request, extra_context)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow the lookups of the date hierarchy; nothing is looked up in a database."""
        return lookup.startswith("at__") or lookup in ("location", "queue", "task", "error")

    # One job.

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Read a job; None when there is none, or when this user may not see its queue."""
        queue, _colon, job_id = object_id.partition(":")
        if queue not in self.get_queue_names(request):
            return None
        try:
            job = jobs.get(queue, check_job(job_id), using=self.using)
        except (InvalidId, InvalidQueueName, JobGone):
            return None
        shape = shaped(job)
        if self.may(request, "view_job_payload"):
            shape.arguments = Shown(self, request, shape).editable
        return shape

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Give the form its one field, where that may be edited; everything else is shown by the template."""
        return [(_("Edit and requeue"), {"fields": ["arguments"]})] if self.has_change_permission(request, obj) else []

    @guarded
    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show a job, and take its edited arguments."""
        shape = self.get_object(request, unquote(object_id)) if object_id else None
        buttons = [] if shape is None else self._buttons(request, shape)
        shown = None if shape is None else Shown(self, request, shape)
        context = {"buttons": buttons, "shown": shown, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def _buttons(self, request: HttpRequest, shape: shapes.Job) -> list[dict[str, Any]]:
        moves = [
            {"url": self._url(f"job_{move}", shape.pk), "title": title}
            for move, (permission, places, _do, title, _question) in MOVES.items()
            if shape.job.location in places and self.may(request, permission)
        ]
        if self.may(request, "view_job_payload"):
            moves.append({"url": self._url("job_payload", shape.pk), "title": _("Raw payload")})
        return moves

    def _url(self, name: str, *args: Any) -> str:
        return reverse(f"admin:{self.opts.app_label}_{name}", args=args, current_app=self.admin_site.name)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Requeue the job with its new arguments."""
        try:
            jobs.revise(obj.queue, obj.job_id, Shown(self, request, obj).revised(obj.arguments), using=self.using)
        except (WrongPlace, JobGone, PayloadError) as error:
            self.message_user(request, str(error), messages.ERROR)

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that Django has none for."""
        wrap = self.admin_site.admin_view
        own = [
            path(
                f"<path:object_id>/{move}/",
                wrap(self.move_view),
                {"move": move},
                name=f"{self.opts.app_label}_job_{move}",
            )
            for move in MOVES
        ]
        raw = path("<path:object_id>/payload/", wrap(self.payload_view), name=f"{self.opts.app_label}_job_payload")
        return [*own, raw, *super().get_urls()]

    @guarded
    def move_view(self, request: HttpRequest, object_id: str, move: str) -> HttpResponse:
        """Ask, and do."""
        permission, places, do, title, question = MOVES[move]
        if not self.has_view_permission(request) or not self.may(request, permission):
            raise PermissionDenied
        shape = self.get_object(request, unquote(object_id))
        if shape is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        if request.method == "POST":
            try:
                do(shape.queue, shape.job_id, using=self.using)
            except (WrongPlace, JobGone) as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.log_change(request, shape, gettext("%s: done.") % title)
                self.message_user(
                    request, gettext("%(title)s: done for job %(id)s.") % {"title": title, "id": shape.job_id}
                )
            return HttpResponseRedirect(self._url("job_change", shape.pk))
        return self._confirm(request, title, question, [shape], back=self._url("job_change", shape.pk))

    def _confirm(
        self, request: HttpRequest, title: Any, question: Any, shown: Sequence[Any], **more: Any
    ) -> HttpResponse:
        request.current_app = self.admin_site.name  # type: ignore[attr-defined]
        context = {
            **self.admin_site.each_context(request),
            "title": title, "question": question, "jobs": shown, "opts": self.opts, "media": self.media, **more,
        }  # fmt: skip
        return TemplateResponse(request, "admin/echomq/job/confirm.html", context)

    @guarded
    def payload_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Give the payload as it was stored, or as the redaction leaves it, as a file."""
        if not self.has_view_permission(request) or not self.may(request, "view_job_payload"):
            raise PermissionDenied
        shape = self.get_object(request, unquote(object_id))
        if shape is None:
            raise Http404
        body = Shown(self, request, shape).raw()
        headers = {
            "Content-Disposition": f'attachment; filename="{shape.job_id}.txt"', "X-Content-Type-Options": "nosniff",
        }  # fmt: skip
        return HttpResponse(body, content_type="text/plain; charset=utf-8", headers=headers)

    # Removal, on Django's own pages.

    @guarded
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask, and remove."""
        return super().delete_view(request, object_id, extra_context)

    @guarded
    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show what people did to a job."""
        return super().history_view(request, object_id, extra_context)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Say that nothing hangs on a job."""
        return [str(each) for each in objs], {self.opts.verbose_name_plural: len(objs)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Remove a job."""
        jobs.remove(obj.queue, obj.job_id, using=self.using)

    # Many at once.

    @admin.action(description=_("Requeue"), permissions=["requeue"])
    def requeue_selected(self, request: HttpRequest, chosen: Any) -> HttpResponse | None:
        """Give dead jobs a new life."""
        return self._many(request, chosen, "requeue_selected", _("Requeue"), jobs.requeue_many, (Location.DEAD,))

    @admin.action(description=_("Run now"), permissions=["advance"])
    def advance_selected(self, request: HttpRequest, chosen: Any) -> HttpResponse | None:
        """Run scheduled jobs now."""
        return self._many(request, chosen, "advance_selected", _("Run now"), jobs.advance_many, (Location.SCHEDULE,))

    @admin.action(description=_("Remove"), permissions=["delete"])
    def remove_selected(self, request: HttpRequest, chosen: Any) -> HttpResponse | None:
        """Remove jobs that nobody runs. All pending ones go with a queue's own action, which has its own permission."""
        places = (Location.DEAD, Location.SCHEDULE, *([] if isinstance(chosen, Listing) else [Location.PENDING]))
        return self._many(request, chosen, "remove_selected", _("Remove"), jobs.remove_many, places)

    def _many(
        self, request: HttpRequest, chosen: Any, action: str, title: Any, do: bulk.Many, places: Sequence[Location]
    ) -> HttpResponse | None:
        place, across = place_of(request), isinstance(chosen, Listing)
        if place not in places:
            words = gettext("%(title)s: not for jobs that are %(place)s. Nothing was done.")
            self.message_user(request, words % {"title": title, "place": PLACE_WORDS[place]}, messages.ERROR)
            return None
        cutoff = request.POST.get("cutoff", "")
        if not cutoff.isdigit():
            return self._ask_for_many(request, chosen, action, title, str(jobs.now_ms(using=self.using)), 0)
        if not across:
            report = bulk.selected(do, chosen.by_queue(), self.using)
            self._log_each(request, chosen, str(title))
        else:
            report = bulk.matching(do, chosen, int(cutoff))
            self._log_all(request, chosen, str(title), report.done)
        so_far = report.done + int(request.POST.get("done") or 0)
        if not report.finished:
            return self._ask_for_many(request, chosen, action, title, cutoff, so_far)
        words = ngettext("%(title)s: %(done)s job done", "%(title)s: %(done)s jobs done", so_far)
        missed = ngettext(", %s was no longer there", ", %s were no longer there", report.missed) % report.missed
        text = words % {"title": title, "done": f"{so_far:,}"} + (missed if report.missed else "") + "."
        self.message_user(request, text, messages.SUCCESS)
        return None

    def _ask_for_many(
        self, request: HttpRequest, chosen: Any, action: str, title: Any, cutoff: str, done: int
    ) -> HttpResponse:
        """Ask before the first batch, and after each request whose time was up."""
        across = isinstance(chosen, Listing)
        number = chosen.count() if not across or chosen.is_search else chosen.total
        hidden = [("action", action), ("cutoff", cutoff), ("done", done)]
        if across:
            hidden += [("select_across", "1"), ("_selected_action", "all")]
        else:
            hidden += [("_selected_action", key) for key in chosen]
        question = ngettext("%(title)s %(number)s %(place)s job?", "%(title)s %(number)s %(place)s jobs?", number) % {
            "title": title,
            "number": f"{number:,}",
            "place": PLACE_WORDS[place_of(request)],
        }
        more: dict[str, Any] = {"hidden": hidden, "back": request.get_full_path()}
        if done:
            more |= {"result": gettext("%s done so far.") % f"{done:,}", "button": _("Continue")}
        elif across:
            more["note"] = _("Jobs that come here after this page was opened are spared.")
        return self._confirm(request, title, question, [] if across else chosen, **more)

    def _log_each(self, request: HttpRequest, keys: Sequence[str], words: str) -> None:
        for key in keys:
            shape = shapes.Job(key=key, job_id=key.partition(":")[2])
            self.log_change(request, shape, words)

    def _log_all(self, request: HttpRequest, listing: Listing, words: str, number: int) -> None:
        """Write one line for each queue: a million lines would say no more."""
        for queue in listing.queues:
            text = gettext("%(words)s: %(number)s jobs that were %(place)s (%(filters)s)")
            filters = " ".join(filter(None, [listing.task, listing.error, listing.text])) or gettext("all")
            values = {"words": words, "number": number, "place": PLACE_WORDS[listing.place], "filters": filters}
            self.log_change(request, shapes.Queue(name=queue), text % values)
