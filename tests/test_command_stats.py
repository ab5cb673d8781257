"""manage.py echomq_stats: how many jobs are where."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from echomq_django import jobs, keys, transitions
from echomq_django.connection import client as shared_client
from echomq_django.management.commands import echomq_stats
from tests.handlers import Bench
from tests.server import dump

DEFAULT = keys.of("default")


@pytest.fixture(autouse=True)
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        yield bench


def called(*arguments: str) -> str:
    out = io.StringIO()
    call_command("echomq_stats", *arguments, stdout=out)
    return out.getvalue()


def typed(*arguments: str) -> tuple[int, str]:
    """Give the exit code of the command as it is typed, and what it says of errors."""
    errors = io.StringIO()
    command = echomq_stats.Command(stdout=io.StringIO(), stderr=errors, no_color=True)
    try:
        command.run_from_argv(["manage.py", "echomq_stats", *arguments])
    except SystemExit as end:
        return int(end.code or 0), errors.getvalue()
    return 0, errors.getvalue()


@pytest.fixture
def jobs_everywhere(client: redis.Redis) -> None:
    """Put a different number of jobs into each place of "default"."""
    jobs.enqueue_many("default", [{}] * 15)
    for claim in jobs.claim("default", 6):
        jobs.complete(claim)
    for claim in jobs.claim("default", 4):
        jobs.retry(claim, "no", max_attempts=1)
    jobs.claim("default", 3)
    jobs.enqueue_many("default", [{}] * 5, delay=3600)
    client.zadd(DEFAULT.quarantine, {"junk": 1})


EVERYWHERE = {
    "queue": "default",
    "pending": 2,
    "active": 3,
    "schedule": 5,
    "dead": 4,
    "quarantine": 1,
    "completed": 6,
    "failed": 4,
    "paused": False,
}


def test_it_counts_each_place_for_programs(jobs_everywhere: None) -> None:
    stats = json.loads(called("--format", "json"))
    assert stats["workers"] == []
    counted, mail = stats["queues"]
    assert 0 <= counted.pop("oldest_pending_seconds") < 60
    assert counted == EVERYWHERE
    assert mail == {**dict.fromkeys(EVERYWHERE, 0), "queue": "mail", "paused": False, "oldest_pending_seconds": None}


def test_it_prints_a_table_for_people(jobs_everywhere: None) -> None:
    jobs.pause("mail")
    head, default, mail, workers = called().splitlines()
    assert head.split() == [
        "queue", "pending", "active", "schedule", "dead", "quarantine", "completed", "failed", "oldest",
    ]  # fmt: skip
    assert default.split()[:8] == ["default", "2", "3", "5", "4", "1", "6", "4"]
    assert default.endswith(" s")
    assert mail.split() == ["mail", "(paused)", *"0000000", "-"]
    assert workers == "no workers"
    assert len({len(head), len(default), len(mail)}) == 1


def test_it_lists_the_workers() -> None:
    facts: dict[str, str | int] = {"host": "web-1", "queues": "default,mail", "concurrency": 8, "busy": 3}
    shared_client().run(transitions.announce("web-1:7:abcd1234", ttl_ms=60_000, facts=facts))
    shared_client().run(transitions.announce("quiet:8:abcd1234", ttl_ms=60_000, facts={}))
    lines = called().splitlines()
    assert "worker web-1:7:abcd1234: 3 of 8 busy, queues default,mail, heard 0 s ago" in lines
    assert "worker quiet:8:abcd1234: ? of ? busy, queues ?, heard 0 s ago" in lines
    assert "no workers" not in lines
    [quiet, web] = sorted(json.loads(called("--format", "json"))["workers"], key=lambda worker: worker["id"])
    assert (quiet["id"], quiet["facts"]) == ("quiet:8:abcd1234", {})
    assert web["facts"] == {name: str(value) for name, value in facts.items()}


def test_it_counts_the_named_queues_only() -> None:
    def names(*arguments: str) -> list[str]:
        return [row["queue"] for row in json.loads(called("--format", "json", *arguments))["queues"]]

    jobs.enqueue("somewhere", b"{}")
    assert names() == ["default", "mail", "somewhere"]
    assert names("--queues", "mail,somewhere") == ["mail", "somewhere"]


def test_a_look_changes_nothing(jobs_everywhere: None, client: redis.Redis) -> None:
    before = dump(client)
    called()
    called("--format", "json")
    assert dump(client) == before


@pytest.mark.parametrize("form", ["text", "json"])
def test_it_looks_again_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt
        jobs.enqueue("default", b"{}")

    monkeypatch.setattr(echomq_stats.time, "sleep", sleep)
    out = io.StringIO()
    call_command("echomq_stats", "--watch", "2.5", "--format", form, "--queues", "default", stdout=out)
    assert slept == [2.5] * 3
    if form == "json":
        seen = [json.loads(line)["queues"][0]["pending"] for line in out.getvalue().splitlines()]
    else:
        seen = [int(line.split()[1]) for line in out.getvalue().splitlines() if line.startswith("default")]
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    "arguments", [("--watch", "x"), ("--watch", "-1"), ("--format", "xml"), ("--nonsense",)], ids=" ".join
)
def test_a_bad_value_is_a_clear_error_and_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=arguments[0]):
        called(*arguments)
    assert typed(*arguments)[0] == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(("--queues", "a b"), "is not a queue's name"), (("--using", "elsewhere"), "ECHOMQ has no server 'elsewhere'")],
)
def test_what_cannot_be_counted_is_a_clear_error_and_code_1(arguments: tuple[str, ...], why: str) -> None:
    code, error = typed(*arguments)
    assert code == 1
    assert error.startswith("CommandError: ")
    assert why in error


def test_a_server_that_is_away_is_a_clear_error_and_code_1(
    bench: Bench, private_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    server = private_server()
    bench.at(server.url)
    server.kill()
    code, error = typed()
    assert code == 1
    assert "does not answer" in error
    assert len(error.strip().splitlines()) == 1
