"""link: the loop, when it ends, what it does when the server is away, and what it leaves behind."""

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from echomq_django import connection, jobs, keys, scripts
from echomq_django.job import Location
from echomq_django.reaper import sweep
from echomq_django.worker import link as link_module
from echomq_django.worker.claiming import PREFETCH_MAX
from echomq_django.worker.held import HeldJob
from echomq_django.worker.link import LINGER
from echomq_django.worker.process import WORN_OUT
from tests.handlers import Bench, Gate, ledger, told, until
from tests.lossy import CLOSE, lossy
from tests.server import dump

DEFAULT, MAIL = keys.of("default"), keys.of("mail")


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        yield bench


@pytest.fixture
def own(bench: Bench, private_server: Any) -> Iterator[Any]:
    """Give a server of the test's own, that the queues live on."""
    server = private_server()
    bench.at(server.url, timeout=0.5)
    yield server
    bench.__exit__()


@pytest.fixture
def plain(own: Any) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own.url, protocol=2) as plain:
        yield plain


def fill(number: int, queue: str = "default") -> list[str]:
    return [done.id for done in jobs.enqueue_many(queue, [{"number": each} for each in range(number)])]


def places(queue: str = "default") -> dict[str, int]:
    counts = jobs.counts(queue)
    return {name: number for name in Location if (number := getattr(counts, name))}


# --- one turn -----------------------------------------------------------------------------------------------------


def test_jobs_of_all_queues_run_once_each_and_leave_nothing(bench: Bench, client: redis.Redis) -> None:
    ids = fill(60) + fill(60, "mail")
    worker = bench.burst(queues=("default", "mail"), concurrency=4)
    assert sorted(ledger.ids) == sorted(ids)
    assert worker.link.tally == "120 completed"
    passing = ("receipt:", "minute:")  # they have a time to live
    left = {key for key in dump(client) if key.startswith("emq:{") and not key.partition("}:")[2].startswith(passing)}
    assert left <= {key for one in (DEFAULT, MAIL) for key in (one.completed, one.wake, one.recent)}


def test_what_finishes_during_a_round_trip_is_settled_by_the_next_one(
    bench: Bench, client: redis.Redis, url: str
) -> None:
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker(concurrency=20)
    fill(20)
    until(lambda: ledger.running == 20)
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()
    client.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
    gate.open()
    until(lambda: ledger.running == 0)
    with redis.Redis.from_url(url) as other:
        other.execute_command("CLIENT", "UNPAUSE")
    until(lambda: jobs.counts("default").completed == 20)
    seen = [entry["command"] for entry in client.slowlog_get(10_000)]
    client.config_set("slowlog-log-slower-than", 10_000)
    assert 1 <= sum(scripts.complete.sha.encode() in command for command in seen) <= 3
    worker.stop()
    worker.join()


def test_a_full_worker_passes_on_a_token_that_it_took(bench: Bench, client: redis.Redis) -> None:
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker(queues=("default", "mail"), concurrency=1)
    until(lambda: client.info("clients")["blocked_clients"] == 2)
    fill(1)
    until(lambda: ledger.running == 1)
    fill(1, "mail")
    until(lambda: client.llen(MAIL.wake) == 1 and not client.info("clients")["blocked_clients"])
    assert places("mail") == {"pending": 1}
    gate.open()
    until(lambda: len(ledger.ended) == 2)
    worker.stop()
    worker.join()


def test_a_burst_of_jobs_wakes_idle_workers_one_after_the_other(bench: Bench, client: redis.Redis) -> None:
    gate = Gate()
    ledger.do = gate.wait
    for _ in range(4):
        bench.worker(concurrency=1)
    until(lambda: client.info("clients")["blocked_clients"] == 4)
    fill(4)
    until(lambda: ledger.running == 4)
    assert len({job.claim.owner.rpartition(":")[0] for job in ledger.runs}) == 4
    gate.open()


