"""The ECHOMQ setting: what it may hold, what is said of the rest, and when it is read."""

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from echomq_django import conf, connection
from echomq_django.conf import QueueConfig

REDIS = "redis://127.0.0.1:6379/0"


def found(echomq: Any) -> list[str]:
    """Give the ids of what is wrong with a setting."""
    with override_settings(ECHOMQ=echomq):
        for problem in conf.problems():
            assert problem.message
            assert problem.hint
        return [problem.id for problem in conf.problems()]


def queue(**given: Any) -> dict[str, Any]:
    return {"default": {"LOCATION": REDIS, "QUEUES": {"mail": given}}}


# --- what it gives ----------------------------------------------------------------------------------------------------


def test_a_server_needs_no_more_than_its_location() -> None:
    with override_settings(ECHOMQ={"default": {"LOCATION": REDIS}}):
        config = conf.alias()
        assert conf.problems() == []
        assert conf.aliases() == ["default"]
        assert (config.alias, config.location, config.options, config.queues) == ("default", REDIS, {}, {})
        assert config.wire_version == "echomq:3.0.0"
        assert config.redact == ""
        assert config.queue("any") == QueueConfig()
        assert config.embedded is None


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("LEASE", 12, 12.0),
        ("LEASE", 0.1, 0.1),
        ("LEASE", timedelta(minutes=2), 120.0),
        ("MAX_ATTEMPTS", 1, 1),
        ("MAX_CRASHES", 9, 9),
        ("BACKOFF", "fixed", "fixed"),
        ("BACKOFF", "exponential", "exponential"),
        ("BACKOFF_BASE", 0, 0.0),
        ("BACKOFF_BASE", timedelta(milliseconds=1500), 1.5),
        ("BACKOFF_CAP", timedelta(days=1), 86_400.0),
        ("RESULT_TTL", 0, 0.0),
        ("RESULT_TTL", timedelta(hours=2), 7200.0),
        ("KEEP_COMPLETED", 0, 0),
        ("KEEP_COMPLETED", 100_000, 100_000),
        ("DEAD_TTL", timedelta(days=30), 30 * 86_400.0),
        ("DEAD_TTL", 1, 1.0),
        ("DEAD_MAX", 0, 0),
        ("HANDLER", "shop.handlers.on_mail", "shop.handlers.on_mail"),
        ("HANDLER", "", ""),
    ],
)
def test_every_setting_of_a_queue_is_read(name: str, given: Any, read: Any) -> None:
    with override_settings(ECHOMQ=queue(**{name: given})):
        assert conf.problems() == []
        value = getattr(conf.alias().queue("mail"), name.lower())
        assert (value, type(value)) == (read, type(read))
        # The others keep their defaults, and so do the other queues.
        assert conf.alias().queue("mail") == QueueConfig(**{name.lower(): read})
        assert conf.alias().queue("other") == QueueConfig()


def test_a_lease_is_given_in_milliseconds_too() -> None:
    assert QueueConfig(lease=1.5).lease_ms == 1500


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ({}, 3_600_000),
        ({"handler": "shop.handlers.on_mail"}, 0),
        ({"result_ttl": 0.0}, 0),
        ({"result_ttl": 1.5}, 1500),
        ({"result_ttl": 60.0, "handler": "shop.handlers.on_mail"}, 60_000),
    ],
)
def test_results_of_tasks_are_kept_for_an_hour_and_those_of_handlers_when_asked_for(
    given: dict[str, Any], ms: int
) -> None:
    assert QueueConfig(**given).result_ttl_ms == ms


def test_several_servers_are_read_and_any_mapping_will_do() -> None:
    second: Mapping[str, Any] = MappingProxyType(
        {
            "LOCATION": "unix:///run/valkey.sock",
            "OPTIONS": {"db": 5},
            "WIRE_VERSION": "echomq:2.4.2",
            "REDACT": "shop.admin.hide",
            "QUEUES": {"a": {}},
        }
    )
    with override_settings(ECHOMQ=MappingProxyType({"default": {"LOCATION": REDIS}, "second": second})):
        assert conf.problems() == []
        assert conf.aliases() == ["default", "second"]
        config = conf.alias("second")
        assert (config.options, config.wire_version, list(config.queues)) == ({"db": 5}, "echomq:2.4.2", ["a"])
        assert config.redact == "shop.admin.hide"


