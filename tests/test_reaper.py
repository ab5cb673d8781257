"""reaper: what is due is lined up, what was lost comes back, each once, however many reapers there are."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import redis

from echomq_django import ids, jobs, keys
from echomq_django.reaper import BATCH, EXPIRE_EVERY, Reaper, Swept, sweep
from tests.handlers import Bench, told, until
from tests.server import dump

DEFAULT, MAIL = keys.of("default"), keys.of("mail")


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    with Bench(settings, url) as bench:
        yield bench


def row(client: Any, queue: str, number: int, state: str, **fields: Any) -> str:
    """Write a job's row."""
    job_id = ids.brand("JOB", number)
    client.hset(keys.of(queue).row(job_id), mapping={"state": state, "attempts": 1, "payload": "{}", **fields})
    return job_id


def lapsed(client: redis.Redis, number: int, queue: str = "default", *, first: int = 1, **fields: Any) -> list[str]:
    """Seed jobs whose lease has run out."""
    pipe = client.pipeline(transaction=False)
    made = [row(pipe, queue, first + each, "active", owner="host:1:abcd1234:7", **fields) for each in range(number)]
    pipe.zadd(keys.of(queue).active, dict.fromkeys(made, 1))
    pipe.execute()
    return made


def due(client: redis.Redis, number: int, queue: str = "default", *, first: int = 100_001) -> list[str]:
    """Seed scheduled jobs whose time has come."""
    pipe = client.pipeline(transaction=False)
    made = [row(pipe, queue, first + each, "scheduled") for each in range(number)]
    pipe.zadd(keys.of(queue).schedule, dict.fromkeys(made, 1))
    pipe.execute()
    return made


def died(client: redis.Redis, number: int, at: float = 1, *, first: int = 200_001) -> list[str]:
    """Seed jobs that died long ago."""
    made = [row(client, "default", first + each, "dead") for each in range(number)]
    client.zadd(DEFAULT.dead, dict.fromkeys(made, at))
    return made


def know(client: redis.Redis, *queues: str) -> None:
    """Let the server be one that was reaped before, so that nobody waits for live workers."""
    for queue in queues or ("default",):
        jobs.reap(queue)
        client.hset(keys.of(queue).meta, "reap_after", 1)


def swept(queue: str = "default", **facts: Any) -> Swept:
    nothing = dict.fromkeys(("promoted", "pending", "schedule", "dead", "quarantined", "expired"), 0)
    return Swept(queue=queue, **{**nothing, "waiting": False, **facts})


# --- one sweep ----------------------------------------------------------------------------------------------------


def test_a_sweep_of_an_empty_queue_moves_nothing(bench: Bench, client: redis.Redis) -> None:
    know(client)
    before = dump(client)
    assert sweep("default") == swept()
    assert dump(client) == before


def test_a_sweep_counts_what_went_where(bench: Bench, client: redis.Redis) -> None:
    know(client)
    due(client, 6)
    lapsed(client, 5)
    lapsed(client, 4, first=11, stalled=1)
    lapsed(client, 3, first=21, stalled=2)
    client.zadd(DEFAULT.active, {"junk": 1, "more junk": 1})
    client.zadd(DEFAULT.schedule, {"junk that is due": 1})
    old = died(client, 1)
    done = sweep("default")
    assert done == swept(promoted=6, pending=5, schedule=4, dead=3, quarantined=3, expired=1)
    assert done.reaped == 12
    counts = jobs.counts("default")
    assert (counts.pending, counts.active, counts.schedule, counts.dead, counts.quarantine) == (11, 0, 4, 3, 3)
    assert not client.exists(DEFAULT.row(old[0]))
    # What was put on the schedule may be due at once.
    assert sweep("default").reaped == 0


def test_a_sweep_goes_on_batch_after_batch_until_nothing_is_left(bench: Bench, client: redis.Redis) -> None:
    know(client)
    lapsed(client, 2 * BATCH + 50)
    due(client, 2 * BATCH)
    died(client, BATCH + 1)
    done = sweep("default")
    assert done == swept(promoted=2 * BATCH, pending=2 * BATCH + 50, expired=BATCH + 1)


@pytest.mark.parametrize("limit", [1, 3, BATCH + 1])
def test_a_limited_sweep_moves_so_many_of_each_the_oldest_first(bench: Bench, client: redis.Redis, limit: int) -> None:
    know(client)
    lost, waiting = lapsed(client, BATCH + 10), due(client, BATCH + 10)
    died(client, BATCH + 10)
    assert sweep("default", limit=limit) == swept(promoted=limit, pending=limit, expired=limit)
    assert jobs.counts("default").dead == BATCH + 10 - limit
    assert jobs.counts("default").active == jobs.counts("default").schedule == BATCH + 10 - limit
    pending = {job_id.decode() for job_id in client.zrange(DEFAULT.pending, 0, -1)}
    assert pending == {*lost[:limit], *waiting[:limit]}


