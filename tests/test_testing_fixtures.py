"""The fixtures for pytest, in a project of their own."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import django
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    backport = ', "django_tasks"' if django.VERSION < (6,) else ""
    files = {
        "pytest.ini": "[pytest]\nDJANGO_SETTINGS_MODULE = site_settings\npythonpath = .\n",
        "conftest.py": 'pytest_plugins = ["echomq_django.testing.fixtures"]\n',
        "site_settings.py": f"""
            SECRET_KEY = "only for tests"
            USE_TZ = True
            INSTALLED_APPS = ["echomq_django"{backport}]
            TASKS = {{"default": {{"BACKEND": "echomq_django.backend.EchoMQBackend"}}}}
            ECHOMQ = {{
                "default": {{
                    "LOCATION": "redis://production.invalid/0",
                    "OPTIONS": {{"ssl_ca_certs": "production"}},
                    "QUEUES": {{"default": {{"MAX_ATTEMPTS": 2}}}},
                }},
                "other": {{"LOCATION": "redis://production.invalid/1"}},
            }}
        """,
        "shop_tasks.py": """
            from echomq_django.tasks import task

            @task
            def add(left, right):
                return left + right
        """,
        "test_shop.py": """
            import pytest
            from django.conf import settings
            from echomq_django import conf, jobs
            from echomq_django.testing import run_until_empty
            from shop_tasks import add

            @pytest.mark.parametrize("turn", [1, 2])
            def test_every_test_has_an_empty_server(echomq_server, turn):
                result = add.enqueue(1, turn)
                assert jobs.counts("default").pending == 1
                assert run_until_empty() == 1
                result.refresh()
                assert result.return_value == 1 + turn
                add.enqueue(0, 0)

            def test_the_rest_of_the_setting_is_as_it_was(echomq_server):
                assert conf.alias().queue("default").max_attempts == 2
                assert settings.ECHOMQ["default"]["LOCATION"] == echomq_server

            def test_two_servers_stay_two(echomq_server):
                jobs.enqueue("default", "here")
                assert jobs.counts("default", using="other").pending == 0
                jobs.enqueue("default", "there", using="other")
                assert jobs.counts("default").pending == 1

            def test_without_it_the_setting_is_the_projects():
                assert settings.ECHOMQ["default"]["LOCATION"] == "redis://production.invalid/0"
        """,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_project_has_a_private_server_for_its_tests(project: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTEST_"))}
    env["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "5 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_nothing_else_of_the_package_needs_pytest() -> None:
    for path in (ROOT / "echomq_django").rglob("*.py"):
        if path.name != "fixtures.py":
            assert "import pytest" not in path.read_text(encoding="utf-8"), path