def test_a_parked_worker_starts_a_scheduled_job_when_it_is_due(bench: Bench, client: redis.Redis) -> None:
    bench.worker()
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    done = jobs.enqueue("default", b"{}", delay=0.4)
    until(lambda: ledger.ids == [done.id])
    assert ledger.runs[0].attempt == 1


# --- fetching ahead -----------------------------------------------------------------------------------------------


def test_long_jobs_are_not_fetched_ahead(bench: Bench) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(10)
    worker = bench.worker(concurrency=2)
    until(lambda: ledger.running == 2)
    assert places() == {"active": 2, "pending": 8}
    assert worker.link._prefetch() == 0
    gate.open()


def test_short_jobs_are_fetched_ahead(bench: Bench) -> None:
    gate = Gate()
    ledger.do = lambda job: gate.wait() if job.payload == b"long" else None
    worker = bench.worker(concurrency=2)
    worker.link._mean_job = 0.0001  # as after a thousand jobs that do nothing
    jobs.enqueue_many("default", ["short"] * 200)
    until(lambda: len(ledger.ended) == 200)
    assert worker.link._prefetch() > 0
    jobs.enqueue_many("default", ["long"] * 300)
    until(lambda: jobs.counts("default").active > 2)
    assert ledger.running <= 2
    gate.open()
    until(lambda: places() == {})
    assert {job.attempt for job in ledger.runs} == {1}


def test_fetching_ahead_has_a_bound(bench: Bench) -> None:
    link = bench.worker(concurrency=500).link
    link._mean_job, link._round_trip = 1e-9, 1.0
    assert link._prefetch() == PREFETCH_MAX


def test_the_link_waits_only_while_jobs_that_were_fetched_ahead_are_at_hand(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker(concurrency=4)
    worker.stop()
    worker.join()
    link, slept = worker.link, []
    monkeypatch.setattr(link_module.time, "sleep", slept.append)
    link._stopping, link._mean_job = False, 0.0001

    def linger(busy: int) -> None:
        link._busy = busy
        link._linger()

    linger(0)
    linger(4)  # each thread has its job, and none waits
    assert slept == []
    linger(44)  # 40 more last a millisecond; by the half of it there is something to settle, and there are jobs left
    linger(40_004)
    assert slept == [pytest.approx(0.0005), LINGER]
    link._stopping = True
    linger(44)
    assert len(slept) == 2


# --- when it ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 5, 7])
def test_max_jobs_is_exact(bench: Bench, number: int) -> None:
    fill(10)
    fill(10, "mail")
    worker = bench.worker(queues=("default", "mail"), max_jobs=number, concurrency=4)
    assert worker.join() == 0
    assert len(ledger.runs) == number
    assert worker.link.worn_out
    assert worker.link.why_stopped == f"{number} jobs were enough"
    assert (places().get("active"), places("mail").get("active")) == (None, None)
    assert places().get("pending", 0) + places("mail").get("pending", 0) == 20 - number


def test_a_worn_out_process_asks_its_supervisor_for_a_successor(bench: Bench) -> None:
    fill(2)
    assert bench.worker(max_jobs=1, supervisor=os.getppid()).join() == WORN_OUT
    assert bench.worker(max_jobs=1).join() == 0


def test_too_much_memory_ends_a_process_after_the_jobs_that_run(bench: Bench) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(1)
    worker = bench.worker(max_memory=1, supervisor=os.getppid())
    until(lambda: worker.link.worn_out)
    if ledger.running:
        assert not worker.has_ended
    gate.open()
    assert worker.join() == WORN_OUT
    assert worker.link.why_stopped == "it holds more than 1 MB"
    assert places().get("active") is None


def test_a_worker_whose_supervisor_has_gone_ends(bench: Bench) -> None:
    worker = bench.worker(supervisor=os.getpid())
    assert worker.join() == 0
    assert worker.link.why_stopped == "its supervisor has gone"


def test_an_idle_worker_ends_after_its_idle_time_and_a_busy_one_does_not(bench: Bench) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(1)
    worker = bench.worker(max_idle_time=0.3)
    until(lambda: ledger.running == 1)
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 0.9)
    assert not worker.has_ended
    assert not worker.link._stopping
    gate.open()
    assert worker.join() == 0
    assert worker.link.why_stopped == "idle for 0.3 s"
    assert not worker.link.worn_out


