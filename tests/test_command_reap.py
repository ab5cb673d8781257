"""manage.py echomq_reap: once or again and again, for people and for programs."""

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from echomq_django import jobs, keys
from echomq_django.management.commands.echomq_reap import Command
from tests.handlers import Bench, until
from tests.server import dump

DEFAULT, MAIL = keys.of("default"), keys.of("mail")


@pytest.fixture(autouse=True)
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        for queue in ("default", "mail"):
            jobs.reap(queue)
            client.hset(keys.of(queue).meta, "reap_after", 1)
        yield bench


def called(*arguments: str) -> str:
    out = io.StringIO()
    call_command("echomq_reap", *arguments, stdout=out)
    return out.getvalue()


def typed(*arguments: str) -> tuple[int, str]:
    """Give the exit code of the command as it is typed, and what it says of errors."""
    errors = io.StringIO()
    try:
        Command(stdout=io.StringIO(), stderr=errors, no_color=True).run_from_argv(
            ["manage.py", "echomq_reap", *arguments]
        )
    except SystemExit as end:
        return int(end.code or 0), errors.getvalue()
    return 0, errors.getvalue()


def lapsed(client: redis.Redis, number: int, queue: str = "default") -> None:
    jobs.enqueue_many(queue, [{"number": each} for each in range(number)])
    client.zadd(keys.of(queue).active, {claim.id: 1 for claim in jobs.claim(queue, number)})


def due(client: redis.Redis, number: int, queue: str = "default") -> None:
    done = jobs.enqueue_many(queue, [{"number": each} for each in range(number)], delay=100)
    client.zadd(keys.of(queue).schedule, {each.id: 1 for each in done})


def nothing(queue: str, **facts: Any) -> dict[str, Any]:
    zeros = dict.fromkeys(("promoted", "pending", "schedule", "dead", "quarantined", "expired"), 0)
    return {"queue": queue, **zeros, "waiting": False, **facts}


def test_it_sweeps_every_queue_once_and_says_what_was_moved(client: redis.Redis) -> None:
    lapsed(client, 2)
    due(client, 3, "mail")
    assert called().splitlines() == [
        "default: promoted 0, pending 2, schedule 0, dead 0, quarantined 0, expired 0, waiting False",
        "mail: promoted 3, pending 0, schedule 0, dead 0, quarantined 0, expired 0, waiting False",
    ]
    assert (jobs.counts("default").pending, jobs.counts("mail").pending) == (2, 3)


def test_it_tells_programs_in_json(client: redis.Redis) -> None:
    lapsed(client, 2)
    assert json.loads(called("--once", "--format", "json")) == [nothing("default", pending=2), nothing("mail")]


def test_it_sweeps_the_named_queues_only(client: redis.Redis) -> None:
    lapsed(client, 1)
    lapsed(client, 1, "mail")
    assert json.loads(called("--queues", "mail", "--format", "json")) == [nothing("mail", pending=1)]
    assert jobs.counts("default").active == 1


def test_it_finds_queues_that_are_used_but_not_configured(client: redis.Redis) -> None:
    due(client, 1, "elsewhere")
    found = json.loads(called("--format", "json"))
    assert [row["queue"] for row in found] == ["default", "elsewhere", "mail"]
    assert found[1]["promoted"] == 1


def test_a_limit_bounds_each_kind(client: redis.Redis) -> None:
    lapsed(client, 5)
    due(client, 5)
    assert json.loads(called("--limit", "2", "--queues", "default", "--format", "json")) == [
        nothing("default", promoted=2, pending=2)
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dry_run_counts_and_moves_nothing(client: redis.Redis, form: str) -> None:
    lapsed(client, 4)
    due(client, 5, "mail")
    before = dump(client)
    said = called("--dry-run", "--format", form)
    assert dump(client) == before
    if form == "text":
        assert said.splitlines() == ["default: lapsed 4, due 0", "mail: lapsed 0, due 5"]
    else:
        assert json.loads(said) == [
            {"queue": "default", "lapsed": 4, "due": 0},
            {"queue": "mail", "lapsed": 0, "due": 5},
        ]


def test_a_server_seen_for_the_first_time_is_told_as_waiting(client: redis.Redis) -> None:
    lapsed(client, 1)
    client.hdel(DEFAULT.meta, "reap_run")
    assert json.loads(called("--queues", "default", "--format", "json")) == [nothing("default", waiting=True)]
    assert jobs.counts("default").active == 1


def test_without_any_queue_it_says_so(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url}}
    assert called().strip() == "There is no queue yet."
    assert json.loads(called("--format", "json")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_with_an_interval_it_sweeps_until_a_signal(client: redis.Redis, number: signal.Signals) -> None:
    former = signal.getsignal(number)
    out = io.StringIO()

    def interrupt() -> None:
        for _ in range(2):
            lapsed(client, 1)
            until(lambda: jobs.counts("default").active == 0)
            jobs.drain("default")
        until(lambda: out.getvalue().count("\n") >= 2)
        os.kill(os.getpid(), number)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    call_command(
        "echomq_reap", "--interval", "0.05", "--queues", "default", "--format", "json", stdout=out, verbosity=0
    )
    interrupter.join()
    rows = [json.loads(line)[0] for line in out.getvalue().splitlines()]
    assert sum(row["pending"] for row in rows) == 2
    assert signal.getsignal(number) is former


def test_it_runs_in_a_thread_that_is_not_the_main_one(client: redis.Redis) -> None:
    lapsed(client, 1)
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(called("--queues", "default")))
    thread.start()
    thread.join(20)
    assert said[0].startswith("default: promoted 0, pending 1,")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limit", "0"),
        ("--limit", "x"),
        ("--interval", "-1"),
        ("--interval", "nan"),
        ("--format", "xml"),
        ("--once", "--interval", "1"),
    ],
    ids=" ".join,
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
def test_what_cannot_be_swept_is_a_clear_error_and_code_1(arguments: tuple[str, ...], why: str) -> None:
    code, error = typed(*arguments)
    assert code == 1
    assert error.startswith("CommandError: ")
    assert why in error


@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--queues", "default")], ids=" ".join)
def test_a_server_that_is_away_is_a_clear_error_and_code_1(
    bench: Bench, private_server: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    server = private_server()
    bench.at(server.url)
    server.kill()
    code, error = typed(*arguments)
    assert code == 1
    assert "does not answer" in error
    assert len(error.strip().splitlines()) == 1
