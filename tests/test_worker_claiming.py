"""claiming: which queue is asked for how many jobs, and what a lost answer costs (nothing)."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import conf, connection, jobs, keys, scripts, transitions
from echomq_django.connection import Client
from echomq_django.exceptions import ServerUnavailable
from echomq_django.worker import claiming
from echomq_django.worker.claiming import Claiming
from echomq_django.worker.heartbeat import Heartbeat
from echomq_django.worker.held import HeldJob
from echomq_django.worker.plan import Plan
from tests.handlers import Bench, ledger, told, until
from tests.lossy import CLOSE, DROP, STALL, Lossy, lossy

DEFAULT = keys.of("default")
QUEUES = ("a", "b", "c")
TIMES = pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["once", "ten times"])


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    for script in scripts.ALL:
        client.script_load(script.source)
    with Bench(settings, url) as bench:
        bench.queues(a={}, b={}, c={})
        yield bench


@pytest.fixture
def proxy(bench: Bench, url: str) -> Iterator[Lossy]:
    """Put a proxy before the server."""
    with lossy(url) as proxy:
        bench.at(proxy.url, timeout=0.5, a={}, b={}, c={})
        yield proxy
        bench.__exit__()
        connection.client().close()


class Desk:
    """Claim, turn by turn, as the link does."""

    def __init__(self, *queues: str) -> None:
        config = conf.alias()
        self.begun: list[HeldJob] = []
        self.heartbeat = Heartbeat(config, queues)
        self._client = Client(config)
        self.claiming = Claiming(config, queues, "host:1:abcd1234", self.heartbeat, self.begun.extend)

    def turn(self, room: int = 10) -> list[int]:
        """Do one turn; how many calls were sent in each round trip."""
        plan = Plan()
        self.claiming.plan_recovery(plan)
        self.claiming.plan(plan, room)
        sizes = []
        while plan.calls:
            calls, thens = plan.calls, plan.then
            plan.calls, plan.then = [], []
            sizes.append(len(calls))
            try:
                results = self._client.attempt(calls)
            except ServerUnavailable as error:
                results = [error] * len(calls)
            for then, result in zip(thens, results, strict=True):
                then(result)
        return sizes

    def take(self) -> Counter[str]:
        counted = Counter(job.queue for job in self.begun)
        self.begun.clear()
        return counted

    def close(self) -> None:
        self._client.close()
        self.heartbeat._client.close()


@pytest.fixture
def desk(bench: Bench) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(*queues: str) -> Desk:
        made.append(Desk(*(queues or QUEUES)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fill(*queues: str, number: int = 10) -> None:
    for queue in queues:
        jobs.enqueue_many(queue, [{"number": each} for each in range(number)])


# --- who is asked, and for how many -------------------------------------------------------------------------------


def test_hot_queues_share_the_room_in_one_round_trip(desk: Any) -> None:
    fill(*QUEUES)
    one = desk()
    assert one.turn(10) == [3]
    assert sorted(one.take().values()) == [3, 3, 4]


def test_a_room_smaller_than_the_number_of_queues_is_not_exceeded(desk: Any) -> None:
    fill(*QUEUES)
    one = desk()
    assert one.turn(2) == [2]
    assert sorted(one.take().values()) == [1, 1]


def test_no_queue_is_always_asked_first(desk: Any) -> None:
    fill(*QUEUES, number=40)
    one = desk()
    for _ in range(40):
        one.turn(1)
    assert set(one.take()) == set(QUEUES)


@pytest.mark.parametrize("room", [0, -3])
def test_without_room_nobody_is_asked(desk: Any, room: int) -> None:
    fill(*QUEUES)
    assert desk().turn(room) == []


def test_one_claim_asks_for_no_more_than_a_script_takes(desk: Any) -> None:
    fill("a", number=501)
    one = desk("a")
    one.turn(1200)
    assert one.take() == {"a": 500}
    assert one.claiming.any_hot
    one.turn(1200)
    assert one.take() == {"a": 1}
    assert not one.claiming.any_hot


def test_a_queue_that_had_less_than_was_asked_for_is_asked_no_more_until_it_is_heated(desk: Any) -> None:
    fill("a", number=2)
    one = desk()
    one.turn(9)
    assert one.take() == {"a": 2}
    assert not one.claiming.any_hot
    assert one.turn(9) == []
    fill("b", number=1)
    one.claiming.heat("b")
    assert one.turn(9) == [1]
    assert one.take() == {"b": 1}
    one.claiming.heat()
    assert one.turn(9) == [3]


def test_a_queue_that_had_as_many_as_were_asked_for_stays_hot(desk: Any) -> None:
    fill("a", number=3)
    one = desk("a")
    one.turn(3)
    assert one.take() == {"a": 3}
    assert one.claiming.any_hot


def test_cold_queues_tell_when_their_next_job_is_due(desk: Any) -> None:
    jobs.enqueue("b", b"later", delay=100)
    one = desk("a", "b")
    assert one.claiming.cold() == []
    one.turn()
    due = dict(one.claiming.cold())
    assert due["a"] is None
    assert time.monotonic() + 50 < due["b"] <= time.monotonic() + 100


def test_a_job_that_is_due_is_claimed_without_anybody_promoting_it(desk: Any, client: redis.Redis) -> None:
    done = jobs.enqueue("a", b"later", delay=100)
    client.zadd(keys.of("a").schedule, {done.id: 1})
    one = desk("a")
    one.turn()
    assert one.take() == {"a": 1}


def test_a_paused_queue_gives_nothing_and_is_cold(desk: Any) -> None:
    fill("a")
    jobs.pause("a")
    one = desk("a")
    one.turn()
    assert not one.begun
    assert not one.claiming.any_hot
    jobs.resume("a")
    one.claiming.heat("a")
    one.turn()
    assert one.take() == {"a": 10}


def test_every_claim_has_a_nonce_of_its_own(desk: Any) -> None:
    fill(*QUEUES)
    one = desk()
    for _ in range(3):
        one.turn(3)
    owners = {job.claim.owner for job in one.begun}
    assert len(owners) == len(one.begun) == 9
    assert {owner.rpartition(":")[0] for owner in owners} == {"host:1:abcd1234"}


def test_claimed_jobs_are_held_from_the_sending_of_their_claim_on(desk: Any) -> None:
    fill("a", number=3)
    one = desk("a")
    before = time.monotonic()
    one.turn()
    assert set(one.heartbeat.held()) == set(one.begun)
    assert one.claiming.claimed == 3
    for job in one.begun:
        assert before + 30 <= job.valid_until <= time.monotonic() + 30


def test_a_queue_of_a_wrong_type_is_told_and_does_not_keep_the_others_from_theirs(
    desk: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    fill("b")
    client.set(keys.of("a").pending, "no sorted set")
    one = desk("a", "b")
    one.turn(10)
    assert one.take() == {"b": 5}
    assert [name for name, _ in one.claiming.cold()] == ["a"]
    [message] = told(caplog)
    assert "claim from queue 'a'" in message
    assert keys.of("a").pending in message


def test_unsound_rows_at_the_head_cost_nobody_else_his_turn(bench: Bench, client: redis.Redis) -> None:
    done = jobs.enqueue_many("default", [{"number": each} for each in range(100)])
    client.delete(DEFAULT.row(done[0].id), DEFAULT.row(done[49].id))
    client.zadd(DEFAULT.pending, {"junk": 0})
    bench.burst()
    assert sorted(ledger.ids) == sorted(each.id for at, each in enumerate(done) if at not in (0, 49))
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.dead, counts.quarantine) == (0, 0, 0, 3)


def test_unsound_jobs_that_are_due_do_not_keep_a_sound_one_waiting(bench: Bench, client: redis.Redis) -> None:
    client.zadd(DEFAULT.schedule, {f"junk{number}": number for number in range(1, 301)})
    done = jobs.enqueue("default", b"{}", delay=100)
    client.zadd(DEFAULT.schedule, {done.id: 1000})
    bench.burst()
    assert ledger.ids == [done.id]
    assert jobs.counts("default").quarantine == 300


# --- a reply that is lost -----------------------------------------------------------------------------------------


def test_the_jobs_of_a_claim_whose_reply_was_lost_are_found_with_the_next_turn(
    desk: Any, proxy: Lossy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fill("a", number=7)
    one = desk("a")
    proxy.lose(scripts.claim.sha)
    one.turn(4)
    assert one.claiming.unsure
    assert not one.begun
    one.turn(0)
    assert one.take() == {"a": 4}
    assert not one.claiming.unsure
    assert {job.claim.attempt for job in one.heartbeat.held()} == {1}
    assert told(caplog, logging.INFO) == ["found 4 jobs of a claim of queue 'a' whose reply was lost"]


def test_found_jobs_are_behind_those_of_other_workers_too(desk: Any, proxy: Lossy, client: redis.Redis) -> None:
    fill("a", number=1200)
    for _ in range(2):
        jobs.claim("a", 500, lease=1000)
    one = desk("a")
    proxy.lose(scripts.claim.sha)
    one.turn(4)
    assert one.turn(0) == [1, 1, 1]
    assert one.take() == {"a": 4}
    assert not one.claiming.unsure


def test_a_claim_that_never_arrived_is_looked_for_until_its_lease_would_be_over(
    bench: Bench, desk: Any, proxy: Lossy, caplog: pytest.LogCaptureFixture
) -> None:
    bench.at(proxy.url, a={"LEASE": 0.5})
    fill("a", number=3)
    one = desk("a")
    proxy.lose(scripts.claim.sha, 1, DROP)
    one.turn(3)
    assert one.claiming.unsure
    until(lambda: one.turn(0) and not one.claiming.unsure)
    assert not one.begun
    assert one.turn(0) == []
    assert jobs.counts("a").pending == 3
    assert told(caplog) == []


def test_a_claim_that_arrives_late_is_found(
    desk: Any, proxy: Lossy, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "BEAT", 0.0)
    fill("a", number=3)
    one = desk("a")
    proxy.lose(scripts.claim.sha, 1, DROP)
    one.turn(3)
    one.turn(0)
    one.turn(0)
    [asked] = one.claiming._lost
    connection.client().run(transitions.claim(keys.of("a"), limit=2, lease_ms=30_000, owner=asked.owner))
    one.turn(0)
    assert one.take() == {"a": 2}
    assert one.claiming.unsure  # it was for three
    one.turn(0)
    assert not one.claiming.unsure
    assert not one.take()


def test_a_lost_claim_is_looked_for_once_a_beat(desk: Any, proxy: Lossy) -> None:
    one = desk("a")
    proxy.lose(scripts.claim.sha, 1, DROP)
    one.turn(3)
    assert [len(one.turn(0)) for _ in range(4)] == [1, 0, 0, 0]


def test_a_job_that_is_met_on_two_pages_is_begun_once(
    desk: Any, proxy: Lossy, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "MAX_BATCH", 1)
    monkeypatch.setattr(transitions.claims, "MAX_BATCH", 1)
    monkeypatch.setattr(claiming, "BEAT", 0.0)
    fill("a", number=2)
    one = desk("a")
    proxy.lose(scripts.claim.sha)
    one.turn(1)
    real = one.claiming._hold

    def hold(asked: Any, claims: list[Any]) -> None:
        real(asked, claims)
        jobs.claim("a", lease=1000)  # another worker's job takes the first rank, and ours is pushed to the next page

    monkeypatch.setattr(one.claiming, "_hold", hold)
    one.turn(0)
    one.turn(0)
    assert one.take() == {"a": 1}


def test_a_claim_that_was_refused_is_not_looked_for(desk: Any, bench: Bench, private_server: Any) -> None:
    server = private_server()
    bench.at(server.url, a={})
    one = desk("a")
    one.turn()
    one.claiming.heat()
    server.kill()
    one.turn()
    assert one.claiming.any_hot
    server.restart()
    with redis.Redis.from_url(server.url) as plain:
        plain.config_set("min-replicas-to-write", 1)
        other = desk("a")
        other.turn()
        assert other.claiming.any_hot
        assert not other.claiming.unsure


@TIMES
@pytest.mark.parametrize("mode", [CLOSE, pytest.param(STALL, marks=pytest.mark.slow)])
def test_lost_replies_to_claims_cost_no_job_a_second_run_or_a_lease(
    bench: Bench, proxy: Lossy, caplog: pytest.LogCaptureFixture, mode: str, times: int
) -> None:
    caplog.set_level(logging.INFO)
    bench.at(proxy.url, timeout=0.3)
    done = jobs.enqueue_many("default", [{"number": each} for each in range(50)])
    proxy.lose(scripts.claim.sha, times, mode)
    worker = bench.burst()
    assert proxy.lost == times
    # The lease is longer than this test waits for anything.
    assert sorted(ledger.ids) == sorted(each.id for each in done)
    assert {job.attempt for job in ledger.runs} == {1}
    assert worker.link.tally == "50 completed"
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.completed) == (0, 0, 50)
    assert any("whose reply was lost" in message for message in told(caplog, logging.INFO))


def test_a_lost_claim_that_straddles_two_pages_of_active_is_found_whole(
    desk: Callable[..., Desk], proxy: Lossy, client: redis.Redis
) -> None:
    fill("a", number=1200)
    jobs.claim("a", 498, lease=1000)
    one = desk("a")
    proxy.lose(scripts.claim.sha)
    one.turn(4)
    one.turn(0)
    one.turn(0)
    assert one.take() == {"a": 4}


def test_max_jobs_is_exact_although_replies_to_claims_are_lost(bench: Bench, proxy: Lossy) -> None:
    fill("default", number=40)
    proxy.lose(scripts.claim.sha, 3)
    worker = bench.worker(max_jobs=5)
    worker.join()
    assert len(ledger.runs) == 5


def test_a_stop_while_a_claims_reply_is_lost_leaves_no_job_to_its_lease(bench: Bench, proxy: Lossy) -> None:
    fill("default", number=4)
    worker = None
    proxy.lose(scripts.claim.sha, 1, CLOSE, meanwhile=lambda: until(lambda: worker).stop())
    worker = bench.worker()
    worker.join()
    counts = jobs.counts("default")
    assert counts.active == 0
    assert counts.pending + len(ledger.runs) == 4
