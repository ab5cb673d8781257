"""The list of a place."""

from typing import Any

from django.test import Client

from tests.admin import filling

LIST = "/admin/echomq/job/"


def test_a_superuser_sees_every_place(boss: Client, asked: list[Any]) -> None:
    made = {
        "dead": filling.dead(), "active": filling.active().id, "pending": filling.pending(),
        "schedule": filling.scheduled(),
    }  # fmt: skip
    for place, job_id in made.items():
        page = boss.get(LIST, {"location": place})
        assert page.status_code == 200
        assert [each.job_id for each in page.context["cl"].result_list] == [job_id]
