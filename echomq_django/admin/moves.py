"""What people do to jobs. A button, an action on many and their pages read the same line of this table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django.job import Job, Location

from .showing import PLACE_WORDS

REMOVABLE = (Location.DEAD, Location.SCHEDULE, Location.PENDING)


def place_of(text: str) -> Location | None:
    """Read a place that a form carries; None when it is none."""
    return Location(text) if text in set(Location) else None


class NotMoved(Exception):
    """Say why a job was left where it is."""


@dataclass(frozen=True)
class Move:
    """Hold a move: who may do it, where from, what does it, and its words."""

    permission: str
    places: tuple[Location, ...]
    many_places: tuple[Location, ...]
    """The places of which all jobs that match may be moved at once."""
    many: Callable[..., list[str]]
    title: Any
    question: Any
    done: Any
    flag: int = CHANGE

    def one(self, job: Job, using: str, seen: Location | None = None) -> None:
        """Move one job; NotMoved when it is no longer where it was seen: where it was read, unless a form says more."""
        # The script looks where the job is, and moves it or not: of ten who press at once, one has done it.
        [word] = self.from_place(job.queue, [job.id], seen or job.location, using)
        if word != "ok":
            raise NotMoved(self.refusal(word, job.id))

    def from_place(self, queue: str, job_ids: Sequence[str], place: Location | None, using: str) -> list[str]:
        """Move jobs that were seen in a place, but none that has left it; a script's word for each."""
        # A move that knows one place only looks there by itself.
        where = {"location": place} if len(self.places) > 1 else {}
        return self.many(queue, job_ids, **where, using=using)

    def log(self, request: HttpRequest, shapes: Sequence[Any], words: str) -> None:
        """Write into Django's history what was done, a line for each shape."""
        LogEntry.objects.log_actions(cast(int, request.user.pk), shapes, self.flag, words)

    def refusal(self, word: str, job_id: str) -> str:
        """Say why a job was left where it is, by a script's word."""
        if word == "elsewhere":
            places = " / ".join(str(PLACE_WORDS[place]) for place in self.places)
            text = gettext("Job %(id)s is not %(places)s. Nothing was done: look where it is now.")
            return text % {"id": job_id, "places": places}
        if word == "unsound":
            return gettext("Job %s had no sound row and was put into quarantine.") % job_id
        return gettext("Job %s is no longer there: it was completed or removed. Nothing was done.") % job_id


REQUEUE = Move(
    permission="requeue_job",
    places=(Location.DEAD,),
    many_places=(Location.DEAD,),
    many=jobs.requeue_many,
    title=_("Requeue"),
    question=_("Give this job a new life, with all its attempts?"),
    done=_("Requeued"),
)
ADVANCE = Move(
    permission="advance_job",
    places=(Location.SCHEDULE,),
    many_places=(Location.SCHEDULE,),
    many=jobs.advance_many,
    title=_("Run now"),
    question=_("Run this job now, whatever its time?"),
    done=_("Run now"),
)
REMOVE = Move(
    permission="delete_job",
    places=REMOVABLE,
    # All pending ones go with a queue's own action, which has a permission of its own.
    many_places=(Location.DEAD, Location.SCHEDULE),
    many=jobs.remove_many,
    title=_("Remove"),
    question=_("Remove this job for good?"),
    done=_("Removed"),
    flag=DELETION,
)