# --- what is wrong with it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys", "unix", "embedded"])
def test_every_scheme_that_is_promised_is_taken(scheme: str) -> None:
    assert found({"default": {"LOCATION": f"{scheme}://somewhere"}}) == []


@pytest.mark.parametrize(
    ("setting", "ids"),
    [
        ({}, ["echomq.E002"]),
        ([], ["echomq.E002"]),
        (REDIS, ["echomq.E002"]),
        ({"other": {"LOCATION": REDIS}}, ["echomq.E002"]),
        ({"default": REDIS}, ["echomq.E002"]),
        ({"default": {}}, ["echomq.E004"]),
        ({"default": {"LOCATION": None}}, ["echomq.E004"]),
        ({"default": {"LOCATION": 7}}, ["echomq.E004"]),
        ({"default": {"LOCATION": "127.0.0.1:6379"}}, ["echomq.E004"]),
        ({"default": {"LOCATION": "http://x"}}, ["echomq.E004"]),
        ({"default": {"LOCATION": [REDIS]}}, ["echomq.E004"]),
        ({"default": {"LOCATION": REDIS, "location": 1}}, ["echomq.E003"]),
        ({"default": {"LOCATION": REDIS, "QUEUE": {}, 7: 8}}, ["echomq.E003", "echomq.E003"]),
        ({"default": {"LOCATION": REDIS, "OPTIONS": None}}, ["echomq.E005"]),
        ({"default": {"LOCATION": REDIS, "OPTIONS": ["db", 5]}}, ["echomq.E005"]),
        ({"default": {"LOCATION": REDIS, "WIRE_VERSION": "3.0.0"}}, ["echomq.E006"]),
        ({"default": {"LOCATION": REDIS, "WIRE_VERSION": 3}}, ["echomq.E006"]),
        ({"default": {"LOCATION": REDIS, "REDACT": "hide"}}, ["echomq.E016"]),
        ({"default": {"LOCATION": REDIS, "REDACT": None}}, ["echomq.E016"]),
        ({"default": {"LOCATION": REDIS, "REDACT": len}}, ["echomq.E016"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": ["mail"]}}, ["echomq.E007"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": None}}, ["echomq.E007"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": {"mail": None}}}, ["echomq.E007"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": {"a:b": {}}}}, ["echomq.E008"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": {7: {}}}}, ["echomq.E008"]),
        ({"default": {"LOCATION": REDIS, "QUEUES": {"emq": {"X": 1, "LEASE": 0}}}}, ["E008", "E009", "E010"]),
        ({"default": {"LOCATION": REDIS}, "second": {"LOCATION": "no"}}, ["echomq.E004"]),
    ],
)
def test_what_is_wrong_is_found_and_named(setting: Any, ids: list[str]) -> None:
    assert found(setting) == [f"echomq.{each.removeprefix('echomq.')}" for each in ids]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("LEASE", [0, -1, 0.01, "30", None, True, math.nan, math.inf, 10**12, timedelta(0), timedelta.max]),
        ("BACKOFF_BASE", [-1, "1", None, math.nan, timedelta(seconds=-1), 10**400]),
        ("BACKOFF_CAP", [-1, [], math.inf]),
        ("RESULT_TTL", [-1, "1", None, True, math.inf, timedelta(seconds=-1)]),
        ("KEEP_COMPLETED", [-1, 100_001, "5", None, 1.0, True]),
        ("DEAD_TTL", [0, "1 day", None]),
        ("MAX_ATTEMPTS", [0, -1, 1.0, "3", None, True, 10**10]),
        ("MAX_CRASHES", [0, 2.5, timedelta(1)]),
        ("DEAD_MAX", [-1, "100", None]),
        ("BACKOFF", ["linear", "", None, 1, lambda attempt: 1]),
        ("HANDLER", ["on_mail", None, len, ["shop.handlers.on_mail"]]),
    ],
)
def test_a_value_of_a_wrong_kind_or_size_is_found_and_its_hint_says_what_to_use(name: str, values: list[Any]) -> None:
    for value in values:
        with override_settings(ECHOMQ=queue(**{name: value})):
            [problem] = conf.problems()
            assert problem.id == "echomq.E010"
            assert f"ECHOMQ['default']['QUEUES']['mail'][{name!r}]" in problem.message
            assert problem.hint.startswith("Use ")
            with pytest.raises(ImproperlyConfigured, match=r"\(echomq\.E010\)"):
                conf.alias()


