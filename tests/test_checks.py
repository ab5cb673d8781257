"""`manage.py check`: the setting always, the servers with --deploy."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from django.apps import apps
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from echomq_django import connection, embedded, fence, keys
from tests.server import dump

SECRET = "p@:/#%"
Start = Callable[..., embedded.PrivateServer]


def found(*, deploy: bool = False) -> dict[str, str]:
    """Run our checks; the message and hint of each by its id."""
    messages = checks.run_checks(tags=["echomq"], include_deployment_checks=deploy)
    said = {message.id or "": f"{message.msg} {message.hint}" for message in messages}
    assert len(said) == len(messages)
    for message in messages:
        assert message.hint
        assert isinstance(message, checks.Error if ".E" in (message.id or "") else checks.Warning)
    return said


@pytest.fixture
def durable(private_server: Start, settings: Any) -> embedded.PrivateServer:
    """Start a server with which nothing is wrong, and name it in the setting."""
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    return server


def plain(server: embedded.PrivateServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


# --- the app, and the setting -----------------------------------------------------------------------------------------


def test_the_app_has_a_name_of_its_own() -> None:
    config = apps.get_app_config("echomq")
    assert (config.name, config.verbose_name) == ("echomq_django", "EchoMQ")


def test_a_good_setting_has_nothing_to_be_said_of(settings: Any) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0", "OPTIONS": {"socket_timeout": 1}}}
    assert found() == {}


def test_every_problem_of_the_setting_is_an_error_with_its_hint(settings: Any) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "no", "X": 1, "QUEUES": {"mail": {"LEASE": 0, "LEASES": 1}}}}
    said = found()
    assert said.keys() == {"echomq.E003", "echomq.E004", "echomq.E009", "echomq.E010"}
    assert "Known are LOCATION, OPTIONS, WIRE_VERSION, QUEUES, REDACT" in said["echomq.E003"]
    with pytest.raises(SystemCheckError, match=r"echomq\.E010"):
        call_command("check", stdout=io.StringIO(), stderr=io.StringIO())


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("tests.nowhere.hide", "ModuleNotFoundError: No module named 'tests.nowhere'"),
        ("tests.handlers.nothing", "ImportError"),
        ("tests.broken.hide", "Error"),
        ("tests.test_checks.SECRET", "it is a str, and cannot be called"),
        ("tests..handlers", "Error"),
    ],
)
def test_what_hides_arguments_has_to_be_there(settings: Any, path: str, says: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0", "REDACT": path}}
    said = found()
    assert said.keys() == {"echomq.E016"}
    assert path in said["echomq.E016"]
    assert says in said["echomq.E016"]


@pytest.mark.parametrize("path", ["", "tests.test_checks.found"])
@pytest.mark.parametrize("location", ["redis://127.0.0.1:1/0", "embedded://"])
def test_what_hides_arguments_is_optional_and_not_called(settings: Any, path: str, location: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": location, "REDACT": path}}
    assert found() == {}


def test_a_missing_setting_is_an_error_in_production_only(settings: Any, tmp_path: Path) -> None:
    del settings.ECHOMQ
    settings.BASE_DIR = tmp_path
    assert found().keys() == {"echomq.E001"}
    settings.DEBUG = True
    assert found() == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"LOCATION": "redis://x/0", "OPTIONS": {"colour": "red"}}, "colour"),
        ({"LOCATION": "redis://x/0?colour=red"}, "colour"),
        ({"LOCATION": "redis://x/0", "OPTIONS": {"ssl_ca_certs": "ca.crt"}}, "ssl_ca_certs"),
        ({"LOCATION": "redis://:sec/ret@x/0"}, "is not a URL"),
        ({"LOCATION": "redis://x:port/0"}, "is not a URL"),
    ],
)
def test_what_the_client_does_not_take_is_found_before_it_is_needed(
    settings: Any, entry: dict[str, Any], says: str
) -> None:
    settings.ECHOMQ = {"default": entry}
    said = found()
    assert said.keys() == {"echomq.E011"}
    assert says in said["echomq.E011"]
    assert "sec" not in said["echomq.E011"]
    assert found(deploy=True).keys() == {"echomq.E011"}


def test_the_options_of_the_pool_are_taken(settings: Any) -> None:
    options = {"max_connections": 5, "timeout": 2, "health_check_interval": 30, "client_name": "web"}
    settings.ECHOMQ = {"default": {"LOCATION": "rediss://x/0", "OPTIONS": options}}
    assert found() == {}


# --- caches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cache", "shared"),
    [
        ({"LOCATION": "redis://127.0.0.1:6379/0"}, True),
        ({"LOCATION": "redis://localhost"}, True),
        ({"LOCATION": "redis://:pa%2Fss@localhost:6379/?db=0"}, True),
        ({"LOCATION": "rediss://127.0.0.1"}, True),
        ({"LOCATION": "valkey://127.0.0.1:6379/0"}, True),
        ({"LOCATION": ["redis://elsewhere:6379", "redis://127.0.0.1:6379"]}, True),
        ({"LOCATION": "redis://elsewhere:6379, redis://127.0.0.1:6379"}, True),
        ({"LOCATION": "redis://elsewhere:6379;redis://127.0.0.1:6379"}, True),
        ({"LOCATION": "redis://127.0.0.1:6379/3", "OPTIONS": {"db": 0}}, True),
        ({"LOCATION": "redis://127.0.0.1:6379", "OPTIONS": {"db": "1"}}, False),
        ({"LOCATION": "redis://127.0.0.1:6379/1"}, False),
        ({"LOCATION": "redis://127.0.0.1:6380/0"}, False),
        ({"LOCATION": "redis://elsewhere/0"}, False),
        ({"LOCATION": "127.0.0.1:11211"}, False),
        ({"LOCATION": "unique-snowflake"}, False),
        ({"LOCATION": "/var/tmp/cache"}, False),
        ({}, False),
    ],
)
def test_a_cache_in_the_queues_database_is_found_since_clearing_it_deletes_every_job(
    settings: Any, cache: dict[str, Any], shared: bool
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://me:secret@127.0.0.1:6379/0"}}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", **cache}}
    said = found()
    assert said.keys() == ({"echomq.W008"} if shared else set())
    assert "secret" not in str(said)


# --- servers ----------------------------------------------------------------------------------------------------------


def test_no_server_is_asked_without_deploy(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.Client, "exchange", lambda *_: pytest.fail("a server was asked"))
    assert found() == {}


def test_a_good_server_has_nothing_to_be_said_of(durable: embedded.PrivateServer) -> None:
    assert found(deploy=True) == {}


def test_a_server_that_is_not_there_is_a_warning_and_soon(settings: Any) -> None:
    settings.ECHOMQ = {
        "default": {"LOCATION": "redis://me:secret@127.0.0.1:1/0"},
        "second": {"LOCATION": "redis://127.0.0.1:1/1"},
    }
    messages = checks.run_checks(tags=["echomq"], include_deployment_checks=True)
    assert [message.id for message in messages] == ["echomq.W001"] * 2
    assert "'default'" in messages[0].msg
    assert "'second'" in messages[1].msg
    assert "secret" not in str(messages)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random", "volatile-ttl"])
def test_a_server_that_evicts_is_a_warning(durable: embedded.PrivateServer, policy: str) -> None:
    with plain(durable) as server:
        server.config_set("maxmemory-policy", policy)
    said = found(deploy=True)
    assert said.keys() == {"echomq.W004"}
    assert policy in said["echomq.W004"]


@pytest.mark.parametrize(("save", "says"), [("", "loses all jobs"), ("3600 1", "since its last snapshot")])
def test_a_server_without_an_append_only_file_is_a_warning(
    durable: embedded.PrivateServer, save: str, says: str
) -> None:
    with plain(durable) as server:
        server.config_set("appendonly", "no")
        server.config_set("save", save)
    said = found(deploy=True)
    assert said.keys() == {"echomq.W005"}
    assert says in said["echomq.W005"]


def test_a_server_that_could_not_save_is_a_warning(durable: embedded.PrivateServer) -> None:
    (durable.folder / "dump.rdb").mkdir()
    with plain(durable) as server:
        server.bgsave()
        while server.info("persistence")["rdb_bgsave_in_progress"]:
            pass
    said = found(deploy=True)
    assert said.keys() == {"echomq.W006"}
    assert "rdb_last_bgsave_status" in said["echomq.W006"]


def test_a_replica_is_a_warning(durable: embedded.PrivateServer) -> None:
    with plain(durable) as server:
        server.replicaof("127.0.0.1", 1)
    assert found(deploy=True).keys() == {"echomq.W007"}


def test_a_server_of_another_wire_version_is_a_warning(durable: embedded.PrivateServer) -> None:
    with plain(durable) as server:
        server.set(keys.VERSION, "echomq:2.4.2")
        before = dump(server)
        said = found(deploy=True)
        assert dump(server) == before
    assert said.keys() == {"echomq.W003"}
    assert "echomq:2.4.2" in said["echomq.W003"]


def test_a_server_that_is_too_old_is_a_warning(
    durable: embedded.PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "server_version", lambda line: (6, 2, 14))
    said = found(deploy=True)
    assert said.keys() == {"echomq.W002"}
    assert "6.2.14" in said["echomq.W002"]


def test_an_embedded_server_is_a_warning_and_is_not_started(settings: Any, tmp_path: Path) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": f"embedded://{tmp_path}/state"}}
    assert found(deploy=True).keys() == {"echomq.W010"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("forbidden", "ids"),
    [(["-config"], set()), (["-info"], {"echomq.W009"}), (["-config", "-info"], {"echomq.W009"})],
)
def test_what_a_user_may_not_ask_is_left_out(
    durable: embedded.PrivateServer, settings: Any, forbidden: list[str], ids: set[str]
) -> None:
    with plain(durable) as server:
        server.acl_setuser("web", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all", *forbidden])
    address = durable.url.partition("://")[2]
    settings.ECHOMQ = {"default": {"LOCATION": f"redis://web:secret@{address}"}}
    said = found(deploy=True)
    assert said.keys() == ids
    assert "secret" not in str(said)


def test_several_faults_of_one_server_are_all_found_where_config_is_forbidden(
    durable: embedded.PrivateServer, settings: Any
) -> None:
    with plain(durable) as server:
        server.config_set("maxmemory-policy", "allkeys-lfu")
        server.config_set("appendonly", "no")
        server.acl_setuser("web", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config"])
    settings.ECHOMQ = {"default": {"LOCATION": f"redis://web:@127.0.0.1:{durable.port}/0"}}
    assert found(deploy=True).keys() == {"echomq.W004", "echomq.W005"}


@pytest.mark.parametrize("password", ["wrong:secret", None])
def test_a_password_is_never_shown(private_server: Start, settings: Any, password: str | None) -> None:
    server = private_server(config={"requirepass": SECRET, "maxmemory-policy": "allkeys-lru"})
    options = {"password": password or SECRET}
    settings.ECHOMQ = {"default": {"LOCATION": f"redis://127.0.0.1:{server.port}/0", "OPTIONS": options}}
    said = found(deploy=True)
    assert said.keys() == {"echomq.W001" if password else "echomq.W004"}
    assert "secret" not in str(said)
    assert SECRET not in str(said)


def test_the_command_prints_them(durable: embedded.PrivateServer) -> None:
    with plain(durable) as server:
        server.config_set("maxmemory-policy", "allkeys-lru")
    told = io.StringIO()
    call_command("check", deploy=True, tags=["echomq"], stdout=told, stderr=told)
    assert "echomq.W004" in told.getvalue()
    assert "HINT: Set maxmemory-policy noeviction" in told.getvalue()