def test_a_burst_on_empty_queues_ends(bench: Bench) -> None:
    worker = bench.burst(queues=("default", "mail"))
    assert worker.code == 0
    assert worker.link.why_stopped == "nothing is left to do"
    assert worker.link.tally == "no jobs"


def test_a_burst_waits_for_retries_that_are_due_soon(bench: Bench) -> None:
    bench.queues(default={"BACKOFF_BASE": 0.3, "BACKOFF_CAP": 0.3, "MAX_ATTEMPTS": 3})

    def fail_twice(job: HeldJob) -> None:
        if job.attempt < 3:
            raise ValueError("not yet")

    ledger.do = fail_twice
    fill(3)
    worker = bench.burst()
    assert worker.link.tally == "3 completed, 6 retried"
    assert places() == {}


def test_a_burst_leaves_what_is_due_in_an_hour(bench: Bench) -> None:
    jobs.enqueue("default", b"{}", delay=3600)
    fill(2)
    bench.burst()
    assert len(ledger.runs) == 2
    assert places() == {"schedule": 1}


def test_a_burst_leaves_a_paused_queue(bench: Bench) -> None:
    fill(2)
    fill(3, "mail")
    jobs.pause("mail")
    bench.burst(queues=("default", "mail"))
    assert len(ledger.runs) == 2
    assert places("mail") == {"pending": 3}


def test_a_burst_waits_for_what_another_worker_left_behind(bench: Bench) -> None:
    bench.queues(default={"LEASE": 0.6})
    [job_id] = fill(1)
    jobs.claim("default")
    worker = bench.burst(reap=True)
    assert ledger.ids == [job_id]
    assert (ledger.runs[0].token, ledger.runs[0].attempt) == (2, 1)
    assert worker.link.tally == "1 completed"


def test_a_burst_waits_for_what_another_worker_runs(bench: Bench) -> None:
    fill(1)
    [claim] = jobs.claim("default")
    worker = bench.worker(burst=True)
    until(lambda: worker.link._claiming.cold())
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 0.3)
    assert not worker.has_ended
    jobs.complete(claim)
    assert worker.join() == 0


# --- stopping -----------------------------------------------------------------------------------------------------


