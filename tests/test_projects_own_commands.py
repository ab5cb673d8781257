"""The commands that every project runs do not notice us: nothing to migrate, nothing to dump."""

import io
import json

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_there_is_nothing_to_migrate() -> None:
    call_command("makemigrations", "--check", "--dry-run", stdout=io.StringIO())


@pytest.mark.django_db
def test_a_dump_of_everything_works_and_holds_nothing_of_ours() -> None:
    out = io.StringIO()
    call_command("dumpdata", stdout=out)
    assert not [row for row in json.loads(out.getvalue()) if row["model"].startswith("echomq.")]
