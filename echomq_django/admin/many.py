"""The conversation about many jobs: ask with the number, do it, tell what was done, and ask to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import DELETION
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django import models as shapes

from . import bulk
from .base import ServerAdmin, number, whole
from .chosen import Selected, is_id
from .filters import asked
from .listing import Listing
from .moves import Move, place_of
from .showing import PLACE_WORDS, visible

Chosen = Listing | Selected


def run(page: ServerAdmin, request: HttpRequest, action: str, move: Move, chosen: Chosen) -> HttpResponse | None:
    """Ask before anything is done, and again after each request whose time was up; None when all is done."""
    place, across = asked(request, page).place, isinstance(chosen, Listing)
    # An id is found wherever it is: the script looks whether it is still there.
    is_looked_up = bool(request.GET.get("q")) and not across
    if place not in (move.many_places if across else move.places) and not is_looked_up:
        words = gettext("%(title)s: not for jobs that are %(place)s. Nothing was done.")
        page.message_user(request, words % {"title": move.title, "place": PLACE_WORDS[place]}, messages.ERROR)
        return None
    cutoff = whole(request.POST.get("cutoff", ""))
    if not cutoff:
        cutoff = jobs.now_ms(using=page.using)
        carried = {"cutoff": cutoff, "seen": _seen(page, request, chosen)}
        return _ask(page, request, action, move, _frozen(chosen, cutoff), carried)
    report = bulk.Report(resume=request.POST.get("resume", ""))
    try:
        if isinstance(chosen, Selected):
            bulk.selected(move, chosen, place_of(request.POST.get("seen", "")) or place, page.using, report)
        else:
            bulk.matching(move, chosen, cutoff, report)
    finally:  # what was done before the server went away is in the history too
        _log(request, move, chosen, report)
    done, missed = (whole(request.POST.get(name, "")) for name in ("done", "missed"))
    done, missed = done + report.done, missed + report.missed
    if report.resume:
        carried = {"cutoff": cutoff, "done": done, "missed": missed, "resume": report.resume}
        return _ask(page, request, action, move, _frozen(chosen, cutoff), carried)
    page.message_user(request, _told(move, done, missed), messages.SUCCESS if done else messages.WARNING)
    return None


def _seen(page: ServerAdmin, request: HttpRequest, chosen: Chosen) -> str:
    """Give the place in which the user sees what was chosen: all are of one, but an id is found wherever it is."""
    text = request.GET.get("q", "").strip()
    if isinstance(chosen, Selected) and is_id(text):
        for queue in chosen.by_queue():
            return jobs.location(queue, text, using=page.using) or ""
    return asked(request, page).place


def _frozen(chosen: Chosen, cutoff: int) -> Chosen:
    return chosen.until(cutoff) if isinstance(chosen, Listing) else chosen


def _told(move: Move, done: int, missed: int) -> str:
    words = ngettext("%(done)s: %(number)s job", "%(done)s: %(number)s jobs", done)
    text = words % {"done": move.done, "number": number(done)}
    if missed:
        text += ngettext(", %s was no longer there", ", %s were no longer there", missed) % number(missed)
    return f"{text}."


def _ask(
    page: ServerAdmin, request: HttpRequest, action: str, move: Move, chosen: Chosen, carried: dict[str, Any]
) -> HttpResponse:
    """Ask with the number of jobs: "all" could be read as all that were ticked."""
    ticked = chosen if isinstance(chosen, Selected) else ()
    hidden = [("action", action), *carried.items(), *(("_selected_action", key) for key in ticked)]
    if isinstance(chosen, Listing):
        hidden += [("_selected_action", "all"), ("select_across", "1")]
    title = _number_of(move, chosen, asked(request, page).place)
    context: dict[str, Any] = {
        "title": title,
        "question": _("%s?") % title,
        "notes": _notes(chosen) if isinstance(chosen, Listing) else [],
        "jobs": [visible(key.replace(":", " · ", 1)) for key in ticked],
        "hidden": hidden,
        "back": request.get_full_path(),
        "is_removal": move.flag == DELETION,
    }
    if "resume" in carried:
        words = ngettext("%s job is done so far.", "%s jobs are done so far.", carried["done"])
        context |= {"result": words % number(carried["done"]), "button": _("Continue")}
    return page.page(request, "admin/echomq/job/confirm.html", context)


def _number_of(move: Move, chosen: Chosen, place: jobs.Location) -> str:
    if isinstance(chosen, Listing) and _is_open(chosen):
        words = gettext("%(title)s every %(place)s job that matches, of %(number)s")
        count = chosen.total
    else:
        count = len(chosen) if isinstance(chosen, Selected) else chosen.count()
        words = ngettext("%(title)s %(number)s %(place)s job", "%(title)s %(number)s %(place)s jobs", count)
    return words % {"title": move.title, "number": number(count), "place": PLACE_WORDS[place]}


def _is_open(listing: Listing) -> bool:
    """Say whether there may be more that match than a search has seen."""
    return listing.is_search and listing.looked < listing.total


def _notes(listing: Listing) -> list[str]:
    notes = [gettext("Jobs that came after this page was opened are spared.")]
    if listing.is_search:
        notes.append(gettext("They match: %s.") % filters(listing))
    if _is_open(listing):
        words = ngettext(
            "%(hits)s of the first %(looked)s matches.", "%(hits)s of the first %(looked)s match.", listing.count()
        )
        notes.append(words % {"hits": number(listing.count()), "looked": number(listing.looked)})
    return notes


def filters(listing: Listing) -> str:
    """Tell what a search looks for."""
    named = [(_("task"), listing.task), (_("error"), listing.error), (_("text"), listing.text)]
    return ", ".join(f"{name} {visible(value)}" for name, value in named if value)


def _log(request: HttpRequest, move: Move, chosen: Chosen, report: bulk.Report) -> None:
    """Write a line for each ticked job; for all that match one for each queue: a million would say no more."""
    if isinstance(chosen, Selected):
        touched: Sequence[Any] = [shapes.Job(key=key, job_id=key.partition(":")[2]) for key in report.moved]
        if touched:
            move.log(request, touched, f"{move.done}.")
        return
    for queue, count in report.by_queue.items():
        if count:
            words = ngettext("%(done)s: %(number)s %(place)s job", "%(done)s: %(number)s %(place)s jobs", count)
            text = words % {"done": move.done, "number": number(count), "place": PLACE_WORDS[chosen.place]}
            text += f" ({filters(chosen)})" if chosen.is_search else ""
            move.log(request, [shapes.Queue(name=queue)], text)
