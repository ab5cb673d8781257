"""What the pages of jobs, queues and workers have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from echomq_django import conf, jobs
from echomq_django.exceptions import EchoMQError, ServerUnavailable

View = Callable[..., HttpResponse]


class ServerAdmin(admin.ModelAdmin[Any]):
    """Be the admin of something that lives at the server: shown in lists of our own, never stored through Django."""

    using = conf.DEFAULT_ALIAS
    """The server in ECHOMQ whose queues are shown."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    actions_selection_counter = True

    class Media:
        css = {"all": ("echomq/admin.css",)}

    def get_queue_names(self, request: HttpRequest) -> Sequence[str]:
        """Give the queues that this user may see; override it to show each team its own."""
        return jobs.queues(using=self.using)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Find nothing: what is shown comes from the server."""
        return self.model._default_manager.none()

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """Let nobody add: jobs are enqueued by the application."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let nobody edit, unless a page says otherwise."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let nobody delete, unless a page says otherwise."""
        return False

    def may(self, request: HttpRequest, action: str) -> bool:
        """Say whether the user has a permission of ours, such as "requeue_job"."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.{action}"))

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Leave out Django's own deletion, which writes a field into the page for each job of millions."""
        # Django 6.1 asks with a place, and is deprecated to be answered without.
        more = () if action_location is None else (action_location,)
        actions: dict[str, Any] = super().get_actions(request, *more)
        actions.pop("delete_selected", None)
        return actions

    def unavailable(self, request: HttpRequest, error: EchoMQError) -> HttpResponse:
        """Say that the server is away, in the site's own chrome; names neither host nor password."""
        request.current_app = self.admin_site.name  # type: ignore[attr-defined]
        context = {
            **self.admin_site.each_context(request),
            "title": self.opts.verbose_name_plural,
            "opts": self.opts,
            "reason": type(error).__name__,
            "is_away": isinstance(error, ServerUnavailable),
        }
        return TemplateResponse(request, "admin/echomq/unavailable.html", context, status=503).render()


def guarded(view: View) -> View:
    """Answer 503 when a view of a ServerAdmin cannot reach the server.

    The response is rendered in here: filters and counts ask the server only then.
    """

    @wraps(view)
    def inner(self: ServerAdmin, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(self, request, *args, **kwargs)
            return response.render() if isinstance(response, TemplateResponse) else response
        except EchoMQError as error:
            return self.unavailable(request, error)

    return inner


class WholeList(ChangeList):
    """Be a change list of few things, all of which `rows` of the ModelAdmin gives at once."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Read the filters, and ask for what they leave."""
        (self.filter_specs, self.has_filters, remaining, _, self.has_active_filters) = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(new_params=remaining, remove=self.get_filters_params())
        return Rows(self.model_admin.rows(request, self))

    def get_results(self, request: HttpRequest) -> None:
        """Show them all, on one page."""
        self.result_list = self.queryset
        self.result_count = self.full_result_count = len(self.queryset)
        self.show_full_result_count = self.multi_page = self.can_show_all = False
        self.show_admin_actions = True
        self.paginator = self.model_admin.get_paginator(request, self.queryset, max(len(self.queryset), 1))


class Rows(list[Any]):
    """Be a list that answers what an action asks of a query."""

    def filter(self, pk__in: Sequence[str]) -> Rows:
        """Give those that were selected."""
        return Rows(row for row in self if row.pk in set(pk__in))
