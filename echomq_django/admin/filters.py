"""The sidebar of the jobs: place, queue, task, error. Every choice carries its number, and none costs a walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django.job import Location
from echomq_django.jobs import Counts

from .base import ServerAdmin, number
from .showing import PLACE_WORDS, heading

TOP = 20
"""How many tasks and errors the sidebar offers."""


class Asked:
    """Hold what a request asks for, and what the server said about it, once for every filter and the list."""

    def __init__(self, request: HttpRequest, page: ServerAdmin) -> None:
        self._request, self._page = request, page

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Give the queues that the user may see."""
        return tuple(self._page.get_queue_names(self._request))

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """Give the queues that are asked for."""
        queue = self._request.GET.get("queue")
        if queue and queue not in self.names:
            raise IncorrectLookupParameters(queue)
        return (queue,) if queue else self.names

    @cached_property
    def place(self) -> Location:
        """Give the place that is asked for; the dead are what people come for."""
        try:
            return Location(self._request.GET.get("location", Location.DEAD))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error

    @cached_property
    def counts(self) -> Mapping[str, Counts]:
        """Count the jobs of the queues that the user may see."""
        return {queue: jobs.counts(queue, using=self._page.using) for queue in self.names}

    def number(self, queue: str, place: Location) -> int:
        """Count the jobs of a place of a queue."""
        count: int = getattr(self.counts[queue], place.value)
        return count

    @cached_property
    def census(self) -> tuple[Counter[str], Counter[str]]:
        """Count the latest dead by task and by error."""
        tasks: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for queue in self.queues:
            if self.place is Location.DEAD and self.number(queue, self.place):
                found = jobs.census(queue, using=self._page.using)
                tasks, errors = tasks + found.tasks, errors + found.errors
        return tasks, errors


def asked(request: HttpRequest, page: ServerAdmin) -> Asked:
    """Give what a request asks for: the same each time, so that the server is asked once."""
    found: Asked = vars(request).setdefault("_echomq_asked", Asked(request, page))
    return found


class ServerFilter(SimpleListFilter):
    """Be a filter whose choices come from the server; it filters nothing itself, the list asks for its value."""

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Leave what is listed to the list."""
        return queryset


class PlaceFilter(ServerFilter):
    """Choose the place: there is always one."""

    title = _("place")
    parameter_name = "location"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Count the jobs of each place."""
        found = asked(request, model_admin)
        self.chosen = found.place
        return [
            (place.value, f"{capfirst(words)} ({number(sum(found.number(queue, place) for queue in found.queues))})")
            for place, words in PLACE_WORDS.items()
        ]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Offer the places; what is chosen of one place says nothing in another."""
        for value, title in self.lookup_choices:
            yield {
                "selected": value == self.chosen,
                "query_string": changelist.get_query_string({self.parameter_name: value}, ["task", "error", "at__"]),
                "display": title,
            }


class QueueFilter(ServerFilter):
    """Choose a queue, or see them all."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """List the queues that this user may see, each with what it has in the place."""
        found = asked(request, model_admin)
        return [(queue, f"{queue} ({number(found.number(queue, found.place))})") for queue in found.names]


class CensusFilter(ServerFilter):
    """Choose among what the latest dead jobs are. Other places offer no choice."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer what there is most of, and what is chosen."""
        counter = self.of(asked(request, model_admin))
        chosen = request.GET.get(self.parameter_name or "")
        top = [(name, count) for name, count in counter.most_common(TOP) if name]
        if chosen and chosen not in dict(top):
            top.append((chosen, counter[chosen]))
        return [(name, f"{heading(name)} ({number(count)})") for name, count in top]

    def of(self, found: Asked) -> Counter[str]:
        """Give the numbers that this filter is about."""
        raise NotImplementedError


class TaskFilter(CensusFilter):
    """Choose a task of the dead."""

    title = _("task")
    parameter_name = "task"

    def of(self, found: Asked) -> Counter[str]:
        """Give the number of each task."""
        return found.census[0]


class ErrorFilter(CensusFilter):
    """Choose an error of the dead."""

    title = _("error")
    parameter_name = "error"

    def of(self, found: Asked) -> Counter[str]:
        """Give the number of each error."""
        return found.census[1]
