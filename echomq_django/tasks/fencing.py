"""Fence the application's own rows with the token of the job that writes them."""

from typing import Any

from django.db.models import Q, QuerySet


def fenced_update(rows: QuerySet[Any], token: int, fence_field: str = "fence", **values: Any) -> int:
    """Update the rows that no later attempt of the job has written, and mark them with this token; how many.

    `fence_field` names an integer field, NULL or 0 at first, of rows that one job writes. An attempt that lost its
    lease has a smaller token than the one that took over: what it still writes matches no row. One UPDATE, so there
    is no moment between the look and the write.
    """
    free = Q(**{f"{fence_field}__isnull": True}) | Q(**{f"{fence_field}__lte": token})
    return rows.filter(free).update(**{fence_field: token, **values})