def test_an_unknown_key_is_found_and_its_hint_names_the_known_ones() -> None:
    with override_settings(ECHOMQ=queue(LEASES=3)):
        [problem] = conf.problems()
    assert problem.id == "echomq.E009"
    assert "'LEASES'" in problem.message
    assert "LEASE, MAX_ATTEMPTS, MAX_CRASHES" in problem.hint


def test_a_password_is_in_no_problem_whatever_is_wrong() -> None:
    for location in ("http://me:secret@x", "me:secret@x:6379", ["redis://me:secret@x"]):
        with override_settings(ECHOMQ={"default": {"LOCATION": location, "PASSWORD": "secret", "QUEUES": 1}}):
            for problem in conf.problems():
                assert "secret" not in problem.message + problem.hint
            with pytest.raises(ImproperlyConfigured) as caught:
                conf.alias()
            assert "secret" not in str(caught.value)


def test_a_broken_server_does_not_hide_the_others() -> None:
    with override_settings(ECHOMQ={"default": {"LOCATION": "no"}, "second": {"LOCATION": REDIS}}):
        assert conf.aliases() == ["second"]
        assert conf.alias("second").location == REDIS
        with pytest.raises(ImproperlyConfigured, match=r"\(echomq\.E004\)"):
            conf.alias()


def test_a_server_that_nobody_configured_is_refused_by_name() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"ECHOMQ has no server 'nowhere'; there are 'default'"):
        conf.alias("nowhere")


# --- when it is not there ---------------------------------------------------------------------------------------------


def test_without_the_setting_development_gets_an_embedded_server_beside_the_project(
    settings: Any, tmp_path: Path
) -> None:
    del settings.ECHOMQ
    settings.DEBUG, settings.BASE_DIR = True, tmp_path
    assert conf.problems() == []
    assert conf.alias().location == "embedded://"
    assert conf.alias().embedded == tmp_path / ".echomq"
    assert list(tmp_path.iterdir()) == []


def test_without_the_setting_production_gets_an_error(settings: Any) -> None:
    del settings.ECHOMQ
    settings.DEBUG = False
    assert [problem.id for problem in conf.problems()] == ["echomq.E001"]
    assert conf.aliases() == []
    with pytest.raises(ImproperlyConfigured, match=r"ECHOMQ is not set.*\(echomq\.E001\)"):
        conf.alias()


def test_an_embedded_server_may_have_its_folder_named(tmp_path: Path) -> None:
    with override_settings(ECHOMQ={"default": {"LOCATION": f"embedded://{tmp_path}/state"}}):
        assert conf.alias().embedded == tmp_path / "state"


# --- when it is read --------------------------------------------------------------------------------------------------


def test_a_changed_setting_is_read_again_and_put_back() -> None:
    before = conf.alias()
    with override_settings(ECHOMQ={"default": {"LOCATION": REDIS}}):
        assert conf.alias().location == REDIS
        with override_settings(ECHOMQ={"default": {"LOCATION": "redis://elsewhere"}}):
            assert conf.alias().location == "redis://elsewhere"
            assert connection.client().config is conf.alias()
        assert conf.alias().location == REDIS
    assert conf.alias() == before


def test_nothing_is_read_when_the_package_is_imported() -> None:
    modules = "conf connection jobs payload ids keys transitions scripts job retries exceptions"
    program = "import " + ", ".join(f"echomq_django.{name}" for name in modules.split())
    program += "\nfrom django.conf import settings\nassert not settings.configured\nprint('imported')"
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("imported\n", "")


def test_the_values_do_not_change() -> None:
    with pytest.raises(AttributeError):
        conf.alias().location = REDIS  # type: ignore[misc]
    with pytest.raises(AttributeError):
        conf.alias().queue("mail").lease = 1.0  # type: ignore[misc]
