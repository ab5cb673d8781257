"""Drain queues: ask first, and go on asking when there is more than one request can remove."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from echomq_django import jobs, models
from echomq_django.job import Location

from .base import ServerAdmin, number, whole

DRAIN = _("Drain")

SECONDS = 5.0
"""How long one request drains before it asks to go on."""

STEP = 5_000
"""How many jobs are removed between two looks at the clock."""


def drain(
    page: ServerAdmin, request: HttpRequest, chosen: Sequence[models.Queue], context: dict[str, Any]
) -> HttpResponse | None:
    """Ask, and remove as many jobs as were pending when that was asked; ask to go on when the time is up.

    `context` is what the page that asks has to know beside: the way back, and whose page it is.
    """
    if "confirmed" not in request.POST:
        return _ask(page, request, {shape.name: shape.counts.pending for shape in chosen}, context)
    end, left, total = time.monotonic() + SECONDS, {}, 0
    for shape in chosen:
        bound = whole(request.POST.get(f"number-{shape.name}", ""))
        done, left[shape.name] = _drain(page, request, shape, bound, end)
        total += done
    words = ngettext("%s pending job was removed.", "%s pending jobs were removed.", total) % number(total)
    page.message_user(request, words, messages.SUCCESS)
    return _ask(page, request, left, context) if any(left.values()) else None


def _drain(page: ServerAdmin, request: HttpRequest, shape: models.Queue, bound: int, end: float) -> tuple[int, int]:
    """Remove the first pending jobs until the time is up: how many, and how many are left."""
    done, gone = 0, 1
    try:
        while gone and done < bound and time.monotonic() < end:
            gone = jobs.remove_all(shape.name, Location.PENDING, limit=min(bound - done, STEP), using=page.using)
            done += gone
    finally:  # what was removed before the server went away is in the history too
        if done:
            words = ngettext("Drained of %s job.", "Drained of %s jobs.", done) % number(done)
            page.log_change(request, shape, words)
    return done, bound - done if gone else 0


def _ask(page: ServerAdmin, request: HttpRequest, bounds: dict[str, int], context: dict[str, Any]) -> HttpResponse:
    total = sum(bounds.values())
    asking = {
        **context,
        "title": DRAIN,
        "question": ngettext("Remove %s pending job?", "Remove %s pending jobs?", total) % number(total),
        "note": _("Active, scheduled and dead jobs stay, and so do those that come later."),
        "jobs": [f"{name}: {number(bound)}" for name, bound in bounds.items()],
        "hidden": [
            ("action", "drain_selected"),
            ("confirmed", "yes"),
            *(("_selected_action", name) for name in bounds),
            *((f"number-{name}", bound) for name, bound in bounds.items()),
        ],
        "is_removal": True,
    }
    return page.page(request, "admin/echomq/job/confirm.html", asking)
