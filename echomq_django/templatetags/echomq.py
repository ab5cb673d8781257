"""The overview, on the index page of this app in any admin site."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin.sites import all_sites
from django.template import Context

from echomq_django.admin.overview import Overview, overview
from echomq_django.exceptions import EchoMQError
from echomq_django.models import Queue

register = template.Library()


@register.inclusion_tag("admin/echomq/overview.html", takes_context=True)
def echomq_overview(context: Context) -> dict[str, Any]:
    """Show the tiles and the last hour, to those who may see queues and jobs."""
    request = context["request"]
    site = next((site for site in all_sites if site.name == getattr(request, "current_app", None)), None)
    page = site.get_model_admin(Queue) if site is not None and site.is_registered(Queue) else None
    if page is None or not page.has_view_permission(request):
        return {"overview": None, "is_away": False}
    try:
        found: Overview | None = overview(page.get_queue_names(request), page.using)
    except EchoMQError:
        return {"overview": None, "is_away": True}
    return {"overview": found, "is_away": False, "site": site.name if site else ""}