def test_a_sweep_of_a_server_seen_for_the_first_time_promotes_and_lets_live_workers_extend(
    bench: Bench, client: redis.Redis
) -> None:
    [lost] = lapsed(client, 1)
    due(client, 2)
    assert sweep("default") == swept(promoted=2, waiting=True)
    assert sweep("default") == swept(waiting=True)
    assert client.zscore(DEFAULT.active, lost) == 1
    client.hset(DEFAULT.meta, "reap_after", 1)
    assert sweep("default") == swept(pending=1)


def test_a_sweep_without_reaping_leaves_what_lapsed(bench: Bench, client: redis.Redis) -> None:
    know(client)
    lapsed(client, 1)
    due(client, 1)
    assert sweep("default", reap=False) == swept(promoted=1)
    assert jobs.lapsed("default").lapsed == 1


def test_the_dead_are_forgotten_after_their_time(bench: Bench, client: redis.Redis) -> None:
    bench.queues(default={"DEAD_TTL": 100})
    know(client)
    now = client.time()[0] * 1000
    old = died(client, 2, now - 101_000)
    young = died(client, 2, now - 50_000, first=300_001)
    assert sweep("default") == swept(expired=2)
    assert [job_id.decode() for job_id in client.zrange(DEFAULT.dead, 0, -1)] == young
    assert not client.exists(*(DEFAULT.row(job_id) for job_id in old))


def test_the_dead_beyond_the_maximum_are_forgotten_the_oldest_first(bench: Bench, client: redis.Redis) -> None:
    bench.queues(default={"DEAD_MAX": 3})
    know(client)
    now = client.time()[0] * 1000
    made = [job_id for each in range(5) for job_id in died(client, 1, now - 1000 + each, first=400_001 + each)]
    assert sweep("default") == swept(expired=2)
    assert [job_id.decode() for job_id in client.zrange(DEFAULT.dead, 0, -1)] == made[2:]


# --- again and again ----------------------------------------------------------------------------------------------


def test_a_reaper_sweeps_all_its_queues(bench: Bench, client: redis.Redis) -> None:
    know(client, "default", "mail")
    lapsed(client, 1)
    due(client, 2, "mail")
    reaper = Reaper(lambda: ["default", "mail"], interval=0.01)
    assert reaper.sweep_all() == [swept(pending=1), swept("mail", promoted=2)]


def test_a_reaper_runs_until_it_is_stopped_and_reports_each_sweep(bench: Bench, client: redis.Redis) -> None:
    know(client)
    stopped = threading.Event()
    reports: list[list[Swept]] = []

    def report(swept_: list[Swept]) -> None:
        reports.append(swept_)
        if len(reports) == 3:
            stopped.set()
        lapsed(client, 1, first=len(reports))

    lapsed(client, 1, first=50)
    Reaper(lambda: ["default"], interval=0.01).run(stopped, report)
    assert reports == [[swept(pending=1)]] * 3


