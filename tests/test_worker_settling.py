"""settling: each outcome reaches the server once, whatever happens to the connection."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import conf, connection, jobs, keys, scripts
from echomq_django.connection import Client
from echomq_django.exceptions import ServerUnavailable
from echomq_django.job import ErrorRecord, Location
from echomq_django.worker.heartbeat import Heartbeat
from echomq_django.worker.held import HeldJob
from echomq_django.worker.outcome import Complete, Defer, Fail, Release
from echomq_django.worker.plan import Plan
from echomq_django.worker.settling import Settling
from tests.handlers import Bench, Gate, ledger, told, until
from tests.lossy import CLOSE, DROP, STALL, Lossy, lossy
from tests.server import dump

DEFAULT, MAIL = keys.of("default"), keys.of("mail")
TIMES = pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["once", "ten times"])
ERROR = ErrorRecord("builtins.ValueError", "ValueError: x", "Traceback …", 1, "host:1:abcd1234", 1, 2)


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    for script in scripts.ALL:
        client.script_load(script.source)
    with Bench(settings, url) as bench:
        yield bench


@pytest.fixture
def proxy(bench: Bench, url: str) -> Iterator[Lossy]:
    """Put a proxy before the server."""
    with lossy(url) as proxy:
        bench.at(proxy.url, timeout=0.5)
        yield proxy
        bench.__exit__()
        connection.client().close()


class Desk:
    """Settle, turn by turn, as the link does."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat(conf.alias(), ("default", "mail"))
        self._client = Client(conf.alias())
        self.settling = Settling(conf.alias(), self.heartbeat)

    def hold(self, number: int = 1, queue: str = "default") -> list[HeldJob]:
        jobs.enqueue_many(queue, [{"number": each} for each in range(number)])
        held = [HeldJob(claim, time.monotonic() + 30) for claim in jobs.claim(queue, number)]
        self.heartbeat.hold(held)
        return held

    def turn(self) -> int:
        """Do one turn; how many calls it took."""
        plan = Plan()
        self.settling.plan(plan)
        try:
            results = self._client.attempt(plan.calls)
        except ServerUnavailable as error:
            results = [error] * len(plan.calls)
        for then, result in zip(plan.then, results, strict=True):
            then(result)
        return len(plan.calls)

    @property
    def tally(self) -> str:
        return str(self.settling.tally)

    def close(self) -> None:
        self._client.close()
        self.heartbeat._client.close()


@pytest.fixture
def desk(bench: Bench) -> Iterator[Callable[[], Desk]]:
    made: list[Desk] = []

    def make() -> Desk:
        made.append(Desk())
        return made[-1]

    yield make
    for each in made:
        each.close()


# --- group commit -------------------------------------------------------------------------------------------------


def test_all_finished_jobs_of_a_queue_are_completed_by_one_command(desk: Any, client: redis.Redis) -> None:
    one = desk()
    for job in one.hold(30) + one.hold(20, "mail"):
        one.settling.add(job, Complete())
    client.config_resetstat()
    assert one.turn() == 2
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == 2
    assert one.tally == "50 completed"
    assert (jobs.counts("default").active, jobs.counts("mail").active) == (0, 0)


def test_more_than_a_script_takes_are_two_commands(desk: Any) -> None:
    one = desk()
    for job in one.hold(500) + one.hold(1):
        one.settling.add(job, Complete())
    assert one.turn() == 2
    assert one.tally == "501 completed"


def test_each_job_is_kept_with_its_own_result_and_its_queue_s_time(
    bench: Bench, desk: Any, client: redis.Redis
) -> None:
    bench.queues(default={"RESULT_TTL": 60, "KEEP_COMPLETED": 2}, mail={"KEEP_COMPLETED": 0})
    one = desk()
    first, second, third = one.hold(3)
    [other] = one.hold(1, "mail")
    for job, outcome in ((first, Complete("1")), (second, Complete()), (third, Complete("3")), (other, Complete("4"))):
        one.settling.add(job, outcome)
    assert one.turn() == 2
    assert [jobs.get("default", job.id).result for job in (first, second, third)] == [b"1", None, b"3"]
    assert 50_000 < client.pttl(DEFAULT.result(first.id)) <= 60_000
    assert [job.id for job in jobs.recent("default")] == [third.id, second.id]
    assert client.keys(f"*{other.id}*") == client.keys(MAIL.recent) == []


