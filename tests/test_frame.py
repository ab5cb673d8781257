"""The frame itself: the server under test, its dump, the settings and the wheel."""

import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from django.conf import settings

from tests.server import IMAGE, Choice, NoServer, choose, dump

ROOT = Path(__file__).parents[1]


def test_the_dump_shows_every_key_its_type_its_order_and_whether_it_ends(client):
    client.set("a string", "text", px=60_000)
    client.set(b"\xff", b"\x00\xff")
    client.rpush("a list", "second", "first")
    client.hset("a hash", mapping={"field": "value"})
    client.sadd("a set", "b", "a")
    client.zadd("a zset", {"low": -1, "b": 0, "a": 0, "high": 1.5})

    assert dump(client) == {
        "a string": ("string", "text", True),
        b"\xff": ("string", b"\x00\xff", False),
        "a list": ("list", ["second", "first"], False),
        "a hash": ("hash", {"field": "value"}, False),
        "a set": ("set", ["a", "b"], False),
        "a zset": ("zset", [("low", -1), ("a", 0), ("b", 0), ("high", 1.5)], False),
    }


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_starts_with_an_empty_server(client, turn):
    assert dump(client) == {}
    client.set(f"left by turn {turn}", "x")


def test_the_settings_point_at_the_server_under_test(server):
    assert settings.ECHOMQ["default"]["LOCATION"] == server.url
    assert sorted(settings.ECHOMQ["default"]["QUEUES"]) == ["default", "mail"]


def test_a_private_server_is_another_server(client, private_server):
    other = private_server()
    assert other.pid != client.info("server")["process_id"]


def test_the_header_names_the_server_its_version_and_what_was_passed_over():
    choice = Choice("local", "/bin/valkey-server", "Valkey 9.1.2", ("docker, no engine",))
    assert str(choice) == "Valkey 9.1.2 (local: /bin/valkey-server); not docker, no engine"


def test_the_header_does_not_show_the_password_of_a_url():
    assert "secret" not in str(Choice("url", "redis://me:secret@host:1/0?password=secret", "Valkey 9.1.2"))


def test_docker_is_refused_when_no_engine_answers(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    with pytest.raises(NoServer, match=f"docker, no Docker engine with {IMAGE}"):
        choose("docker")


def test_auto_without_an_engine_is_a_local_server_within_two_seconds(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    began = time.monotonic()
    choice = choose("auto")
    assert choice.kind == "local"
    assert time.monotonic() - began < 2
    assert choice.passed_over[0].startswith("docker, no Docker engine")


def test_a_missing_binary_passes_the_choice_on_and_a_lone_one_stops_the_run():
    assert choose("local:no-such-server,local").passed_over[0].startswith("local:no-such-server, ")
    with pytest.raises(NoServer, match="no-such-server"):
        choose("local:no-such-server")


def test_a_url_is_taken_only_while_its_database_is_empty(private_server, client):
    other = private_server()
    assert choose(other.url) == Choice("url", other.url, choose(other.url).version)
    with type(client).from_url(other.url) as others:
        others.set("precious", 1)
    with pytest.raises(NoServer, match="not empty"):
        choose(other.url)


def test_an_unknown_wish_is_refused():
    with pytest.raises(NoServer, match="not one of"):
        choose("podman")


def test_the_wheel_holds_every_script_and_the_type_marker(tmp_path):
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "echomq_django").rglob("*.lua")}
    assert wanted | {"echomq_django/py.typed"} <= shipped
