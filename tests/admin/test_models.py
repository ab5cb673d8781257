"""The models have no tables, and a project notices nothing of that; and it needs no database, nor the admin."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from echomq_django.models import Job, Queue, Worker

pytestmark = pytest.mark.slow

MODELS = (Queue, Job, Worker)
PERMISSIONS = {
    "view_queue",
    "pause_queue",
    "drain_queue",
    "view_job",
    "change_job",
    "delete_job",
    "view_job_payload",
    "requeue_job",
    "advance_job",
    "view_worker",
}


def run(source: str, folder: Path, warnings: str = "error") -> str:
    """Run a program in a process of its own, and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", dedent(source)],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def out_of(command: str, *args: str, **options: Any) -> str:
    out = StringIO()
    call_command(command, *args, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_a_query_finds_nothing_and_asks_nothing(model, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert list(model.objects.all()) == []
        assert model._base_manager.count() == 0
        assert not model._default_manager.filter(pk="mail").exists()
        assert model.objects.all().update(**{model._meta.pk.name: "mail"}) == 0
        assert model.objects.all().delete()[0] == 0
        with pytest.raises(model.DoesNotExist):
            model.objects.get(pk="mail")


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "store",
    [
        lambda model: model(pk="mail").save(),
        lambda model: model(pk="mail").save_base(raw=True),
        lambda model: model(pk="mail").delete(),
        lambda model: model.objects.create(pk="mail"),
        lambda model: model.objects.get_or_create(pk="mail"),
        lambda model: model.objects.update_or_create(pk="mail"),
        lambda model: model.objects.bulk_create([model(pk="mail")]),
        lambda model: model.objects.all().bulk_create([model(pk="mail")]),
    ],
)
def test_nothing_is_stored_or_deleted_through_a_model(model, store):
    with pytest.raises(TypeError, match=r"use echomq_django\.jobs"):
        store(model)


@pytest.mark.django_db(transaction=True)
def test_migrate_makes_permissions_and_content_types_and_no_table():
    call_command("migrate", verbosity=0)
    call_command("migrate", run_syncdb=True, verbosity=0)
    found = Permission.objects.filter(content_type__app_label="echomq")
    assert set(found.values_list("codename", flat=True)) == PERMISSIONS
    assert set(ContentType.objects.filter(app_label="echomq").values_list("model", flat=True)) == {
        "queue",
        "job",
        "worker",
    }
    assert not [name for name in connection.introspection.table_names() if name.startswith("echomq")]


@pytest.mark.django_db
def test_there_is_nothing_to_migrate():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("labels", [(), ("echomq",)])
def test_a_dump_of_the_database_has_the_rest_and_nothing_of_ours(labels, everything):
    User.objects.create_user("somebody")
    text = out_of("dumpdata", *labels, use_base_manager=everything)
    assert '"model": "echomq.' not in text
    assert labels or '"somebody"' in text


@pytest.mark.django_db
def test_other_commands_find_no_table_missing():
    call_command("check", databases=["default"])
    call_command("remove_stale_contenttypes", include_stale_apps=True, interactive=False, verbosity=0)
    assert ContentType.objects.filter(app_label="echomq").count() == 3
    assert "echomq" not in out_of("sqlflush")


@pytest.mark.django_db(transaction=True)
def test_the_database_is_flushed_and_the_permissions_come_again():
    call_command("flush", interactive=False, verbosity=0)
    assert (
        set(Permission.objects.filter(content_type__app_label="echomq").values_list("codename", flat=True))
        == PERMISSIONS
    )


@pytest.mark.django_db
def test_deleting_a_user_asks_for_no_table_of_ours():
    User.objects.create_user("somebody").delete()  # conftest.py refuses such a query


ALONE = """
    import django
    from django.conf import settings
    settings.configure(
        INSTALLED_APPS=["echomq_django"], DATABASES={{}}, USE_TZ=True,
        ECHOMQ={{"default": {{"LOCATION": {url!r}, "QUEUES": {{"mail": {{"HANDLER": "builtins.print"}}}}}}}},
        TEMPLATES=[{{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}}],
    )
    django.setup()
"""


def test_without_a_database_the_admin_or_users_a_project_checks_enqueues_and_renders(url, tmp_path):
    text = run(
        ALONE.format(url=url)
        + """
    import sys
    from django.core.management import call_command
    from django.template import engines
    from echomq_django import jobs
    call_command("check")
    jobs.enqueue("mail", {"to": 1})
    print(engines["django"].from_string("{% load echomq %}{% echomq_overview %}{{ n }}").render({"n": "rendered"}))
    print(jobs.counts("mail").pending)
    print([name for name in sys.modules if name.startswith(("django.contrib", "echomq_django.admin"))])
    """,
        tmp_path,
    )
    assert text.splitlines()[-3:] == ["rendered", "1", "[]"]


@pytest.mark.parametrize(
    "apps", [["django.contrib.contenttypes"], ["django.contrib.contenttypes", "django.contrib.auth"]]
)
def test_without_the_admin_a_project_migrates(url, tmp_path, apps):
    text = run(
        f"""
    import django
    from django.conf import settings
    settings.configure(
        INSTALLED_APPS=["echomq_django", *{apps}], USE_TZ=True,
        DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
        ECHOMQ={{"default": {{"LOCATION": {url!r}}}}}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    from django.core.management import call_command
    from django.db import connection
    call_command("migrate", verbosity=0)
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    print([name for name in connection.introspection.table_names() if "echomq" in name])
    """,
        tmp_path,
    )
    assert text == "[]\n"


def test_a_worker_starts_without_a_database_and_without_the_admin(url, tmp_path):
    text = run(
        ALONE.format(url=url)
        + """
    import sys
    from django.core.management import call_command
    call_command("echomq_worker", queues="mail", burst=True, max_idle_time=0.5)
    print([name for name in sys.modules if name.startswith("echomq_django.admin")])
    """,
        tmp_path,
    )
    assert text.endswith("[]\n")
