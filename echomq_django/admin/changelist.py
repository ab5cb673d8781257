"""Django's change list, over a place of the server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.translation import gettext

from echomq_django.jobs import Span

from .arguments import redaction
from .base import number, whole
from .chosen import is_id
from .filters import asked
from .listing import Listing

SKIP_VAR = "skip"
PARAMETERS = ("location", "queue", "task", "error", "at__year", "at__month", "at__day")


class JobList(ChangeList):
    """Be a change list over a place."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Read the filters and say what they ask for; an action asks a second time, and means the same."""
        listing = vars(self).get("queryset")
        if listing is None:
            self.filter_params.pop(SKIP_VAR, None)
            try:
                self.filter_specs, self.has_filters, remaining, *_more, self.has_active_filters = self.get_filters(
                    request
                )
            except (OverflowError, ValueError) as error:  # Django's own reading of the last year there is
                raise IncorrectLookupParameters(error) from error
            self.clear_all_filters_qs = self.get_query_string(remove=list(self.get_filters_params()))
            listing = self._listing(request, _span(remaining))
        return listing

    def _listing(self, request: HttpRequest, span: Span) -> Listing:
        page: Any = self.model_admin
        found = asked(request, page)
        if not page.text_search:
            self.search_help_text = gettext("An ID finds its job at once.")
        return Listing(
            queues=found.queues,
            place=found.place,
            using=page.using,
            span=span,
            task=request.GET.get("task", ""),
            error=request.GET.get("error", ""),
            text=self.query.strip(),
            skip=whole(request.GET.get(SKIP_VAR, "")),
            with_payloads=page.may(request, "view_job_payload"),
            redact=redaction(page.using),
            text_search=page.text_search,
        )

    def get_results(self, request: HttpRequest) -> None:
        """Read one page."""
        listing: Listing = self.queryset
        self.result_count, self.full_result_count = listing.count(), listing.total
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = True
        self.multi_page = listing.depth > self.list_per_page
        self.paginator = Paginator(range(listing.depth), self.list_per_page)
        if not 1 <= self.page_num <= self.paginator.num_pages:
            raise IncorrectLookupParameters
        self.result_list = listing.page((self.page_num - 1) * self.list_per_page, self.list_per_page)

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Forget how far a search has come, unless only the page changes."""
        stays = new_params is not None and set(new_params) <= {PAGE_VAR, SKIP_VAR}
        return super().get_query_string(new_params, [*(remove or ()), *(() if stays else (SKIP_VAR,))])

    def url_for_result(self, result: Any) -> str:
        """Give the way to a job; what lies in a place and is no id has no page, and no link."""
        if not is_id(result.job.id):
            raise NoReverseMatch
        return super().url_for_result(result)

    # What the template tells.

    @property
    def merged(self) -> str:
        """Give how deep the list goes, when that is not all; else nothing."""
        depth = self.queryset.depth
        return number(depth) if depth < self.result_count else ""

    @property
    def searched(self) -> dict[str, Any] | None:
        """Tell how far a search has looked; None when it had not to."""
        listing: Listing = self.queryset
        if not listing.is_search or listing.is_refused or listing.found.is_exact:
            return None
        older = self.get_query_string({SKIP_VAR: listing.found.rank}) if listing.looked < listing.total else ""
        return {"looked": number(listing.looked), "total": number(listing.total), "older": older}


def _span(remaining: dict[str, Any]) -> Span:
    """Read the bounds that Django makes of the date hierarchy; what is written by hand is none."""
    bounds = []
    for edge in ("gte", "lt"):
        value = remaining.get(f"at__{edge}")
        [bound] = value if isinstance(value, list) else [value]
        if bound is not None and not isinstance(bound, datetime):
            raise IncorrectLookupParameters(bound)
        bounds.append(None if bound is None else int(bound.timestamp() * 1000))
    since, until = bounds
    return Span(since, None if until is None else until - 1)
