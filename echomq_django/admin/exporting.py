"""Jobs as a file of JSON Lines: those that were ticked, or all that match, read bit by bit while it is sent."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from echomq_django import jobs
from echomq_django import models as shapes
from echomq_django.exceptions import EchoMQError, JobGone
from echomq_django.job import Job

from . import many
from .arguments import Arguments, Redact, indented, redaction
from .base import ServerAdmin, briefly, number, reason
from .chosen import Selected, is_id
from .filters import asked
from .listing import CHUNK, PAYLOADS, Listing
from .showing import PLACE_WORDS, moment, when

MOST = 10_000
"""How many jobs one file has at most."""

SECONDS = 20.0
"""How long a file is written: web servers end requests that take half a minute."""


def export(page: ServerAdmin, request: HttpRequest, chosen: many.Chosen) -> StreamingHttpResponse:
    """Give the file. Nothing is changed, and what was given is in the history of its queue."""
    place = asked(request, page).place
    name = f"echomq-{place.value}-{timezone.localdate()}.jsonl"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    sees = page.may(request, "view_job_payload")
    return StreamingHttpResponse(
        _written(request, chosen, place, page.using, sees), content_type="application/jsonl", headers=headers
    )


def _written(
    request: HttpRequest, chosen: many.Chosen, place: jobs.Location, using: str, sees: bool
) -> Iterator[bytes]:
    """Write a line for each job; one with the key "cut" ends a file that is not whole."""
    redact = redaction(using) if sees else None
    end, left, given = time.monotonic() + SECONDS, MOST, Counter[str]()
    batches = _matching(chosen, sees) if isinstance(chosen, Listing) else _ticked(chosen, using)
    try:
        for batch in batches:
            if not left or time.monotonic() > end:
                yield _line({"cut": _why(MOST - left)})
                return
            few = batch[:left]
            left -= len(few)
            text = b"".join(_line(_facts(job, redact, sees)) for job in few)
            given.update(job.queue for job in few)  # before they are sent: who hangs up has them
            yield text
            if few != batch:
                yield _line({"cut": _why(MOST)})
                return
    except EchoMQError as error:
        yield _line({"cut": gettext("The queue's server was away (%s).") % reason(error)})
    finally:  # also when the browser went away: what was given was given
        _log(request, chosen, place, given)


def _matching(listing: Listing, sees: bool) -> Iterator[list[Job]]:
    """Read all that match, queue by queue, in the order of the place."""
    exact = listing.exact()
    if exact is not None:
        yield exact
        return
    size = PAYLOADS if sees else CHUNK
    for queue in listing.sizes:
        rank = 0
        while rows := _rows(listing, queue, rank, size, sees):
            rank += len(rows)
            yield [job for job in rows if listing.matches(job)]


def _rows(listing: Listing, queue: str, start: int, size: int, sees: bool) -> list[Job]:
    with briefly():  # the page's own patience ended with the page
        return jobs.browse(queue, listing.place, start, size, span=listing.span, payloads=sees, using=listing.using)


def _ticked(chosen: Selected, using: str) -> Iterator[list[Job]]:
    """Read what was ticked, wherever it is now; what is gone is left out."""
    for queue, job_ids in chosen.by_queue().items():
        for job_id in filter(is_id, job_ids):
            try:
                with briefly():
                    job = jobs.get(queue, job_id, using=using)
            except JobGone:
                continue
            yield [job]


def _facts(job: Job, redact: Redact | None, sees: bool) -> dict[str, Any]:
    facts = {
        "id": job.id,
        "queue": job.queue,
        "place": job.location.value if job.location else None,
        "name": job.name,
        "attempts": job.attempt,
        "max_attempts": job.max_attempts,
        "enqueued_at": _iso(job.enqueued_at),
        "started_at": _iso(job.started_at),
        "time": _iso(when(job)),
        "error": job.last_error,
    }
    return {**facts, "arguments": _arguments(job, redact)} if sees else facts


def _arguments(job: Job, redact: Redact | None) -> Any:
    """Give what the page of the job would show, as JSON where it is some, else as text."""
    text = Arguments(job, redact).text()
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):  # no JSON, or no number
        return text
    return text if indented(value) is None else value  # what is nested without end would be written on some Pythons


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _iso(ms: int | None) -> str | None:
    at = moment(ms)
    return None if at is None else at.isoformat()


def _line(facts: dict[str, Any]) -> bytes:
    # In ASCII, so that a line ends where its object does, whatever a reader takes for the end of one.
    return json.dumps(facts).encode() + b"\n"


def _why(given: int) -> str:
    words = ngettext(
        "Only %(given)s job is here: a file is cut after %(most)s jobs or %(seconds)s seconds.",
        "Only %(given)s jobs are here: a file is cut after %(most)s jobs or %(seconds)s seconds.",
        given,
    )
    return words % {"given": number(given), "most": number(MOST), "seconds": number(int(SECONDS))}


def _log(request: HttpRequest, chosen: many.Chosen, place: jobs.Location, given: Counter[str]) -> None:
    for queue, count in given.items():
        words = ngettext("Exported: %(number)s %(place)s job", "Exported: %(number)s %(place)s jobs", count)
        text = words % {"number": number(count), "place": PLACE_WORDS[place]}
        text += f" ({many.filters(chosen)})" if isinstance(chosen, Listing) and chosen.is_search else ""
        LogEntry.objects.log_actions(cast(int, request.user.pk), [shapes.Queue(name=queue)], CHANGE, text)
