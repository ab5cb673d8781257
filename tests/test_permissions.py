"""`manage.py check --database`: are the permissions of the admin made?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core import checks
from django.core.management import call_command
from django.db import connection
from django.db.utils import InterfaceError, OperationalError, ProgrammingError
from django.test.utils import CaptureQueriesContext

from echomq_django.permissions import codenames
from tests.admin.test_models import PERMISSIONS, run

ID = "echomq.W012"


def found(*databases: str) -> list[checks.CheckMessage]:
    return [each for each in checks.run_checks(databases=databases or None) if each.id == ID]


@pytest.fixture
def bare(db: None) -> Iterator[None]:
    """Forget what migrate has made."""
    Permission.objects.filter(content_type__app_label="echomq").delete()
    ContentType.objects.filter(app_label="echomq").delete()
    ContentType.objects.clear_cache()
    yield
    ContentType.objects.clear_cache()


def test_the_permissions_that_are_looked_for_are_those_that_migrate_makes(db: None) -> None:
    assert set(codenames()) == PERMISSIONS
    assert found("default") == []


def test_before_migrate_a_check_of_the_database_says_what_to_do(bare: None) -> None:
    [warning] = found("default")
    assert isinstance(warning, checks.Warning)
    assert all(name in warning.msg for name in PERMISSIONS)
    assert warning.hint == "Run manage.py migrate, which makes them."
    call_command("migrate", verbosity=0)
    assert found("default") == []


def test_a_permission_that_a_new_version_brought_is_missed_alone(db: None) -> None:
    Permission.objects.get(codename="advance_job").delete()
    [warning] = found("default")
    assert "admin: advance_job." in warning.msg


def test_without_a_database_to_check_none_is_asked(bare: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert found() == []
        assert [each for each in checks.run_checks(tags=["echomq"]) if each.id == ID] == []
    assert queries.captured_queries == []


@pytest.mark.parametrize("error", [OperationalError, ProgrammingError, InterfaceError])
def test_a_database_that_cannot_be_asked_is_for_others_to_speak_of(bare: None, error: type[Exception]) -> None:
    def refuse(*_: Any) -> None:
        raise error("no such table: auth_permission")

    with connection.execute_wrapper(refuse):
        assert found("default") == []


def test_a_database_that_gets_no_permissions_is_not_asked(bare: None, settings: Any) -> None:
    settings.DATABASE_ROUTERS = ["tests.test_permissions.Elsewhere"]
    assert found("default") == []


class Elsewhere:
    """A router that keeps users in another database."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "auth" else None


PROJECT = """
    import sys, django
    from django.conf import settings
    from tests import settings as tested
    settings.configure(
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
            "django.contrib.messages", *(["echomq_django"] if {ours} else []),
        ],
        MIDDLEWARE=tested.MIDDLEWARE, TEMPLATES=tested.TEMPLATES,
        DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}}}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True, SECRET_KEY="x" * 50, ROOT_URLCONF="urls",
        ECHOMQ={{"default": {{"LOCATION": "redis://127.0.0.1:1/0"}}}},
    )
    from django.core.management import execute_from_command_line
    sys.stderr = sys.stdout
    for command in {commands}:
        sys.argv = ["manage.py", *command.split()]
        execute_from_command_line()
"""


@pytest.mark.slow
def test_migrate_itself_does_not_warn_of_what_it_is_about_to_make(tmp_path: Path) -> None:
    (tmp_path / "urls.py").write_text("urlpatterns = []")

    def project(*commands: str, ours: bool = True) -> str:
        return run(PROJECT.format(commands=list(commands), ours=ours), tmp_path)

    # On a new database, and when the app comes into a project that has one.
    text = project("check --database default", "migrate --verbosity 0", "check --database default")
    assert ID not in text
    (tmp_path / "site.sqlite3").unlink()
    project("migrate --verbosity 0", ours=False)
    assert ID in project("check --database default")
    assert ID not in project("check", "migrate --verbosity 0", "check --database default")