def test_a_reaper_looks_for_dead_jobs_to_forget_until_there_are_none_and_then_once_a_minute(
    bench: Bench, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.queues(default={"DEAD_MAX": 1})
    know(client)
    found = iter([BATCH, 7, 0, 0])
    asked: list[int] = []

    def expire(queue: str, size: int, *, using: str) -> int:
        asked.append(next(found))
        return asked[-1]

    monkeypatch.setattr(jobs, "expire", expire)
    reaper = Reaper(lambda: ["default"], limit=BATCH)
    for _ in range(5):
        reaper.sweep_all()
    assert asked == [BATCH, 7, 0]
    reaper._expire_from["default"] -= EXPIRE_EVERY
    reaper.sweep_all()
    assert asked == [BATCH, 7, 0, 0]


def test_a_reaper_that_was_stopped_before_sweeps_nothing(bench: Bench, client: redis.Redis) -> None:
    know(client)
    lapsed(client, 1)
    stopped = threading.Event()
    stopped.set()
    Reaper(lambda: ["default"], interval=0.0).run(stopped)
    assert jobs.lapsed("default").lapsed == 1


def test_a_reaper_looks_often_enough_for_the_shortest_lease(bench: Bench) -> None:
    bench.queues(default={"LEASE": 600}, mail={"LEASE": 3})
    assert Reaper(lambda: ["default", "mail"])._pause() == 0.5
    assert Reaper(lambda: ["default"])._pause() == 5.0
    bench.queues(mail={"LEASE": 0.1})
    assert Reaper(lambda: ["mail"])._pause() == 0.2


def test_a_reaper_logs_what_was_lost(bench: Bench, client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    know(client)
    lapsed(client, 2)
    lapsed(client, 1, first=11, stalled=2)
    Reaper(lambda: ["default"]).sweep_all()
    assert told(caplog, logging.INFO) == ["queue 'default': 3 jobs had lost their worker, 1 of them are dead"]


def test_an_error_in_one_queue_does_not_keep_the_others_from_their_sweep(
    bench: Bench, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    know(client, "default", "mail")
    client.set(DEFAULT.schedule, "no sorted set")
    lapsed(client, 1, "mail")
    reaper = Reaper(lambda: ["default", "mail"])
    assert reaper.sweep_all() == [swept("mail", pending=1)]
    [message] = told(caplog)
    assert message == "queue 'default' could not be swept"
    assert DEFAULT.schedule in str(caplog.records[0].exc_info)
    client.delete(DEFAULT.schedule)
    assert len(reaper.sweep_all()) == 2


def test_a_reaper_waits_for_a_server_that_is_away_and_says_so_once(
    bench: Bench, private_server: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    server = private_server()
    bench.at(server.url)
    reaper = Reaper(lambda: ["default", "mail"], interval=0.01)
    assert len(reaper.sweep_all()) == 2
    server.kill()
    for _ in range(3):
        assert reaper.sweep_all() == []
    assert len(told(caplog)) == 1
    assert told(caplog)[0].startswith("reaping waits: ")
    server.restart()
    assert len(reaper.sweep_all()) == 2


def test_a_reaper_that_was_cut_off_lets_live_workers_extend_for_a_lease(bench: Bench, client: redis.Redis) -> None:
    bench.queues(default={"LEASE": 2})
    know(client)
    reaper = Reaper(lambda: ["default"], interval=0.1)
    reaper.sweep_all()
    alive, dead = lapsed(client, 2)
    due(client, 1)
    reaper._reached -= 1.5  # as if it had slept
    began = time.monotonic()
    assert reaper.sweep_all() == [swept(promoted=1)]
    client.zadd(DEFAULT.active, {alive: 4_000_000_000_000})
    moved = until(lambda: (found := reaper.sweep_all()) and found[0].reaped and found)
    assert time.monotonic() >= began + 2
    assert moved == [swept(pending=1)]
    assert client.zscore(DEFAULT.active, dead) is None
    assert client.zscore(DEFAULT.active, alive) is not None


def test_a_reaper_that_was_not_cut_off_for_long_reaps_at_once(bench: Bench, client: redis.Redis) -> None:
    know(client)
    reaper = Reaper(lambda: ["default"], interval=0.1)
    reaper.sweep_all()
    lapsed(client, 1)
    reaper._reached -= 10  # of a lease of 30
    assert reaper.sweep_all() == [swept(pending=1)]


# --- many at once -------------------------------------------------------------------------------------------------


def at_once(*works: Any) -> list[Any]:
    """Run each in a thread of its own, all from the same moment on."""
    results: list[Any] = []
    start = threading.Barrier(len(works))

    def work(one: Any) -> None:
        start.wait()
        results.append(one())

    threads = [threading.Thread(target=work, args=(one,)) for one in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(works)
    return results


def promote_all() -> int:
    done = 0
    while number := jobs.promote("default").done:
        done += number
    return done


@pytest.mark.slow
def test_many_reapers_and_promoters_at_once_move_each_job_once(bench: Bench, client: redis.Redis) -> None:
    know(client)
    lost = lapsed(client, 5_000)
    waiting = due(client, 5_000)
    client.config_resetstat()
    results = at_once(*[lambda: sweep("default")] * 4, *[promote_all] * 4)
    sweeps = [result for result in results if isinstance(result, Swept)]
    promoted = sum(result.promoted if isinstance(result, Swept) else result for result in results)
    assert (sum(done.pending for done in sweeps), promoted) == (5_000, 5_000)
    assert {sum(asdict(done)[name] for done in sweeps) for name in ("schedule", "dead", "quarantined")} == {0}
    # No call moved more than a batch, so none kept the server from others for long.
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] >= 10_000 / BATCH
    pipe = client.pipeline(transaction=False)
    for job_id in lost:
        pipe.hmget(DEFAULT.row(job_id), "state", "attempts", "stalled", "spared").llen(DEFAULT.errors(job_id))
    facts = pipe.execute()
    assert set(map(tuple, facts[::2])) == {(b"pending", b"1", b"1", b"1")}
    assert set(facts[1::2]) == {1}
    pending = client.zrange(DEFAULT.pending, 0, -1)
    assert len(pending) == len(set(pending)) == 10_000
    assert {job_id.decode() for job_id in pending} == {*lost, *waiting}
    counts = jobs.counts("default")
    assert (counts.active, counts.schedule, counts.dead, counts.quarantine) == (0, 0, 0, 0)


def test_a_turn_that_took_long_is_no_silence_of_the_server(bench: Bench, client: redis.Redis) -> None:
    bench.queues(default={"LEASE": 0.4}, mail={"LEASE": 0.4})
    know(client, "default", "mail")
    slow = [True]

    def names() -> list[str]:
        if slow.pop() if slow else False:
            time.sleep(0.5)  # as another queue's long sweep would
        return ["default", "mail"]

    reaper = Reaper(names, interval=10)
    reaper.sweep_all()
    lapsed(client, 1, "mail")
    assert reaper.sweep_all()[1] == swept("mail", pending=1)


def test_a_queue_that_comes_later_is_swept_too(bench: Bench, client: redis.Redis) -> None:
    known: list[str] = []
    reaper = Reaper(lambda: known, interval=0.01)
    assert reaper.sweep_all() == []
    know(client)
    lapsed(client, 1)
    known.append("default")
    assert reaper.sweep_all() == [swept(pending=1)]
