"""manage.py echomq_worker: its options, its errors and its end."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from echomq_django import conf, jobs, keys
from echomq_django.management.commands.echomq_worker import Command
from echomq_django.tasks.api import BUILT_IN
from echomq_django.worker.running import served_queues
from tests.handlers import Bench, Gate, ledger, until

DEFAULT = keys.of("default")
IMMEDIATE = f"{'django.tasks' if BUILT_IN else 'django_tasks'}.backends.immediate.ImmediateBackend"


@pytest.fixture(autouse=True)
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        yield bench


def typed(*arguments: str) -> int:
    """Give the exit code of the command as it is typed."""
    try:
        Command(stderr=io.StringIO()).run_from_argv(["manage.py", "echomq_worker", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def fill(number: int, queue: str = "default") -> list[str]:
    return [done.id for done in jobs.enqueue_many(queue, [{"number": each} for each in range(number)])]


# --- what it does -------------------------------------------------------------------------------------------------


def test_it_serves_all_configured_queues(bench: Bench) -> None:
    ids = fill(3) + fill(3, "mail")
    assert typed("--burst") == 0
    assert sorted(ledger.ids) == sorted(ids)


def test_it_serves_the_named_queues_only(bench: Bench) -> None:
    fill(3)
    fill(3, "mail")
    call_command("echomq_worker", "--burst", "--queues", "mail,mail")
    assert {job.queue for job in ledger.runs} == {"mail"}
    assert jobs.counts("default").pending == 3


def test_its_options_reach_the_worker(tmp_path: Path) -> None:
    fill(9)
    gate = Gate()
    ledger.do = gate.wait
    alive = tmp_path / "alive"
    options = ["--max-jobs", "5", "--concurrency", "3", "--worker-id", "blue", "--heartbeat-file", str(alive)]
    thread = threading.Thread(target=call_command, args=("echomq_worker", *options))
    thread.start()
    until(lambda: ledger.running == 3)
    [worker] = until(lambda: jobs.workers())
    assert worker.id.startswith("blue:")
    assert (worker.facts["concurrency"], worker.facts["queues"]) == ("3", "default,mail")
    gate.open()
    thread.join(20)
    assert not thread.is_alive()
    assert len(ledger.runs) == 5
    assert alive.exists()


def test_an_idle_one_ends_when_told_to(bench: Bench) -> None:
    assert typed("--max-idle-time", "0.1") == 0


@pytest.mark.parametrize("reaps", [True, False])
def test_it_takes_back_lost_jobs_unless_told_not_to(bench: Bench, reaps: bool) -> None:
    bench.queues(default={"LEASE": 0.3}, mail={"LEASE": 0.3})
    fill(1)
    jobs.claim("default")
    if reaps:
        call_command("echomq_worker", "--burst")
    else:
        call_command("echomq_worker", "--max-idle-time", "1", "--no-reap")
    assert len(ledger.runs) == int(reaps)
    assert jobs.counts("default").active == int(not reaps)


def test_a_burst_under_debug_starts_no_reloader(settings: Any) -> None:
    settings.DEBUG = True
    fill(1)
    before = threading.active_count()
    call_command("echomq_worker", "--burst")
    assert len(ledger.runs) == 1
    until(lambda: threading.active_count() <= before)


# --- where it runs ------------------------------------------------------------------------------------------------


def test_a_burst_runs_in_a_thread_that_is_not_the_main_one() -> None:
    fill(3)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call_command("echomq_worker", "--burst")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert errors == []
    assert len(ledger.runs) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_after_the_jobs_that_run(number: signal.Signals) -> None:
    assert threading.current_thread() is threading.main_thread()
    former = signal.getsignal(number)
    gate = Gate()
    ledger.do = gate.wait
    fill(5)

    def interrupt() -> None:
        until(lambda: ledger.running == 2)
        os.kill(os.getpid(), number)
        until(lambda: jobs.counts("default").pending == 3)
        gate.open()

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    assert typed("--concurrency", "2") == 0
    interrupter.join()
    assert len(ledger.ended) == 2
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.completed) == (3, 0, 2)
    assert signal.getsignal(number) is former


# --- what it refuses ----------------------------------------------------------------------------------------------

BAD = [
    *(("--concurrency", value) for value in ("0", "-1", "x", "1.5", "²", "99999999999")),
    *(("--processes", value) for value in ("0", "two")),
    *(("--max-jobs", value) for value in ("0", "-3")),
    *(("--max-memory", value) for value in ("0", "1GB")),
    *(("--max-idle-time", value) for value in ("-1", "nan", "inf", "soon")),
    *(("--shutdown-timeout", value) for value in ("-0.5", "never")),
]


@pytest.mark.parametrize(("option", "value"), BAD, ids=" ".join)
def test_a_bad_value_is_a_clear_error_and_code_2(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=f"argument {option}: .*{value}"):
        call_command("echomq_worker", f"{option}={value}")
    assert typed(f"{option}={value}") == 2
    assert f"argument {option}: " in capsys.readouterr().err
    assert jobs.workers() == []


def test_an_unknown_option_is_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("--concurency", "3") == 2
    assert "--concurency" in capsys.readouterr().err


@pytest.mark.parametrize("queues", ["a b", "emq", "default,,mail", "default, mail", "{x}", "é", "x" * 129])
def test_a_name_that_is_no_queues_is_refused(queues: str) -> None:
    with pytest.raises(CommandError, match="is not a queue's name"):
        call_command("echomq_worker", "--burst", "--queues", queues)
    assert typed("--burst", "--queues", queues) == 1


def test_a_queue_that_nothing_can_run_is_refused_with_what_to_do(bench: Bench, settings: Any) -> None:
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"]}}
    bench.queues(mail={"HANDLER": ""})
    fill(1)
    with pytest.raises(CommandError, match=r"'mail' has no HANDLER, and .* set ECHOMQ\['default'\]\['QUEUES'\]"):
        call_command("echomq_worker", "--burst")
    with pytest.raises(CommandError, match="queue 'unheard-of' has no HANDLER"):
        call_command("echomq_worker", "--burst", "--queues", "default,unheard-of")
    assert ledger.runs == []


def test_a_project_without_queues_is_told_so(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url}}
    settings.TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": []}}
    with pytest.raises(CommandError, match=r"neither ECHOMQ\['default'\] nor TASKS names a queue"):
        call_command("echomq_worker", "--burst")


def test_the_queues_of_tasks_are_served_too(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": {"HANDLER": "tests.handlers.on_job"}}}}
    ours = {"BACKEND": "echomq_django.backend.EchoMQBackend"}
    settings.TASKS = {
        "default": {**ours, "QUEUES": ["default", "reports"]},
        "elsewhere": {**ours, "QUEUES": ["others"], "OPTIONS": {"ALIAS": "other"}},
        "another": {"BACKEND": IMMEDIATE, "QUEUES": ["immediate"]},
    }
    assert served_queues(conf.alias()) == ["mail", "default", "reports"]


def test_an_unknown_server_is_a_clear_error() -> None:
    with pytest.raises(CommandError, match="ECHOMQ has no server 'elsewhere'; there are 'default'"):
        call_command("echomq_worker", "--burst", "--using", "elsewhere")


def test_a_server_of_another_wire_version_is_refused(client: redis.Redis) -> None:
    client.set(keys.VERSION, "echomq:9.9.9")
    with pytest.raises(CommandError, match=r"'echomq:9\.9\.9'"):
        call_command("echomq_worker", "--burst", "--no-reap")
