"""What happens when a reply is lost: the call is sent again where that does no harm, and nothing happens twice."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import connection, jobs, keys, scripts, transitions
from echomq_django.exceptions import LeaseLost, ServerUnavailable
from echomq_django.job import Claim, Location
from echomq_django.jobs import Enqueued, Moved
from tests.lossy import BLACKHOLE, CLOSE, DROP, STALL, Lossy, lossy
from tests.server import dump

MAIL = keys.of("mail")
TIMES = pytest.mark.parametrize("times", [1, 10], ids=["once", "ten times"])


@pytest.fixture(autouse=True)
def proxy(settings: Any, url: str, client: redis.Redis, _settings: None) -> Iterator[Lossy]:
    """Put a proxy before the server "default"; "direct" is the same server without one."""
    for script in scripts.ALL:
        client.script_load(script.source)
    with lossy(url) as proxy:
        queues = {"mail": {"LEASE": 30, "MAX_ATTEMPTS": 3}}
        settings.ECHOMQ = {
            "default": {"LOCATION": proxy.url, "QUEUES": queues},
            "direct": {"LOCATION": url, "QUEUES": queues},
        }
        jobs.counts("mail")
        jobs.enqueue("mail", "warm up: the queue is registered")
        jobs.drain("mail")
        yield proxy
        connection.client().close()


@pytest.fixture
def claimed() -> Claim:
    jobs.enqueue("mail", b"payload")
    [claim] = jobs.claim("mail")
    return claim


def places() -> dict[str, int]:
    found = jobs.counts("mail", using="direct")
    return {name: count for name in Location if (count := getattr(found, name))}


def rows(client: redis.Redis) -> int:
    return len(client.keys(MAIL.job_root + "*"))


def calls_of(client: redis.Redis, command: str = "evalsha") -> int:
    return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


# --- close: the server did it, and the socket closed before its answer ------------------------------------------------


@TIMES
def test_an_enqueue_whose_reply_is_lost_stores_one_job_and_says_so(
    proxy: Lossy, client: redis.Redis, times: int
) -> None:
    proxy.lose("EVALSHA", times)
    done = jobs.enqueue("mail", b"payload")
    assert proxy.lost == times
    assert done.status == "enqueued"
    assert [job.id for job in jobs.page("mail", "pending")] == [done.id]
    assert rows(client) == 1


@TIMES
def test_an_enqueue_under_an_own_id_whose_reply_is_lost_is_no_duplicate(
    proxy: Lossy, client: redis.Redis, times: int
) -> None:
    own = "JOB0MzT2a4Bc3D"
    proxy.lose("EVALSHA", times)
    assert jobs.enqueue("mail", b"payload", id=own) == Enqueued(own, "enqueued")
    assert jobs.enqueue("mail", b"payload", id=own) == Enqueued(own, "duplicate")
    assert rows(client) == 1


@TIMES
def test_a_bulk_enqueue_whose_replies_are_lost_stores_each_job_once_and_in_order(
    proxy: Lossy, client: redis.Redis, times: int
) -> None:
    proxy.lose("EVALSHA", times)
    done = jobs.enqueue_many("mail", [{"number": number} for number in range(1000)])
    assert proxy.lost == times
    assert {each.status for each in done} == {"enqueued"}
    assert client.zrange(MAIL.pending, 0, -1) == [each.id.encode() for each in done]
    assert rows(client) == 1000


def test_an_enqueue_is_recognised_even_when_the_job_was_done_between_the_sendings(
    proxy: Lossy, client: redis.Redis
) -> None:
    ran: list[str] = []

    def work() -> None:
        for claim in jobs.claim("mail", using="direct"):
            jobs.complete(claim, using="direct")
            ran.append(claim.id)

    proxy.lose("EVALSHA", 3, meanwhile=work)
    done = jobs.enqueue("mail", b"payload")
    assert done.status == "enqueued"
    assert ran == [done.id]
    assert places() == {}
    assert rows(client) == 0


def test_a_bulk_enqueue_is_recognised_even_when_its_jobs_were_done_between_the_sendings(
    proxy: Lossy, client: redis.Redis
) -> None:
    ran: list[str] = []

    def work() -> None:
        # In one call: the sender goes on for three seconds only.
        claims = jobs.claim("mail", 200, using="direct")
        connection.client("direct").run(transitions.complete(MAIL, claims))
        ran.extend(claim.id for claim in claims)

    proxy.lose("EVALSHA", 3, meanwhile=work)
    done = jobs.enqueue_many("mail", ["payload"] * 500)
    assert {each.status for each in done} == {"enqueued"}
    assert ran == [each.id for each in done]
    assert rows(client) == 0


@TIMES
def test_a_complete_whose_reply_is_lost_is_done(proxy: Lossy, client: redis.Redis, claimed: Claim, times: int) -> None:
    proxy.lose("EVALSHA", times)
    jobs.complete(claimed)
    assert proxy.lost == times
    assert places() == {}
    assert jobs.counts("mail", using="direct").completed == 1
    assert rows(client) == 0


@TIMES
@pytest.mark.parametrize(("maximum", "place"), [(3, Location.SCHEDULE), (1, Location.DEAD)])
def test_a_retry_whose_reply_is_lost_moves_the_job_once(
    proxy: Lossy, claimed: Claim, times: int, maximum: int, place: Location
) -> None:
    proxy.lose("EVALSHA", times)
    assert jobs.retry(claimed, "it failed", delay=60, max_attempts=maximum) is place
    assert proxy.lost == times
    assert places() == {place: 1}
    job = jobs.get("mail", claimed.id, using="direct")
    assert [record.message for record in job.errors] == ["it failed"]
    assert jobs.counts("mail", using="direct").failed == (1 if place is Location.DEAD else 0)


@TIMES
def test_an_extend_whose_reply_is_lost_holds_the_job(
    proxy: Lossy, client: redis.Redis, claimed: Claim, times: int
) -> None:
    before = client.zscore(MAIL.active, claimed.id)
    proxy.lose("EVALSHA", times)
    jobs.extend(claimed, 600)
    assert proxy.lost == times
    assert client.zscore(MAIL.active, claimed.id) > before + 500_000
    assert places() == {"active": 1}


@TIMES
def test_a_release_whose_reply_is_lost_gives_the_job_back_once_and_at_no_cost(
    proxy: Lossy, claimed: Claim, times: int
) -> None:
    proxy.lose("EVALSHA", times)
    jobs.release(claimed)
    assert proxy.lost == times
    assert places() == {"pending": 1}
    job = jobs.get("mail", claimed.id, using="direct")
    assert (job.attempts, job.spared) == (1, 1)


def test_a_release_whose_reply_is_lost_does_not_take_the_job_from_who_claimed_it_since(
    proxy: Lossy, claimed: Claim
) -> None:
    others: list[Claim] = []
    proxy.lose("EVALSHA", meanwhile=lambda: others.extend(jobs.claim("mail", using="direct")))
    jobs.release(claimed)
    assert places() == {"active": 1}
    jobs.complete(others[0], using="direct")


@TIMES
def test_a_promote_whose_reply_is_lost_moves_each_job_once(proxy: Lossy, client: redis.Redis, times: int) -> None:
    done = jobs.enqueue_many("mail", ["one", "two", "three"], delay=60)
    for each in done:
        client.zadd(MAIL.schedule, {each.id: 1})
    proxy.lose("EVALSHA", times)
    assert 0 <= jobs.promote("mail").done <= 3
    assert proxy.lost == times
    assert client.zrange(MAIL.pending, 0, -1) == [each.id.encode() for each in done]
    assert places() == {"pending": 3}


@TIMES
def test_a_reap_whose_reply_is_lost_takes_each_job_back_once(
    proxy: Lossy, client: redis.Redis, claimed: Claim, times: int
) -> None:
    jobs.reap("mail")
    client.hset(MAIL.meta, "reap_after", 0)
    client.zadd(MAIL.active, {claimed.id: 1})
    proxy.lose("EVALSHA", times)
    assert 0 <= jobs.reap("mail").moved <= 1
    assert proxy.lost == times
    assert places() == {"pending": 1}
    job = jobs.get("mail", claimed.id, using="direct")
    assert (job.stalled, job.spared, [record.error for record in job.errors]) == (1, 1, ["crashed"])


@pytest.mark.parametrize(
    ("place", "move"),
    [
        ("dead", lambda id: jobs.requeue("mail", id)),
        ("schedule", lambda id: jobs.remove("mail", id)),
        ("schedule", lambda id: jobs.advance("mail", id)),
    ],
    ids=["requeue", "remove", "advance"],
)
def test_an_operators_move_whose_reply_is_lost_is_not_sent_again_and_says_that_it_may_have_been_done(
    proxy: Lossy, client: redis.Redis, claimed: Claim, place: str, move: Callable[[str], Any]
) -> None:
    jobs.retry(claimed, "it failed", delay=60, max_attempts=1 if place == "dead" else 3)
    sent = calls_of(client)
    proxy.lose("EVALSHA")
    with pytest.raises(ServerUnavailable, match="may have been carried out") as caught:
        move(claimed.id)
    assert caught.value.unknown
    assert calls_of(client) == sent + 1


# --- claim ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CLOSE, DROP, pytest.param(STALL, marks=pytest.mark.slow)])
def test_a_claim_is_never_sent_twice(proxy: Lossy, client: redis.Redis, mode: str) -> None:
    jobs.enqueue_many("mail", ["payload"] * 5)
    sent = calls_of(client)
    proxy.lose("EVALSHA", 10, mode)
    with pytest.raises(ServerUnavailable, match="claim from queue 'mail'") as caught:
        jobs.claim("mail")
    assert caught.value.unknown
    assert proxy.lost == 1
    assert calls_of(client) == sent + (0 if mode == DROP else 1)
    assert places() == ({"pending": 5} if mode == DROP else {"pending": 4, "active": 1})


def test_a_claim_that_could_not_connect_is_tried_again(
    proxy: Lossy, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.enqueue("mail", "payload")
    connection.client().close()
    proxy.lose("HELLO", 3, DROP)  # while it connects: the claim itself was not sent
    assert [claim.payload for claim in jobs.claim("mail")] == [b"payload"]
    assert proxy.lost == 3


# --- stall, drop, blackhole -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_enqueue_whose_answer_never_comes_is_sent_again_after_a_while(proxy: Lossy, client: redis.Redis) -> None:
    proxy.lose("EVALSHA", 1, STALL)
    started = time.monotonic()
    done = jobs.enqueue("mail", b"payload")
    assert time.monotonic() - started < 3
    assert [job.id for job in jobs.page("mail", "pending")] == [done.id]
    assert rows(client) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", [STALL, BLACKHOLE])
def test_an_enqueue_whose_answers_never_come_ends_within_five_seconds_and_says_that_it_may_have_been_done(
    proxy: Lossy, client: redis.Redis, mode: str
) -> None:
    proxy.lose("EVALSHA", 100, mode)
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match="enqueue to queue 'mail'") as caught:
        jobs.enqueue("mail", b"payload", id="JOB0MzT2a4Bc3D")
    assert time.monotonic() - started < 5.5
    assert caught.value.unknown
    assert rows(client) == (1 if mode == STALL else 0)
    proxy.lose("", 0)
    # What the docstring promises: a second call with the same id is safe.
    again = jobs.enqueue("mail", b"payload", id="JOB0MzT2a4Bc3D")
    assert again.status == ("duplicate" if mode == STALL else "enqueued")
    assert rows(client) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", [STALL, BLACKHOLE])
def test_a_complete_whose_answer_never_comes_is_sent_again(proxy: Lossy, claimed: Claim, mode: str) -> None:
    proxy.lose("EVALSHA", 1, mode)
    jobs.complete(claimed)
    assert places() == {}
    assert jobs.counts("mail", using="direct").completed == 1


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)], ids=["once", "ten times"])
def test_requests_that_never_arrive_are_sent_again(
    proxy: Lossy, client: redis.Redis, claimed: Claim, times: int
) -> None:
    proxy.lose("EVALSHA", times, DROP)
    done = jobs.enqueue("mail", b"payload")
    proxy.lose("EVALSHA", times, DROP)
    jobs.extend(claimed)
    proxy.lose("EVALSHA", times, DROP)
    jobs.complete(claimed)
    assert done.status == "enqueued"
    assert places() == {"pending": 1}
    assert rows(client) == 1


def test_a_settle_that_never_arrived_is_refused_when_the_job_was_claimed_again_meanwhile(
    proxy: Lossy, client: redis.Redis, claimed: Claim
) -> None:
    client.zadd(MAIL.active, {claimed.id: 1})
    jobs.reap("mail", using="direct")
    client.hset(MAIL.meta, "reap_after", 0)
    others: list[Claim] = []

    def lease_runs_out() -> None:
        jobs.reap("mail", using="direct")
        others.extend(jobs.claim("mail", using="direct"))

    lease_runs_out()
    before = dump(client)
    proxy.lose("EVALSHA", 2, DROP)
    with pytest.raises(LeaseLost, match=f"job {claimed.id} of queue 'mail'"):
        jobs.complete(claimed)
    assert dump(client) == before
    assert [other.id for other in others] == [claimed.id]


def test_a_pipeline_whose_reply_is_lost_is_not_sent_again_by_attempt(proxy: Lossy, client: redis.Redis) -> None:
    sent = calls_of(client)
    proxy.lose("EVALSHA")
    calls = [transitions.promote(MAIL), transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:1")]
    with pytest.raises(ServerUnavailable) as caught:
        connection.client().attempt(calls)
    assert caught.value.unknown
    assert calls_of(client) == sent + 2


def test_a_lost_reply_to_a_script_load_is_survived(proxy: Lossy, client: redis.Redis) -> None:
    client.script_flush()
    proxy.lose("LOAD")
    done = jobs.enqueue("mail", b"payload")
    assert proxy.lost == 1
    assert done.status == "enqueued"
    assert [job.id for job in jobs.page("mail", "pending")] == [done.id]


def test_a_requeue_all_whose_reply_is_lost_can_be_called_again(proxy: Lossy) -> None:
    jobs.enqueue_many("mail", ["payload"] * 3)
    for claim in jobs.claim("mail", 3):
        jobs.retry(claim, "it failed", max_attempts=1)
    proxy.lose(scripts.requeue.sha)
    with pytest.raises(ServerUnavailable):
        jobs.requeue_all("mail")
    # All were requeued by the first sending; another call finds nothing left and does no harm.
    assert jobs.requeue_all("mail") == Moved(0, 0)
    assert places() == {"pending": 3}
