"""Memory: what is done leaves nothing behind, and what is stored is not evicted."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import redis

from echomq_django import connection, jobs, keys, transitions
from echomq_django.call import Call
from echomq_django.embedded import PrivateServer
from echomq_django.job import Claim
from tests.processes import QUEUE, Fleet, make_fleet, reaps_at_once  # noqa: F401

BATCH = 500
K = keys.of(QUEUE)
SLACK = 1_000_000
"""Bytes by which an idle server differs from itself: scripts it has seen, tables and buffers that shrink later."""


def used(client: redis.Redis) -> int:
    client.execute_command("MEMORY", "PURGE")
    return int(client.info("memory")["used_memory"])


@pytest.mark.slow
def test_a_gigabyte_of_jobs_passes_through_a_server_of_200_mb_and_leaves_nothing_behind(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet(server={"maxmemory": "200mb", "maxmemory-policy": "noeviction"})
    worker = here.worker()
    here.ready(worker)
    here.enqueue()
    here.done(1)
    before = used(here.client)
    body = "x" * 100_000
    for number in range(0, 10_000, 100):
        here.until(lambda number=number: here.counts().completed > number - 1_000, "the worker keeps pace")
        jobs.enqueue_many(QUEUE, [{"body": body}] * 100)
    here.done(10_001)
    assert worker.terminate() == 0
    assert worker.complaints == []
    here.conserved(10_001)
    assert {key for key in here.world() if not key.startswith(K.minute_root)} == {K.meta, K.completed, K.recent}
    here.until(lambda: used(here.client) < before + SLACK, "the memory is as it was")


def crowded(here: Fleet, ttl: int | None) -> None:
    """Make a neighbour write to the server until it has evicted some hundred keys for him."""
    here.client.config_set("maxmemory", int(here.client.info("memory")["used_memory"]) + 500_000)
    number = 0
    while here.client.info("stats")["evicted_keys"] < 300:
        number += 1
        here.client.set(f"neighbour:{number}", "x" * 10_000, ex=ttl)
    here.client.config_set("maxmemory", 0)


@pytest.mark.slow
def test_nothing_that_a_queue_needs_is_evicted_where_only_keys_that_expire_are(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=1, MAX_ATTEMPTS=1, server={"maxmemory-policy": "volatile-lru"})
    reaps_at_once(here.client)
    ids = here.enqueue_many(1000) + here.orphans(500)
    later = here.enqueue_many(500, delay=3600)
    failing = here.enqueue_many(100, ["fail"])
    before = here.world()
    assert not any(expires for _, _, expires in before.values())
    crowded(here, ttl=3600)
    assert here.world() == before
    assert here.worker("--burst").wait() == 0
    counts = here.counts()
    assert (counts.completed, counts.dead, counts.schedule) == (len(ids), len(failing), len(later))
    here.conserved(len(ids) + len(failing) + len(later))


@pytest.mark.slow
def test_rows_that_were_evicted_are_seen_in_quarantine_and_stop_no_other_job(fleet: Callable[..., Fleet]) -> None:
    # By frequency: pending was used for every job, and each row for its own only.
    here = fleet(server={"maxmemory-policy": "allkeys-lfu"})
    ids = here.enqueue_many(1000)
    crowded(here, ttl=None)
    sound = {job for job in ids if here.client.exists(K.row(job))}
    assert 0 < len(sound) < len(ids)
    assert here.worker("--burst").wait() == 0
    assert set(here.runs()) == sound
    counts = here.counts()
    assert (counts.completed, counts.quarantine) == (len(sound), len(ids) - len(sound))


class Paths:
    """Send a batch of jobs along each path that a job can take; whatever the path, nothing is left of them."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def all(self) -> int:
        """Take every path, the quick ones more often; how many jobs that were."""
        often = (self.completed, self.released, self.removed, self.drained, self.scheduled_and_removed)
        paths = (
            *often, self.retried, self.deferred, self.dead_and_expired, *often, self.dead_and_removed,
            self.dead_and_requeued, self.scheduled_and_promoted, self.scheduled_and_advanced, *often,
            self.lost_and_reaped, self.lost_for_good, self.lost_and_completed_late,
        )  # fmt: skip
        for path in paths:
            path()
            counts = jobs.counts(QUEUE)
            assert (counts.pending, counts.active, counts.schedule, counts.dead) == (0, 0, 0, 0), path
        return len(paths) * BATCH

    # The paths.

    def completed(self) -> None:
        self._complete(self._claimed())

    def retried(self) -> None:
        self._each(self._retry(claim, maximum=5) for claim in self._claimed())
        self._promote()
        self._complete(self._claim())

    def dead_and_expired(self) -> None:
        self._die()
        self._client.zadd(K.dead, self._all(K.dead, 1_000))
        assert jobs.expire(QUEUE, BATCH) == BATCH

    def dead_and_removed(self) -> None:
        self._die()
        assert jobs.remove_all(QUEUE, "dead") == BATCH

    def dead_and_requeued(self) -> None:
        self._die()
        assert jobs.requeue_all(QUEUE).done == BATCH
        self._complete(self._claim())

    def removed(self) -> None:
        assert jobs.remove_many(QUEUE, self._enqueued()) == ["ok"] * BATCH

    def drained(self) -> None:
        self._enqueued()
        assert jobs.drain(QUEUE) == BATCH

    def scheduled_and_promoted(self) -> None:
        self._enqueued(delay=3600)
        self._promote()
        self._complete(self._claim())

    def scheduled_and_advanced(self) -> None:
        assert jobs.advance_many(QUEUE, self._enqueued(delay=3600)) == ["ok"] * BATCH
        self._complete(self._claim())

    def scheduled_and_removed(self) -> None:
        assert jobs.remove_many(QUEUE, self._enqueued(delay=3600)) == ["ok"] * BATCH

    def lost_and_reaped(self) -> None:
        self._lose()
        self._complete(self._claim())

    def lost_for_good(self) -> None:
        self._lose()
        for _ in range(2):
            self._claim()
            self._lapse()
            assert jobs.reap(QUEUE, BATCH).moved == BATCH
            if self._client.zcard(K.schedule):
                self._promote()
        assert jobs.remove_all(QUEUE, "dead") == BATCH

    def lost_and_completed_late(self) -> None:
        self._complete(self._lose())

    def released(self) -> None:
        assert self._run(transitions.release(K, self._claimed())) == ["ok"] * BATCH
        self._complete(self._claim())

    def deferred(self) -> None:
        self._each(transitions.defer(K, claim, delay_ms=3_600_000, reason="no") for claim in self._claimed())
        self._promote()
        self._complete(self._claim())

    # Their steps.

    def _run(self, call: Call[Any]) -> Any:
        return connection.client().run(call)

    def _each(self, calls: Iterable[Call[str]]) -> None:
        words = connection.client().attempt(list(calls))
        assert set(words) <= {"ok", "scheduled", "dead"}

    def _all(self, place: str, score: float) -> dict[bytes, float]:
        return dict.fromkeys(self._client.zrange(place, 0, -1), score)

    def _enqueued(self, **options: Any) -> list[str]:
        return [each.id for each in jobs.enqueue_many(QUEUE, [b"payload"] * BATCH, name="mail", **options)]

    def _claim(self) -> list[Claim]:
        claims = jobs.claim(QUEUE, BATCH)
        assert len(claims) == BATCH
        return claims

    def _claimed(self) -> list[Claim]:
        self._enqueued(priority=5)
        return self._claim()

    def _complete(self, claims: list[Claim]) -> None:
        assert self._run(transitions.complete(K, claims)) == ["ok"] * BATCH

    def _retry(self, claim: Claim, maximum: int) -> Call[str]:
        return transitions.retry(K, claim, delay_ms=3_600_000, maximum=maximum, reason="no", entry='{"error": "no"}')

    def _die(self) -> None:
        self._each(self._retry(claim, maximum=0) for claim in self._claimed())

    def _promote(self) -> None:
        self._client.zadd(K.schedule, self._all(K.schedule, 1_000))
        assert jobs.promote(QUEUE, BATCH).done == BATCH

    def _lapse(self) -> None:
        self._client.zadd(K.active, self._all(K.active, 1_000))

    def _lose(self) -> list[Claim]:
        claims = self._claimed()
        self._lapse()
        assert jobs.reap(QUEUE, BATCH).pending == BATCH
        return claims


def left_over(client: redis.Redis) -> set[str]:
    """List the keys that hold something, without those that end by themselves: receipts, and counts of a minute."""
    found = {key.decode() for key in client.scan_iter(count=1000)}
    passing = {key for key in found if key.startswith((K.receipt_root, K.minute_root))}
    for key in passing:
        assert client.pttl(key) != -1
        client.delete(key)
    return found - passing


@pytest.mark.slow
def test_100_000_jobs_leave_nothing_behind_whatever_path_they_took(
    private_server: Callable[..., PrivateServer], settings: Any
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url, "QUEUES": {QUEUE: {}}}}
    with redis.Redis.from_url(server.url, protocol=2) as client:
        reaps_at_once(client)
        paths = Paths(client)
        empty, before = left_over(client), used(client)
        done = 0
        while done < 100_000:
            done += paths.all()
        assert left_over(client) - empty <= {keys.QUEUES, K.completed, K.failed, K.wake}
        assert used(client) < before + SLACK
        assert jobs.counts(QUEUE).failed
