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

    def one(self, job: Job, using: str) -> None:
        """Move one job; NotMoved when it is no longer where it was seen."""
        # The script looks where the job is, and moves it or not: of ten who press at once, one has done it.
        [word] = self.many(job.queue, [job.id], using=using)
        if word != "ok":
            raise NotMoved(self._refusal(word) % {"id": job.id, "places": self.words_of_places})

    def log(self, request: HttpRequest, shapes: Sequence[Any], words: str) -> None:
        """Write into Django's history what was done, a line for each shape."""
        LogEntry.objects.log_actions(cast(int, request.user.pk), shapes, self.flag, words)

    @property
    def words_of_places(self) -> str:
        """Name the places that the move starts from."""
        return " / ".join(str(PLACE_WORDS[place]) for place in self.places)

    @staticmethod
    def _refusal(word: str) -> str:
        if word == "elsewhere":
            return gettext("Job %(id)s is not %(places)s. Nothing was done: look where it is now.")
        if word == "unsound":
            return gettext("Job %(id)s had no sound row and was put into quarantine.")
        return gettext("Job %(id)s is no longer there: it was completed or removed. Nothing was done.")


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
