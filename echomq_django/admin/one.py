"""The conversation about one job: offer what can be done, ask, do it, and tell what was done."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.models import DELETION
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from echomq_django import models as shapes

from .base import ServerAdmin
from .hollow import is_hollow
from .moves import ADVANCE, REQUEUE, Move, NotMoved
from .showing import visible

CONFIRM = "admin/echomq/job/confirm.html"

MOVES = {"requeue": REQUEUE, "advance": ADVANCE}
"""The moves that have a page of ours. The page of remove is Django's own delete view."""


def buttons(page: ServerAdmin, request: HttpRequest, shape: shapes.Job) -> list[dict[str, Any]]:
    """Give the buttons above a job, for those who may use them; of an id without a row nothing can be moved or read."""
    if is_hollow(shape.job):
        return []
    found = [
        {"url": page.url(f"job_{name}", quote(shape.pk)), "title": move.title}
        for name, move in MOVES.items()
        if shape.job.location in move.places and page.may(request, move.permission)
    ]
    if page.may(request, "view_job_payload"):
        found.append({"url": page.url("job_payload", quote(shape.pk)), "title": _("Raw payload")})
    return found


def question(page: ServerAdmin, shape: shapes.Job, move: Move) -> dict[str, Any]:
    """Give what the page that asks shows."""
    return {
        "title": move.title,
        "question": move.question,
        "jobs": [" · ".join(filter(None, (shape.queue, shape.job_id, visible(shape.job.name))))],
        "object": shape,
        "back": page.url("job_change", quote(shape.pk)),
        "is_removal": move.flag == DELETION,
    }


def run(page: ServerAdmin, request: HttpRequest, shape: shapes.Job, move: Move) -> HttpResponse:
    """Ask, and when that was answered, do."""
    asking = question(page, shape, move)
    if request.method != "POST":
        return page.page(request, CONFIRM, asking)
    try:
        move.one(shape.job, page.using)
    except NotMoved as error:
        page.message_user(request, str(error), messages.ERROR)
    else:
        move.log(request, [shape], f"{move.done}.")
        page.message_user(request, f"{move.done}: {shape.job_id}.", messages.SUCCESS)
    return HttpResponseRedirect(asking["back"])
