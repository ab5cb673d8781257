"""What the templates of the admin ask for: the overview on any site's index of this app, our words in Django's pages.

Every project's template engine imports this module, also where there is no admin: it imports nothing of ours there.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

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


@register.filter
def ending_with(markup: SafeString, title: Any) -> SafeString:
    """Let the breadcrumbs, or the row of buttons, of Django or of a theme end with our verb and not with "Delete".

    A page of ours that asks is one of Django's that ask before a deletion: it has no others, and their breadcrumbs are
    written differently by each version and each theme. Where the word is not found they stay as they are.
    """
    for word in (gettext("Delete multiple objects"), gettext("Delete")):
        before, found, after = markup.rpartition(word)
        if found:
            return mark_safe(f"{before}{conditional_escape(title)}{after}")
    return markup


def _queues_of(request: Any) -> Any:
    """Give the ModelAdmin of the queues on the site that a request is for; None when it is none of ours."""
    view = getattr(getattr(request, "resolver_match", None), "func", None)
    site = getattr(view, "admin_site", None)
    page = site.get_model_admin(Queue) if site is not None and site.is_registered(Queue) else None
    return page if hasattr(page, "overview") else None