def test_released_jobs_go_back_by_one_command_at_no_cost(desk: Any) -> None:
    one = desk()
    held = one.hold(30)
    for job in held:
        one.settling.add(job, Release())
    assert one.turn() == 1
    assert one.tally == "30 released"
    for job in jobs.page("default", Location.PENDING):
        assert (job.attempts, job.spared, job.attempt, job.stalled) == (1, 1, 0, 0)


def test_every_outcome_has_its_place(desk: Any) -> None:
    one = desk()
    completed, failed, buried, deferred, released = one.hold(5)
    one.settling.add(completed, Complete())
    one.settling.add(failed, Fail(ERROR))
    one.settling.add(buried, Fail(ERROR, bury=True))
    one.settling.add(deferred, Defer("handler 'x.y' cannot be imported", 30.0))
    one.settling.add(released, Release())
    assert len(one.settling) == 5
    one.turn()
    assert len(one.settling) == 0
    assert one.heartbeat.held() == []
    assert one.tally == "1 completed, 1 retried, 1 dead, 1 deferred, 1 released"
    places = {job.id: jobs.location("default", job.id) for job in (completed, failed, buried, deferred, released)}
    assert list(places.values()) == [None, "schedule", "dead", "schedule", "pending"]
    dead = jobs.get("default", buried.id)
    assert (dead.last_error, dead.errors, dead.payload) == ("ValueError: x", (ERROR,), b'{"number":2}')


def test_a_job_with_a_maximum_of_its_own_dies_by_it(desk: Any) -> None:
    one = desk()
    jobs.enqueue("default", b"{}", max_attempts=1)
    [claim] = jobs.claim("default")
    one.settling.add(HeldJob(claim, time.monotonic() + 30), Fail(ERROR))
    one.turn()
    assert one.tally == "1 dead"


