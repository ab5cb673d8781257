"""What the pages of jobs, queues and workers have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import InvalidPage
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import number_format

from echomq_django import conf, connection, jobs
from echomq_django.exceptions import EchoMQError, ServerUnavailable

logger = logging.getLogger("echomq_django.admin")

View = Callable[..., HttpResponse]

RESEND_FOR = 0.5
"""Seconds for which a page asks again. A silent server costs a connection's 2 s on top: somebody waits for the page."""


def number(value: int) -> str:
    """Write a number with the separators of the user's language."""
    return number_format(value, force_grouping=True)


def whole(text: str) -> int:
    """Read a number that a form carries; what is none, or is beyond all sense, is 0."""
    return int(text) if text.isdecimal() and len(text) < 16 else 0


@contextmanager
def briefly() -> Iterator[None]:
    """Ask the server for a page: give up early."""
    with connection.resending_for(RESEND_FOR):
        yield


def guarded(view: View) -> View:
    """Answer 503 when a view of a ServerAdmin cannot reach the server.

    The response is rendered in here: filters and counts ask the server only then.
    """

    @wraps(view)
    def inner(self: ServerAdmin, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            with briefly():
                response = view(self, request, *args, **kwargs)
                return response.render() if isinstance(response, TemplateResponse) else response
        except EchoMQError as error:
            logger.warning("%s: %s", request.path, error)
            return self.unavailable(request, error)

    return inner


class ServerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's own cannot be subscribed
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
        found: QuerySet[Any] = self.model._default_manager.none()
        return found

    # What Django asks before it lets anybody do a thing.

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

    # Django's pages, none of which knows that a server may be away.

    @guarded
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list."""
        return super().changelist_view(request, extra_context)

    @guarded
    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show one of them."""
        return super().changeform_view(request, object_id, form_url, extra_context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        """Show what `about` tells, around Django's own form."""
        context |= self.about(request, obj)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def about(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Give what the page of one thing shows beside its form."""
        return {}

    @guarded
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask, and delete."""
        return super().delete_view(request, object_id, extra_context)

    @guarded
    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show what people did to it."""
        return super().history_view(request, object_id, extra_context)

    # Pages that Django has none for.

    def url(self, name: str, *args: Any, **query: str) -> str:
        """Give the way to a page of this site, such as "job_changelist"."""
        path = reverse(f"admin:{self.opts.app_label}_{name}", args=args, current_app=self.admin_site.name)
        return f"{path}?{urlencode(query)}" if query else path

    def gone(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say that there is no such thing, in Django's words."""
        answer: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined]
        return answer

    def page(self, request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> TemplateResponse:
        """Give a page in the site's own chrome."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "media": self.media,
                "object": None,
                **context,
            },
            status=status,
        )

    def unavailable(self, request: HttpRequest, error: EchoMQError) -> HttpResponse:
        """Say that the server is away; names neither host nor password."""
        context = {
            "title": self.opts.verbose_name_plural,
            "reason": reason(error),
            "is_away": isinstance(error, ServerUnavailable),
            "is_change": request.method not in ("GET", "HEAD"),
        }
        return self.page(request, "admin/echomq/unavailable.html", context, status=503).render()


def reason(error: BaseException) -> str:
    """Name the class of what was at the bottom of an error: its text may name a host."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


class WholeList(ChangeList):
    """Be a change list of a few things, all of which `rows` of the ModelAdmin gives at once."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Read the filters, and ask for what they leave."""
        (self.filter_specs, self.has_filters, remaining, _, self.has_active_filters) = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(new_params=remaining, remove=self.get_filters_params())
        page: Any = self.model_admin
        return Rows(page.rows(request, self))

    def get_results(self, request: HttpRequest) -> None:
        """Show a page of them."""
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        self.result_count = self.full_result_count = len(self.queryset)
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = True
        self.multi_page = self.result_count > self.list_per_page
        try:
            self.result_list = self.paginator.page(self.page_num).object_list
        except InvalidPage as error:
            raise IncorrectLookupParameters from error


class Rows(list[Any]):
    """Be a list that answers what an action asks of a query."""

    ordered = totally_ordered = True

    def filter(self, pk__in: Sequence[str]) -> Rows:
        """Give those that were selected."""
        return Rows(row for row in self if row.pk in set(pk__in))

    def count(self, *_: Any) -> int:
        """Count them."""
        return len(self)
