"""The pages on testing: what they show runs, and what they say of Django's own tests is so."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import django
import pytest

from tests.django_suite.run import AT_LEAST, EXCLUDED

ROOT = Path(__file__).parents[1]
HOWTO = (ROOT / "docs/howto/test-your-tasks.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference/testing.md").read_text(encoding="utf-8")

SETTINGS = f"""
    SECRET_KEY = "only for tests"
    USE_TZ = True
    DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}}
    INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "echomq_django", "shop"]
    if {django.VERSION < (6,)}:
        INSTALLED_APPS += ["django_tasks"]
    TASKS = {{"default": {{"BACKEND": "echomq_django.backend.EchoMQBackend"}}}}
    ECHOMQ = {{"default": {{"LOCATION": "redis://production.invalid/0"}}}}
    MAILERS = {{"default": {{"BACKEND": "django.core.mail.backends.smtp.EmailBackend"}}}}
"""


@pytest.mark.slow
def test_what_the_how_to_shows_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```\{code-block\} python\n:caption: (\S+)\n\n(.+?)```", HOWTO, re.DOTALL)
    files = {
        "pytest.ini": "[pytest]\nDJANGO_SETTINGS_MODULE = site_settings\npythonpath = .\n",
        "site_settings.py": dedent(SETTINGS),
        "shop/__init__.py": "",
        **dict(blocks),
    }
    assert len(blocks) == HOWTO.count("```python") + HOWTO.count("{code-block} python") == 8
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTEST_"))}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_every_test_of_djangos_that_is_left_out_is_documented_and_no_other() -> None:
    left_out = {name.rpartition(".")[2] for names in EXCLUDED.values() for name in names}
    table = REFERENCE.partition("\n## Django's own tests\n")[2].partition("| Django |")[0]
    assert set(re.findall(r"`(test_\w+)`", table)) == left_out


def test_how_many_of_djangos_tests_run_is_documented() -> None:
    rows = re.findall(r"^\| (\d)\.(\d) \| (\d+) \| (\d+) \| (\d+) \|$", REFERENCE, re.MULTILINE)
    assert [tuple(map(int, row)) for row in rows] == [
        (*version, found, found - len(EXCLUDED["queue"]), found - len(EXCLUDED["testing"]))
        for version, found in AT_LEAST.items()
    ]
