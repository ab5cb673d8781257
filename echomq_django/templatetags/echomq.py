"""The overview, on the index page of this app in any admin site.

Every project's template engine imports this module, also where there is no admin: it imports nothing of ours there.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context

from echomq_django.exceptions import EchoMQError
from echomq_django.models import Queue

register = template.Library()


@register.inclusion_tag("admin/echomq/overview.html", takes_context=True)
def echomq_overview(context: Context) -> dict[str, Any]:
    """Show the tiles and the last hour, to those who may see queues."""
    request = context.get("request")
    page = _queues_of(request)
    if page is None or not page.has_view_permission(request):
        return {}
    try:
        found: dict[str, Any] = page.overview(request)
    except EchoMQError:
        return {"is_away": True}
    return found


def _queues_of(request: Any) -> Any:
    """Give the ModelAdmin of the queues on the site that a request is for; None when it is none of ours."""
    view = getattr(getattr(request, "resolver_match", None), "func", None)
    site = getattr(view, "admin_site", None)
    page = site.get_model_admin(Queue) if site is not None and site.is_registered(Queue) else None
    return page if hasattr(page, "overview") else None
