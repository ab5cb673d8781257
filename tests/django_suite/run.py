"""Run Django's own tests of Tasks against this package's backends; tox -e django-suite-61 does.

    python -m tests.django_suite.run FOLDER queue     EchoMQBackend, a real server, a worker's way of running
    python -m tests.django_suite.run FOLDER testing   the backends of echomq_django.testing

The tests are in Django's sdist only: that of the installed version is downloaded to FOLDER, from where pip takes its
packages. Nothing of them is copied or changed: wherever they name one of Django's two backends, ours takes its place.
"""

import subprocess
import sys
import tarfile
import unittest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import django
import django.test
import redis
from django.conf import settings
from django.test.runner import DiscoverRunner

from echomq_django import embedded

IMMEDIATE = "django.tasks.backends.immediate.ImmediateBackend"
DUMMY = "django.tasks.backends.dummy.DummyBackend"

STAND_INS = {
    "queue": {
        IMMEDIATE: "echomq_django.testing.conformance.Drained",
        DUMMY: "echomq_django.testing.conformance.Stored",
    },
    "testing": {
        IMMEDIATE: "echomq_django.testing.ImmediateBackend",
        DUMMY: "echomq_django.testing.DummyBackend",
    },
}

# Not test_custom_backend: its backends are its own.
MODULES = ("test_tasks", "test_dummy_backend", "test_immediate_backend")

_CLASS = "it asserts that the backend is of Django's own class"
_CAN = "it asserts that ImmediateBackend cannot do this; ours can"
_INSIDE = "it writes to a result inside DummyBackend; ours are on the server"

# What is left out, and why. Each must exist: a test that was renamed must not go missing.
EXCLUDED = {
    "queue": {
        "test_tasks.TaskTestCase.test_using_correct_backend": _CLASS,
        "test_tasks.TaskTestCase.test_get_backend": _CLASS,
        "test_dummy_backend.DummyBackendTestCase.test_using_correct_backend": _CLASS,
        "test_immediate_backend.ImmediateBackendTestCase.test_using_correct_backend": _CLASS,
        "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": _CAN,
        "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": _CAN,
        "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": _CAN,
        "test_dummy_backend.DummyBackendTestCase.test_refresh_result": _INSIDE,
        "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": _INSIDE,
    },
    "testing": {
        "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": _CAN,
    },
}

# How many tests there are, with those that are left out. A release that corrects a bug may bring more: they are run.
AT_LEAST = {(6, 0): 71, (6, 1): 76}


def fetch(folder: Path) -> Path:
    """Download Django's sdist, unless it is there, and give its folder of tests with nothing but those of Tasks."""
    found = next(folder.glob("django-*.tar.gz"), None)
    if found is None:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "django",
             "--no-build-isolation", "--dest", str(folder), f"django=={django.__version__}"],
            check=True,
        )  # fmt: skip
        found = next(folder.glob("django-*.tar.gz"))
        with tarfile.open(found) as archive:
            archive.extractall(folder, [each for each in archive if "/tests/tasks/" in each.name], filter="data")
    return folder / found.name.removesuffix(".tar.gz") / "tests"


def configure(url: str, stand_ins: dict[str, str]) -> None:
    """Set Django up, so that every TASKS that names one of its backends means its stand-in."""
    one_attempt = {"MAX_ATTEMPTS": 1}
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        ECHOMQ={"default": {"LOCATION": url, "QUEUES": {"default": one_attempt, "queue_1": one_attempt}}},
        INSTALLED_APPS=["echomq_django"],
        TASKS={"default": {"BACKEND": stand_ins[IMMEDIATE]}},
        USE_TZ=True,
    )
    django.setup()

    class override_settings(django.test.override_settings):
        def __init__(self, **options: Any) -> None:
            for entry in options.get("TASKS", {}).values():
                entry["BACKEND"] = stand_ins.get(entry["BACKEND"], entry["BACKEND"])
            super().__init__(**options)

    django.test.override_settings = override_settings  # before the tests are imported


def each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Give the tests of a suite of suites."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from each(part)
        else:
            yield part


def run(tests: list[unittest.TestCase], url: str) -> unittest.TestResult:
    """Run tests, each with an empty server."""
    with redis.Redis.from_url(url) as client:

        class Result(unittest.TextTestResult):
            def startTest(self, test: unittest.TestCase) -> None:
                client.flushall()
                super().startTest(test)

        environment = DiscoverRunner(verbosity=0, interactive=False)
        environment.setup_test_environment()
        databases = environment.setup_databases()
        try:
            return unittest.TextTestRunner(resultclass=Result).run(unittest.TestSuite(tests))
        finally:
            environment.teardown_databases(databases)
            environment.teardown_test_environment()


def main(folder: str, which: str) -> str | None:
    """Run what is to be run; what is wrong, as a text."""
    sys.path.insert(0, str(fetch(Path(folder))))
    with embedded.start() as server:
        configure(server.url, STAND_INS[which])
        modules = [import_module(f"tasks.{name}") for name in MODULES]
        found = {
            test.id().removeprefix("tasks."): test
            for module in modules
            for test in each(unittest.defaultTestLoader.loadTestsFromModule(module))
        }
        if missing := EXCLUDED[which].keys() - found.keys():
            return f"left out, but there are no such tests: {', '.join(sorted(missing))}"
        result = run([test for name, test in found.items() if name not in EXCLUDED[which]], server.url)
    print(f"Django {django.__version__}, {which}: {result.testsRun} of {len(found)} tests ran; left out:")
    for name, why in EXCLUDED[which].items():
        print(f"  {name}: {why}", flush=True)
    least = AT_LEAST[django.VERSION[:2]] - len(EXCLUDED[which])
    if not result.wasSuccessful():
        return "Django's tests have failed"
    if result.skipped or result.testsRun < least:
        return f"at least {least} tests should have run; skipped were {result.skipped}"
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
