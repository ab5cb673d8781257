"""heartbeat: held jobs stay held, and a job that was lost is known to be."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import conf, jobs, keys, looks, scripts
from echomq_django.connection import client as shared_client
from echomq_django.exceptions import EchoMQError, LeaseLost, ServerUnavailable
from echomq_django.worker.heartbeat import Heartbeat
from echomq_django.worker.held import HeldJob
from tests.handlers import Bench, until
from tests.lossy import BLACKHOLE, CLOSE, lossy
from tests.server import dump

DEFAULT, MAIL = keys.of("default"), keys.of("mail")


@pytest.fixture
def bench(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Bench]:
    for script in scripts.ALL:
        client.script_load(script.source)
    with Bench(settings, url) as bench:
        yield bench


@pytest.fixture
def heartbeat(bench: Bench) -> Iterator[Callable[[], Heartbeat]]:
    made: list[Heartbeat] = []

    def make() -> Heartbeat:
        made.append(Heartbeat(conf.alias(), ("default", "mail")))
        return made[-1]

    yield make
    for each in made:
        each._stopped.set()
        if each._thread.is_alive():
            each.stop()
        each._client.close()


def hold(heartbeat: Heartbeat, number: int = 1, queue: str = "default") -> list[HeldJob]:
    """Claim new jobs, whose leases are as good as over, and hold them."""
    jobs.enqueue_many(queue, [{"number": each} for each in range(number)])
    held = [HeldJob(claim, time.monotonic()) for claim in jobs.claim(queue, number)]
    heartbeat.hold(held)
    return held


def server_ms(client: redis.Redis) -> float:
    seconds, micros = client.time()
    return seconds * 1000 + micros / 1000


def about_to_end(client: redis.Redis, held: list[HeldJob]) -> None:
    client.zadd(keys.of(held[0].queue).active, {job.id: server_ms(client) + 100 for job in held})


def ends_in(client: redis.Redis, job: HeldJob) -> float:
    return float(client.zscore(keys.of(job.queue).active, job.id)) - server_ms(client)


def test_a_beat_gives_every_held_job_a_whole_lease(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    beating = heartbeat()
    held = hold(beating, 5)
    about_to_end(client, held)
    assert all(job.lapsed for job in held)
    sent = time.monotonic()
    beating.beat()
    for job in held:
        assert 15_000 < ends_in(client, job) <= 30_000
        assert sent + 30 <= job.valid_until <= time.monotonic() + 30
        assert not job.lapsed
        assert not job.lost


def test_each_queue_has_its_own_lease(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    bench.queues(mail={"LEASE": 600})
    beating = heartbeat()
    [short], [long] = hold(beating), hold(beating, queue="mail")
    beating.beat()
    assert ends_in(client, short) <= 30_000
    assert 500_000 < ends_in(client, long) <= 600_000


def test_a_beat_is_one_command_for_each_queue(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    beating = heartbeat()
    hold(beating, 20)
    hold(beating, 30, "mail")
    client.config_resetstat()
    beating.beat()
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == 2


def test_more_jobs_than_a_script_takes_are_two_commands(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    beating = heartbeat()
    held = hold(beating, 500) + hold(beating, 1)
    about_to_end(client, held)
    client.config_resetstat()
    beating.beat()
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == 2
    assert client.zcount(DEFAULT.active, server_ms(client) + 10_000, "+inf") == 501


def test_a_beat_without_jobs_sends_nothing(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    client.config_resetstat()
    heartbeat().beat()
    assert "cmdstat_evalsha" not in client.info("commandstats")


def test_a_job_that_was_dropped_is_extended_no_more(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    beating = heartbeat()
    dropped, kept = hold(beating, 2)
    about_to_end(client, [dropped, kept])
    beating.drop(dropped)
    beating.drop(dropped)
    assert beating.held() == [kept]
    beating.beat()
    assert ends_in(client, dropped) < 1_000 < ends_in(client, kept)


# --- jobs that were lost ------------------------------------------------------------------------------------------


def reaped(job: HeldJob, client: redis.Redis) -> None:
    client.zadd(keys.of(job.queue).active, {job.id: 1})
    for _ in range(2):
        client.hset(keys.of(job.queue).meta, "reap_after", 1)
        if jobs.reap(job.queue).moved:
            return
    raise AssertionError("nothing was reaped")


def claimed_by_another(job: HeldJob, client: redis.Redis) -> None:
    reaped(job, client)
    assert jobs.claim(job.queue)


def scheduled(job: HeldJob, client: redis.Redis) -> None:
    jobs.retry(job.claim, "elsewhere", delay=60)


def dead(job: HeldJob, client: redis.Redis) -> None:
    jobs.retry(job.claim, "elsewhere", max_attempts=1)


def gone(job: HeldJob, client: redis.Redis) -> None:
    jobs.complete(job.claim)


@pytest.mark.parametrize("how", [reaped, claimed_by_another, scheduled, dead, gone])
def test_a_lost_job_is_told_at_the_next_beat_with_one_warning_and_never_moved(
    bench: Bench, heartbeat: Any, client: redis.Redis, caplog: pytest.LogCaptureFixture, how: Any
) -> None:
    beating = heartbeat()
    [job] = hold(beating)
    valid_until = job.valid_until
    how(job, client)
    before = dump(client)
    for _ in range(3):
        beating.beat()
    assert job.lost
    with pytest.raises(LeaseLost, match=f"job {job.id} of queue 'default': token 1"):
        job.raise_if_lost()
    assert job.valid_until == valid_until
    assert dump(client) == before
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"job {job.id} of queue 'default': the lease of token 1 was lost")


def test_a_lost_job_does_not_keep_the_others_from_their_lease(
    bench: Bench, heartbeat: Any, client: redis.Redis
) -> None:
    beating = heartbeat()
    held = hold(beating, 3)
    about_to_end(client, held)
    jobs.complete(held[1].claim)
    beating.beat()
    assert [job.lost for job in held] == [False, True, False]
    assert all(ends_in(client, job) > 10_000 for job in (held[0], held[2]))


def test_a_job_that_was_settled_while_a_beat_was_under_way_is_not_lost(
    bench: Bench, heartbeat: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    beating = heartbeat()
    [job] = hold(beating)
    attempt = beating._client.attempt

    def meanwhile(calls: Any) -> Any:
        beating.drop(job)
        jobs.complete(job.claim)
        return attempt(calls)

    monkeypatch.setattr(beating._client, "attempt", meanwhile)
    beating.beat()
    assert not job.lost
    assert caplog.records == []


# --- the connection -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leases", "timeout"), [((30, 30), 5.0), ((30, 3), 0.5), ((0.6, 600), 0.1)])
def test_its_own_client_gives_up_after_a_sixth_of_the_shortest_lease(
    bench: Bench, heartbeat: Any, leases: tuple[float, float], timeout: float
) -> None:
    bench.queues(default={"LEASE": leases[0]}, mail={"LEASE": leases[1]})
    beating = heartbeat()
    assert beating._client is not shared_client()
    kwargs = beating._client._connections().connection_kwargs
    assert kwargs["socket_timeout"] == pytest.approx(timeout)


def test_a_beat_whose_reply_does_not_come_says_so_and_harms_nothing(
    bench: Bench, heartbeat: Any, url: str, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with lossy(url) as proxy:
        bench.at(proxy.url, default={"LEASE": 3})
        beating = heartbeat()
        held = hold(beating, 3)
        proxy.lose("EVALSHA", 1, BLACKHOLE)
        with pytest.raises(ServerUnavailable):
            beating.beat()
        beating.beat()
        assert not any(job.lost or job.lapsed for job in held)
        assert caplog.records == []
        shared_client().close()


def test_the_thread_beats_until_it_is_stopped_whatever_happens_to_replies(
    bench: Bench, heartbeat: Any, url: str, client: redis.Redis
) -> None:
    with lossy(url) as proxy:
        bench.at(proxy.url, default={"LEASE": 0.6})
        beating = heartbeat()
        [job] = hold(beating)
        proxy.lose("EVALSHA", 10, CLOSE)
        beating.start()
        until(lambda: proxy.lost == 10)
        seen: set[float] = set()
        until(lambda: seen.add(client.zscore(DEFAULT.active, job.id)) or len(seen) > 3, "for beats after the losses")
        beating.stop()
        assert not job.lost
        last = client.zscore(DEFAULT.active, job.id)
        until(lambda: server_ms(client) > float(last) + 100)
        assert client.zscore(DEFAULT.active, job.id) == last
        shared_client().close()


def test_a_beat_survives_that_the_server_forgets_its_scripts(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    beating = heartbeat()
    [job] = hold(beating)
    about_to_end(client, [job])
    client.script_flush()
    beating.beat()
    assert ends_in(client, job) > 10_000


def test_a_full_server_lets_the_heart_beat(bench: Bench, heartbeat: Any, private_server: Any) -> None:
    server = private_server()
    bench.at(server.url)
    beating = heartbeat()
    [job] = hold(beating)
    with redis.Redis.from_url(server.url) as plain:
        about_to_end(plain, [job])
        plain.config_set("maxmemory", 1)
        beating.beat()
        assert ends_in(plain, job) > 10_000


def test_a_held_job_survives_many_leases(bench: Bench, heartbeat: Any, client: redis.Redis) -> None:
    bench.queues(default={"LEASE": 0.9})
    beating = heartbeat()
    [job] = hold(beating)
    first = float(client.zscore(DEFAULT.active, job.id))
    beating.start()
    until(lambda: float(client.zscore(DEFAULT.active, job.id)) > first + 1_000)
    assert shared_client().run(looks.lapsed(DEFAULT)).lapsed == 0


@pytest.mark.parametrize("broken", [0, 1])
def test_a_queue_that_answers_an_error_does_not_keep_the_others_from_being_extended(
    client: redis.Redis, broken: int
) -> None:
    heartbeat = Heartbeat(conf.alias(), ("default", "mail"))
    jobs.enqueue("default", b"")
    jobs.enqueue("mail", b"")
    held = [HeldJob(claim, time.monotonic()) for queue in ("default", "mail") for claim in jobs.claim(queue)]
    heartbeat.hold(held)
    active = [keys.of(job.queue).active for job in held]
    client.zadd(active[1 - broken], {held[1 - broken].id: 1})
    client.delete(active[broken])
    client.set(active[broken], "no sorted set")
    with pytest.raises(EchoMQError, match="WRONGTYPE"):
        heartbeat.beat()
    assert client.zscore(active[1 - broken], held[1 - broken].id) > 1