def test_a_stop_finishes_what_runs_and_gives_back_what_was_not_started(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker()
    worker.link._prefetch = lambda: 3
    fill(10)
    until(lambda: jobs.counts("default").active == 5 and ledger.running == 2)
    worker.stop()
    until(lambda: jobs.counts("default").active == 2)
    assert not worker.has_ended
    gate.open()
    assert worker.join() == 0
    assert worker.link.tally == "2 completed, 3 released"
    assert places() == {"pending": 8}
    left = jobs.page("default", Location.PENDING)
    assert [job.spared for job in left].count(1) == 3
    assert {job.attempt for job in left} == {0}
    messages = told(caplog, logging.INFO)
    assert "stopping (the test wants it), 2 jobs still run" in messages
    assert messages[-1].endswith("has ended (the test wants it): 2 completed, 3 released")


def test_a_stop_claims_nothing_more(bench: Bench) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(2)
    worker = bench.worker()
    until(lambda: ledger.running == 2)
    worker.stop()
    until(lambda: worker.link._stopping)
    fill(5)
    gate.open()
    assert worker.join() == 0
    assert len(ledger.runs) == 2
    assert places() == {"pending": 5}


def test_a_job_that_fails_during_a_stop_is_retried_and_may_enqueue_others(bench: Bench) -> None:
    gate = Gate()

    def fail(job: HeldJob) -> None:
        gate.wait()
        jobs.enqueue_many("mail", [1, 2, 3])
        raise ValueError("at the end")

    ledger.do = fail
    fill(1)
    worker = bench.worker()
    until(lambda: ledger.running == 1)
    worker.stop()
    until(lambda: worker.link._stopping)
    gate.open()
    assert worker.join() == 0
    assert places() == {"schedule": 1}
    assert places("mail") == {"pending": 3}


def test_a_job_that_outlasts_the_timeout_is_back_at_once_at_no_cost(bench: Bench) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(2)
    worker = bench.worker(shutdown_timeout=0.2)
    until(lambda: ledger.running == 2)
    worker.stop()
    assert worker.join() == 0
    assert places() == {"pending": 2}
    assert {(job.attempts, job.spared, job.stalled) for job in jobs.page("default", "pending")} == {(1, 1, 0)}
    gate.open()
    until(lambda: ledger.running == 0)
    assert places() == {"pending": 2}


def test_a_claim_that_is_under_way_when_the_stop_comes_strands_no_job(
    bench: Bench, client: redis.Redis, url: str
) -> None:
    worker = bench.worker()
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    with redis.Redis.from_url(url) as other:
        client.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
        enqueuer = threading.Thread(target=fill, args=(5,))
        enqueuer.start()
        worker.link._woken("default", False)
        until(lambda: worker.link._inbox.empty())
        worker.stop()
        other.execute_command("CLIENT", "UNPAUSE")
    enqueuer.join()
    assert worker.join() == 0
    assert places().get("active") is None
    assert places().get("pending", 0) + len(ledger.runs) == 5
    assert {job.attempt for job in jobs.page("default", "pending")} <= {0}


def test_a_second_stop_changes_nothing(bench: Bench) -> None:
    worker = bench.worker()
    for why in ("the first", "the second"):
        worker.process.stop(why)
    assert worker.join() == 0
    assert worker.link.why_stopped == "the first"


# --- the server is away -------------------------------------------------------------------------------------------


def one_line_each_way(caplog: pytest.LogCaptureFixture) -> bool:
    """Say whether the log tells once that the server went and once that it came back, and nothing else is wrong."""
    lines = [message for message in told(caplog, logging.INFO) if message.startswith("the server is")]
    warnings = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name == "echomq_django.worker"
    ]
    return [line[:18] for line in lines] == ["the server is away", "the server is back"] and len(warnings) == 1


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_worker_goes_on_after_the_server_was_away(
    bench: Bench, own: Any, plain: redis.Redis, caplog: pytest.LogCaptureFixture, busy: bool
) -> None:
    caplog.set_level(logging.INFO)
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker()
    if busy:
        fill(5)
        until(lambda: ledger.running == 2)
    else:
        until(lambda: plain.info("clients")["blocked_clients"] == 1)
    plain.config_set("appendfsync", "always")
    own.kill()
    gate.open()
    until(lambda: worker.link._pause > 0.15, "for the worker to notice")
    own.restart()
    fill(5)
    until(lambda: len(ledger.runs) == (10 if busy else 5) and places() == {})
    assert {job.attempt for job in ledger.runs} == {1}
    worker.stop()
    worker.join()
    assert worker.link.tally == f"{10 if busy else 5} completed"
    assert one_line_each_way(caplog)


