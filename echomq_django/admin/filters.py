"""The sidebar of the jobs: place, queue, task, error. Every choice carries its number, and none costs a walk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from echomq_django import jobs
from echomq_django.job import Location

PLACES = {
    Location.DEAD: _("Dead"),
    Location.SCHEDULE: _("Scheduled"),
    Location.ACTIVE: _("Active"),
    Location.PENDING: _("Pending"),
}
TOP = 20
"""How many tasks and errors the sidebar offers."""


def place_of(request: HttpRequest) -> Location:
    """Give the place that a request asks for; the dead are what people come for."""
    try:
        return Location(request.GET.get("location", Location.DEAD))
    except ValueError as error:
        raise IncorrectLookupParameters(error) from error


def queues_of(request: HttpRequest, page: Any) -> tuple[str, ...]:
    """Give the queues that a request asks for, of those that its user may see."""
    names = tuple(page.get_queue_names(request))
    queue = request.GET.get("queue")
    if not queue:
        return names
    if queue not in names:
        raise IncorrectLookupParameters(queue)
    return (queue,)


class ServerFilter(SimpleListFilter):
    """Be a filter whose choices come from the server; it filters nothing itself, the listing asks for its value."""

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Leave what is listed to the listing."""
        return queryset


class PlaceFilter(ServerFilter):
    """Choose the place: there is always one."""

    title = _("place")
    parameter_name = "location"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Count the jobs of each place."""
        counts = [jobs.counts(queue, using=model_admin.using) for queue in queues_of(request, model_admin)]
        self.chosen = place_of(request)
        return [
            (place.value, f"{title} ({sum(getattr(each, place.value) for each in counts):,})")
            for place, title in PLACES.items()
        ]

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """Offer the places; what is chosen of one place says nothing in another."""
        for value, title in self.lookup_choices:
            yield {
                "selected": value == self.chosen,
                "query_string": changelist.get_query_string(
                    {self.parameter_name: value}, ["task", "error", "skip", "at__"]
                ),
                "display": title,
            }


class QueueFilter(ServerFilter):
    """Choose a queue, or see them all."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """List the queues that this user may see."""
        return [(name, name) for name in model_admin.get_queue_names(request)]


class CensusFilter(ServerFilter):
    """Choose among what the latest dead jobs are."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Count the latest dead jobs; other places offer no choice."""
        if place_of(request) is not Location.DEAD:
            return []
        numbers: dict[str, int] = {}
        for queue in queues_of(request, model_admin):
            for name, number in self.of(jobs.census(queue, using=model_admin.using)).items():
                numbers[name] = numbers.get(name, 0) + number
        top = sorted(numbers.items(), key=lambda one: -one[1])[:TOP]
        return [(name, f"{name} ({number})") for name, number in top if name]

    def of(self, census: Any) -> dict[str, int]:
        """Give the numbers that this filter is about."""
        raise NotImplementedError


class TaskFilter(CensusFilter):
    """Choose a task of the dead."""

    title = _("task")
    parameter_name = "task"

    def of(self, census: Any) -> dict[str, int]:
        """Give the number of each task."""
        found: dict[str, int] = census.tasks
        return found


class ErrorFilter(CensusFilter):
    """Choose an error of the dead."""

    title = _("error")
    parameter_name = "error"

    def of(self, census: Any) -> dict[str, int]:
        """Give the number of each error."""
        found: dict[str, int] = census.errors
        return found
