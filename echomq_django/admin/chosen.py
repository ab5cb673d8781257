"""What was ticked: keys, which a form sends and anybody may write by hand."""

from __future__ import annotations

from echomq_django.exceptions import InvalidId
from echomq_django.ids import check_job


class Selected(tuple[str, ...]):
    """Hold the keys of the jobs that were ticked."""

    def by_queue(self) -> dict[str, list[str]]:
        """Give their ids, by queue."""
        found: dict[str, list[str]] = {}
        for key in self:
            queue, _, job_id = key.partition(":")
            found.setdefault(queue, []).append(job_id)
        return found


def is_id(text: str) -> bool:
    """Say whether a text is a job's id."""
    try:
        return bool(check_job(text))
    except InvalidId:
        return False