def test_a_worker_that_starts_before_its_server_waits_for_it(
    bench: Bench, own: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    own.kill()
    worker = bench.worker()
    until(lambda: worker.link._pause > 0.15)
    own.restart()
    fill(3)
    until(lambda: len(ledger.ended) == 3)
    assert one_line_each_way(caplog)


def no_replicas(plain: redis.Redis) -> None:
    plain.config_set("min-replicas-to-write", 1)


def replicas_again(plain: redis.Redis) -> None:
    plain.config_set("min-replicas-to-write", 0)


def read_only(plain: redis.Redis) -> None:
    plain.execute_command("REPLICAOF", "127.0.0.1", "1")


def primary_again(plain: redis.Redis) -> None:
    plain.execute_command("REPLICAOF", "NO", "ONE")


REFUSALS = [
    pytest.param(no_replicas, replicas_again, id="NOREPLICAS"),
    pytest.param(read_only, primary_again, id="READONLY"),
]


@pytest.mark.parametrize(("turn", "back"), REFUSALS)
def test_a_failure_that_the_server_refuses_to_write_down_is_written_down_later(
    bench: Bench, own: Any, plain: redis.Redis, caplog: pytest.LogCaptureFixture, turn: Any, back: Any
) -> None:
    caplog.set_level(logging.INFO)
    bench.at(own.url, timeout=0.5, default={"BACKOFF_BASE": 0.1, "BACKOFF_CAP": 0.1})
    gate = Gate()

    def fail_once(job: HeldJob) -> None:
        gate.wait()
        if job.attempt == 1:
            raise ValueError("the first time")

    ledger.do = fail_once
    ids = fill(2)
    worker = bench.worker()
    until(lambda: ledger.running == 2)
    turn(plain)
    gate.open()
    until(lambda: worker.link._pause > 0.15)
    back(plain)
    until(lambda: len(ledger.ended) == 4)
    worker.stop()
    worker.join()
    assert sorted((job.id, job.attempt) for job in ledger.runs) == sorted((each, n) for each in ids for n in (1, 2))
    assert worker.link.tally == "2 completed, 2 retried"
    assert places() == {}
    assert one_line_each_way(caplog)


@pytest.mark.parametrize(("turn", "back"), REFUSALS)
def test_an_idle_worker_goes_on_after_the_server_refused_to_write(
    bench: Bench, own: Any, plain: redis.Redis, caplog: pytest.LogCaptureFixture, turn: Any, back: Any
) -> None:
    caplog.set_level(logging.INFO)
    worker = bench.worker()
    until(lambda: plain.info("clients")["blocked_clients"] == 1)
    turn(plain)
    until(lambda: worker.link._pause > 0.15)
    back(plain)
    fill(5)
    until(lambda: len(ledger.ended) == 5)
    assert one_line_each_way(caplog)


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "which has also forgotten the scripts"])
def test_a_full_server_drains(
    bench: Bench, own: Any, plain: redis.Redis, caplog: pytest.LogCaptureFixture, forgotten: bool
) -> None:
    bench.at(own.url, default={"MAX_ATTEMPTS": 2, "BACKOFF_BASE": 0.05, "BACKOFF_CAP": 0.05})
    fill(100)

    def fail_some(job: HeldJob) -> None:
        if job.data["number"] % 10 == 0:
            raise ValueError("one in ten")

    ledger.do = fail_some
    plain.config_set("maxmemory", 1)
    if forgotten:
        plain.script_flush()
    worker = bench.burst(reap=True)
    assert worker.link.tally == "90 completed, 10 retried, 10 dead"
    assert places() == {"dead": 10}
    assert told(caplog) == []


def test_a_server_that_forgets_its_scripts_all_the_time_is_not_noticed(
    bench: Bench, client: redis.Redis, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = fill(500)
    over = threading.Event()

    def forget() -> None:
        with redis.Redis.from_url(url) as other:
            while not over.wait(0.002):
                other.script_flush()

    forgetter = threading.Thread(target=forget)
    forgetter.start()
    try:
        worker = bench.burst(concurrency=4, reap=True)
    finally:
        over.set()
        forgetter.join()
    assert sorted(ledger.ids) == sorted(ids)
    assert worker.link.tally == "500 completed"
    assert places() == {}
    assert told(caplog) == []


def test_a_worker_can_be_stopped_while_the_server_is_away(bench: Bench, own: Any) -> None:
    worker = bench.worker(shutdown_timeout=0.3)
    own.kill()
    until(lambda: worker.link._pause > 0.1)
    worker.stop()
    assert worker.join() == 0
    own.restart()


# --- nothing to do ------------------------------------------------------------------------------------------------


def sent(client: redis.Redis) -> int:
    """Count the commands of clients, without what scripts call and what this test asks."""
    counts: dict[str, Any] = client.info("commandstats")
    return sum(counts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "blpop"))