def test_deferred_jobs_are_warned_of_once_a_minute_for_each_queue(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    one = desk()
    for job in one.hold(10) + one.hold(10, "mail"):
        one.settling.add(job, Defer("handler 'x.y' cannot be imported", 30.0))
        one.turn()
    assert one.tally == "20 deferred"
    assert len(told(caplog)) == 2
    assert all("handler 'x.y' cannot be imported" in message for message in told(caplog))


def test_a_settle_that_the_server_cannot_carry_out_is_told_and_left_to_its_lease(
    desk: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    one = desk()
    [job] = one.hold()
    [other] = one.hold(queue="mail")
    client.set(DEFAULT.dead, "no sorted set")
    one.settling.add(job, Complete())
    one.settling.add(other, Complete())
    one.turn()
    assert one.tally == "1 completed"
    assert len(one.settling) == 0
    [message] = told(caplog)
    assert f"<job {job.id} of queue 'default', attempt 1> could not be settled" in message
    assert client.zscore(DEFAULT.active, job.id) is not None


# --- late settles -------------------------------------------------------------------------------------------------


def take_away(job: HeldJob, client: redis.Redis) -> None:
    """End a job's lease and reap it, as if its worker had been paused for long."""
    place = keys.of(job.queue)
    client.zadd(place.active, {job.id: 1})
    jobs.reap(job.queue)  # the first one only learns which server this is
    client.hset(place.meta, "reap_after", 1)
    jobs.reap(job.queue)
    assert client.zscore(place.active, job.id) is None


@pytest.mark.parametrize(
    "outcome",
    [Complete(), Fail(ERROR), Fail(ERROR, bury=True), Defer("unknown", 5.0), Release()],
    ids=["complete", "retry", "bury", "defer", "release"],
)
def test_a_late_settle_of_a_job_that_another_claim_holds_is_refused_and_changes_nothing(
    desk: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture, outcome: Any
) -> None:
    one = desk()
    [job] = one.hold()
    take_away(job, client)
    assert len(jobs.claim("default")) == 1
    before = dump(client)
    one.settling.add(job, outcome)
    one.turn()
    assert dump(client) == before
    assert one.tally == "1 lost"
    # Nothing is dropped when a job that was not run is refused.
    expected = [] if isinstance(outcome, Release) else [f"job {job.id} of queue 'default': token 1 no longer holds it"]
    assert [message.partition(" (lost)")[0] for message in told(caplog)] == expected


def test_a_lost_job_is_warned_of_once_by_whoever_notices_first(
    desk: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    one = desk()
    [job] = one.hold()
    take_away(job, client)
    assert len(jobs.claim("default")) == 1
    one.heartbeat.beat()
    assert job.lost
    one.settling.add(job, Complete())
    one.turn()
    assert one.tally == "1 lost"
    assert len(told(caplog)) == 1


def test_a_job_lost_to_the_reaper_and_not_claimed_since_completes_all_the_same(
    desk: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    one = desk()
    [job] = one.hold()
    take_away(job, client)
    assert jobs.counts("default").pending == 1
    one.settling.add(job, Complete())
    one.turn()
    assert one.tally == "1 completed"
    assert told(caplog) == []
    assert jobs.location("default", job.id) is None


# --- replies that are lost ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CLOSE, DROP, STALL])
def test_a_completion_is_sent_until_it_is_answered_and_counted_once(
    desk: Any, proxy: Lossy, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    one = desk()
    for job in one.hold(5):
        one.settling.add(job, Complete())
    proxy.lose(scripts.complete.sha, 2, mode)
    turns = 0
    while len(one.settling):
        one.turn()
        turns += 1
    assert turns == 3
    assert one.tally == "5 completed"
    assert jobs.counts("default").completed == 5
    assert told(caplog) == []


def settled_in_peace(caplog: pytest.LogCaptureFixture) -> bool:
    """Say whether nobody was warned but of the connection."""
    return all(message.startswith("the server is away") for message in told(caplog))


@TIMES
def test_lost_replies_to_completions_let_no_job_run_twice(
    bench: Bench, proxy: Lossy, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    done = jobs.enqueue_many("default", [{"number": each} for each in range(50)])
    proxy.lose(scripts.complete.sha, times)
    worker = bench.burst()
    assert proxy.lost == times
    assert sorted(ledger.ids) == sorted(each.id for each in done)
    assert worker.link.tally == "50 completed"
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.completed) == (0, 0, 50)
    assert settled_in_peace(caplog)


@TIMES
def test_lost_replies_to_retries_let_every_attempt_run_once(
    bench: Bench, proxy: Lossy, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    bench.at(proxy.url, default={"MAX_ATTEMPTS": 2, "BACKOFF_BASE": 0.5, "BACKOFF_CAP": 0.5})
    done = jobs.enqueue_many("default", [{"number": each} for each in range(10)])

    def fail(job: HeldJob) -> None:
        raise ValueError(job.attempt)

    ledger.do = fail
    proxy.lose(scripts.retry.sha, times)
    worker = bench.burst(concurrency=4)
    assert proxy.lost == times
    assert Counter((job.id, job.attempt) for job in ledger.runs) == Counter(
        (each.id, attempt) for each in done for attempt in (1, 2)
    )
    assert worker.link.tally == "10 retried, 10 dead"
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.schedule, counts.dead) == (0, 0, 0, 10)
    for job in jobs.page("default", Location.DEAD):
        assert [record.attempt for record in jobs.get("default", job.id).errors] == [1, 2]
    assert settled_in_peace(caplog)


@TIMES
def test_lost_replies_to_releases_strand_no_job(
    bench: Bench, proxy: Lossy, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    gate = Gate()
    ledger.do = gate.wait
    worker = bench.worker(concurrency=1)
    worker.link._prefetch = lambda: 9
    done = jobs.enqueue_many("default", [{"number": each} for each in range(10)])
    until(lambda: jobs.counts("default").active == 10 and ledger.running == 1)
    proxy.lose(scripts.release.sha, times)
    worker.stop()
    until(lambda: proxy.lost == times)
    gate.open()
    assert worker.join() == 0
    assert len(ledger.runs) == 1
    assert worker.link.tally == "1 completed, 9 released"
    counts = jobs.counts("default")
    assert (counts.pending, counts.active) == (9, 0)
    left = jobs.page("default", Location.PENDING)
    assert {job.id for job in left} == {each.id for each in done} - set(ledger.ids)
    assert {(job.attempts, job.spared) for job in left} == {(1, 1)}
    assert settled_in_peace(caplog)


@TIMES
def test_lost_replies_to_heartbeats_lose_no_job(
    bench: Bench, proxy: Lossy, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    bench.at(proxy.url, default={"LEASE": 2})
    gate = Gate()
    ledger.do = gate.wait
    jobs.enqueue_many("default", [{"number": each} for each in range(2)])
    worker = bench.worker(reap=True)
    until(lambda: ledger.running == 2)
    proxy.lose(scripts.extend.sha, times)
    until(lambda: proxy.lost == times)
    gate.open()
    worker.stop()
    worker.join()
    assert len(ledger.runs) == 2
    assert worker.link.tally == "2 completed"
    assert told(caplog, logging.WARNING) == []
