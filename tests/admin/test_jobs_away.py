"""The pages of jobs while the server is away."""

from typing import Any

import pytest
from django.test import Client

from echomq_django import ids
from tests.admin.reading import Page
from tests.admin.test_states import in_time

LIST = "/admin/echomq/job/"
ID = ids.brand("JOB", 1)


@pytest.mark.parametrize(
    "page", ["", *(f"default:{ID}/{name}/" for name in ("change", "requeue", "payload", "delete"))]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_page_says_within_three_seconds_that_the_server_is_away(
    boss: Client, settings: Any, page: str, method: str
) -> None:
    # Complaint 34: an error 500, with the address of the server in it.
    settings.ECHOMQ = {"default": {"LOCATION": "redis://:secret@127.0.0.1:1/0"}}
    answer = in_time(lambda: getattr(boss, method)(LIST + page, {"post": "yes"} if method == "post" else {}))
    assert answer.status_code == 503
    assert "cannot be reached" in Page(answer).text
    assert "secret" not in Page(answer).html
    assert "127.0.0.1" not in Page(answer).html