@pytest.mark.slow
def test_an_idle_worker_sends_at_most_two_commands_a_second(bench: Bench, client: redis.Redis) -> None:
    sweep("default")  # a script that is new to the server is sent twice
    worker = bench.worker(concurrency=4, reap=True)
    until(lambda: worker.link._waiters["default"].parked)
    before, started = sent(client), time.monotonic()
    # By its timers 33 at most in that time, when all that may fall on its edges does.
    until(lambda: time.monotonic() >= started + 18.0)
    assert 0 < sent(client) - before <= 2 * (time.monotonic() - started)


# --- jobs that were lost ------------------------------------------------------------------------------------------


def take_away(job_id: str, client: redis.Redis) -> None:
    """End a job's lease and reap it, as if its worker had been paused for long."""
    client.zadd(DEFAULT.active, {job_id: 1})
    jobs.reap("default")  # the first one only learns which server this is
    client.hset(DEFAULT.meta, "reap_after", 1)
    jobs.reap("default")


def test_the_late_outcome_of_a_lost_job_is_refused_and_the_worker_goes_on(
    bench: Bench, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker(concurrency=1)
    [job_id] = fill(1)
    until(lambda: ledger.running == 1)
    take_away(job_id, client)
    [other] = jobs.claim("default")
    assert other.token == 2
    before = {key: value for key, value in dump(client).items() if key.startswith("emq:{") and key != DEFAULT.wake}
    gate.open()
    until(lambda: worker.link.tally == "1 lost")
    after = {key: value for key, value in dump(client).items() if key.startswith("emq:{") and key != DEFAULT.wake}
    assert after == before
    [message] = told(caplog)
    assert message == f"job {job_id} of queue 'default': token 1 no longer holds it (lost); its outcome is dropped"
    jobs.complete(other)
    fill(1)
    until(lambda: worker.link.tally == "1 completed, 1 lost")


def test_a_job_that_its_own_process_claimed_again_is_done_by_the_later_claim_only(
    bench: Bench, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    ledger.do = lambda job: gate.wait() if job.token == 1 else None
    worker = bench.worker(concurrency=2)
    [job_id] = fill(1)
    until(lambda: ledger.running == 1)
    take_away(job_id, client)
    until(lambda: worker.link.tally == "1 completed")
    gate.open()
    until(lambda: worker.link.tally == "1 completed, 1 lost")
    first, second = ledger.runs
    assert (first.id, first.token, second.id, second.token) == (job_id, 1, job_id, 2)
    assert first.claim.owner != second.claim.owner
    assert first.claim.owner.rpartition(":")[0] == second.claim.owner.rpartition(":")[0]
    assert len(told(caplog)) == 1
    assert jobs.counts("default").completed == 1
    assert places() == {}


def test_a_handler_hears_that_its_job_was_lost(bench: Bench, client: redis.Redis) -> None:
    bench.queues(default={"LEASE": 3})
    heard = threading.Event()

    def look(job: HeldJob) -> None:
        until(lambda: job.lost)
        heard.set()

    ledger.do = look
    worker = bench.worker(concurrency=1)
    [job_id] = fill(1)
    until(lambda: ledger.running == 1)
    take_away(job_id, client)
    assert heard.wait(20)
    ledger.do = lambda job: None
    until(lambda: places() == {})
    worker.stop()
    worker.join()


# --- jobs that cannot be run --------------------------------------------------------------------------------------


def test_a_job_without_a_handler_here_is_put_off_and_the_next_one_runs(
    bench: Bench, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    bench.queues(default={"HANDLER": "tests.handlers.no_such_handler"})
    [job_id] = fill(1)
    fill(1, "mail")
    worker = bench.worker(queues=("default", "mail"))
    until(lambda: worker.link.tally == "1 completed, 1 deferred")
    assert places() == {"schedule": 1}
    job = jobs.get("default", job_id)
    assert (job.attempts, job.spared, job.errors) == (1, 1, ())
    [message] = told(caplog)
    assert "tests.handlers.no_such_handler" in message
    client.hset(DEFAULT.row(job_id), "deferred_at", 1)  # since 1970
    jobs.advance("default", job_id)
    until(lambda: places() == {"dead": 1})
    assert "cannot be imported" in jobs.get("default", job_id).last_error


def test_what_is_no_callable_fails_and_says_so(bench: Bench) -> None:
    bench.queues(default={"HANDLER": "tests.handlers.not_a_handler", "MAX_ATTEMPTS": 1})
    [job_id] = fill(1)
    bench.burst()
    assert "not callable" in jobs.get("default", job_id).last_error


def test_an_undecodable_payload_is_dead_at_once_and_kept(bench: Bench) -> None:
    ledger.do = lambda job: job.data
    done = jobs.enqueue("default", b"\x80\x04junk")
    worker = bench.burst()
    assert worker.link.tally == "1 dead"
    job = jobs.get("default", done.id)
    assert (job.location, job.payload, job.attempts) == ("dead", b"\x80\x04junk", 1)


@pytest.mark.parametrize(
    "error",
    [SystemExit(), KeyboardInterrupt(), MemoryError(), ValueError("half \ud800 nul \0"), ValueError("x" * 5_000_000)],
    ids=["SystemExit", "KeyboardInterrupt", "MemoryError", "half", "long"],
)
def test_whatever_a_handler_raises_is_stored_and_the_worker_lives(bench: Bench, error: BaseException) -> None:
    bench.queues(default={"MAX_ATTEMPTS": 1})

    def fail(job: HeldJob) -> None:
        raise error

    ledger.do = fail
    [job_id] = fill(1)
    worker = bench.burst(concurrency=1)
    assert worker.link.tally == "1 dead"
    [record] = jobs.get("default", job_id).errors
    assert record.error == f"builtins.{type(error).__name__}"
    assert "\0" not in record.message + record.traceback


def test_a_job_that_used_up_all_its_claims_is_buried_unrun(bench: Bench, client: redis.Redis) -> None:
    [job_id] = fill(1)
    client.hset(DEFAULT.row(job_id), "attempts", 8)  # five attempts and three crashes are what it may have
    bench.burst()
    assert ledger.runs == []
    job = jobs.get("default", job_id)
    assert job.location == "dead"
    assert "claimed 9 times" in job.last_error


# --- what others see of it ----------------------------------------------------------------------------------------


def test_a_worker_announces_itself_and_says_farewell(bench: Bench, client: redis.Redis) -> None:
    gate = Gate()
    ledger.do = gate.wait
    fill(1)
    worker = bench.worker(queues=("default", "mail"), concurrency=3, worker_id="web 1")
    until(lambda: jobs.workers())
    [info] = jobs.workers()
    assert info.id.startswith(f"web-1:{os.getpid()}:")
    assert info.silent_ms < 20_000
    assert {name: info.facts[name] for name in ("host", "pid", "queues", "concurrency")} == {
        "host": "web-1",
        "pid": str(os.getpid()),
        "queues": "default,mail",
        "concurrency": "3",
    }
    assert abs(int(info.facts["started_at"]) / 1000 - time.time()) < 60
    until(lambda: ledger.running == 1)
    assert ledger.runs[0].claim.owner.startswith(info.id + ":")
    gate.open()
    worker.stop()
    worker.join()
    assert jobs.workers() == []
    assert not client.keys("{emq}:worker:*")


def test_the_heartbeat_file_is_touched_only_when_the_server_was_reached(bench: Bench, own: Any, tmp_path: Path) -> None:
    path = tmp_path / "alive"
    worker = bench.worker(heartbeat_file=path)
    until(path.exists)
    own.kill()
    until(lambda: worker.link._pause > 0.05)
    path.unlink()
    until(lambda: worker.link._pause > 0.4, "for some more attempts")
    assert not path.exists()
    own.restart()
    until(path.exists)


def test_an_idle_worker_touches_its_heartbeat_file_again_and_again(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "alive"
    bench.worker(heartbeat_file=path)
    for _ in range(2):
        until(path.exists)
        path.unlink()
    until(path.exists)


def test_every_job_has_a_line_at_debug(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "echomq_django.worker")
    [job_id] = fill(1)
    bench.burst()
    assert f"job {job_id} of queue 'default' completed, attempt 1" in told(caplog, logging.DEBUG)


def test_a_worker_leaves_no_connection_and_no_thread(bench: Bench, client: redis.Redis) -> None:
    connection.client().close()
    # Those of tests before this one, which look at parts of a worker.
    connected = {each["id"] for each in client.client_list()}
    others = set(threading.enumerate())
    fill(5)
    worker = bench.burst(queues=("default", "mail"), reap=True)

    def left() -> list[str]:
        return [each.name for each in set(threading.enumerate()) - others if each.name.startswith("echomq-")]

    with contextlib.suppress(AssertionError):
        until(lambda: not left())
    assert left() == []
    connection.client().close()
    until(lambda: {each["id"] for each in client.client_list()} <= connected)
    assert json.dumps(worker.link.tally) == '"5 completed"'


def test_a_job_that_was_done_is_not_given_back_because_its_report_was_unread(
    bench: Bench, url: str, client: redis.Redis
) -> None:
    for script in scripts.ALL:
        client.script_load(script.source)
    with lossy(url) as proxy:
        bench.at(proxy.url, timeout=0.5)
        gate = Gate()
        ledger.do = gate.wait
        worker = bench.worker(concurrency=1, shutdown_timeout=0.05)
        worker.link._prefetch = lambda: 1
        jobs.enqueue_many("default", ["job"] * 2)
        until(lambda: jobs.counts("default").active == 2 and ledger.running == 1)

        def meanwhile() -> None:
            gate.open()
            until(lambda: not worker.link._inbox.empty())
            time.sleep(0.1)

        proxy.lose(scripts.release.sha, 1, CLOSE, meanwhile=meanwhile)
        worker.stop()
        worker.join()
        assert jobs.counts("default", using="default").completed == 1
        assert places() == {"pending": 1}
        bench.__exit__()
        connection.client().close()


def test_short_jobs_are_fetched_ahead_and_given_back_at_no_cost_when_long_ones_come(bench: Bench) -> None:
    gate = Gate()
    ledger.do = lambda job: gate.wait() if job.payload == b"long" else None
    worker = bench.worker(concurrency=2)
    link = worker.link
    link._mean_job = 0.0001  # as after a thousand jobs that do nothing
    jobs.enqueue_many("default", ["short"] * 200)
    until(lambda: len(ledger.ended) == 200)
    assert link._prefetch() > 0
    jobs.enqueue_many("default", ["long"] * 600)
    until(lambda: jobs.counts("default").active > 2, "for jobs to be fetched ahead")
    until(lambda: jobs.counts("default").active == 2, "for them to be given back")
    spared = [job.spared for job in jobs.page("default", Location.PENDING, 0, 500)]
    assert jobs.counts("default").pending == 598
    assert set(spared) == {0, 1}
    gate.open()
    until(lambda: places() == {})
    assert {job.attempt for job in ledger.runs} == {1}
