"""fenced_update: the application's own rows take the writes of the newest attempt only."""

from collections.abc import Iterator

import pytest
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from echomq_django.tasks import fenced_update


class Report(models.Model):
    name = models.TextField()
    lines = models.IntegerField(default=0)
    fence = models.BigIntegerField(null=True)
    other_fence = models.BigIntegerField(default=0)

    class Meta:
        app_label = "tests"

    def __str__(self) -> str:
        return self.name


@pytest.fixture(autouse=True)
def _table(transactional_db: None) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.create_model(Report)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Report)


def values() -> list[tuple[int, int | None]]:
    return list(Report.objects.order_by("pk").values_list("lines", "fence"))


def test_the_newest_attempt_writes_as_often_as_it_likes_and_older_ones_no_more() -> None:
    report = Report.objects.create(name="a")
    rows = Report.objects.filter(pk=report.pk)
    assert fenced_update(rows, 1, lines=10) == 1
    assert fenced_update(rows, 3, lines=30) == 1
    assert fenced_update(rows, 1, lines=11) == 0
    assert fenced_update(rows, 3, lines=models.F("lines") + 1) == 1
    assert values() == [(31, 3)]


def test_it_is_one_update() -> None:
    Report.objects.create(name="a")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        fenced_update(Report.objects.all(), 1, lines=10)
    assert [query["sql"].split()[0] for query in queries.captured_queries] == ["UPDATE"]


def test_only_the_rows_that_are_asked_for_are_written() -> None:
    Report.objects.create(name="a")
    Report.objects.create(name="b")
    assert fenced_update(Report.objects.filter(name="b"), 1, lines=10) == 1
    assert values() == [(0, None), (10, 1)]


def test_the_fence_may_have_another_name_and_start_at_zero() -> None:
    Report.objects.create(name="a")
    assert fenced_update(Report.objects.all(), 1, fence_field="other_fence", lines=5) == 1
    assert fenced_update(Report.objects.all(), 0, fence_field="other_fence", lines=6) == 0
    assert Report.objects.values_list("lines", "other_fence", "fence").get() == (5, 1, None)
