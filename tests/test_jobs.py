"""The service: what an application calls, what it gets, and what it is told when it cannot have it."""

import itertools
import json
import math
import random
import string
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from echomq_django import connection, ids, jobs, keys, looks, retries, transitions
from echomq_django.exceptions import (
    EchoMQError,
    InvalidId,
    InvalidQueueName,
    JobGone,
    LeaseLost,
    PayloadError,
    QueueFull,
    ServerUnavailable,
    WrongPlace,
)
from echomq_django.job import Claim, Location
from echomq_django.jobs import Enqueued, Moved
from echomq_django.service import admitting
from tests.server import dump

MAIL = keys.of("mail")
OWN = "JOB0MzT2a4Bc3D"
NEW_YORK, KATHMANDU = ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu")


@pytest.fixture(autouse=True)
def _forget_known_queues() -> None:
    """Forget which queues were registered: the server is empty again."""
    admitting._registered.clear()


def now_ms(client: redis.Redis) -> int:
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def a_claim(data: Any = b"payload", **options: Any) -> Claim:
    jobs.enqueue("mail", data, **options)
    [claim] = jobs.claim("mail")
    return claim


def a_dead_job(data: Any = b"payload") -> str:
    claim = a_claim(data)
    assert jobs.retry(claim, "it failed", max_attempts=1) is Location.DEAD
    return claim.id


def bury(client: redis.Redis, number: int) -> list[str]:
    """Put many dead jobs there at once, the first of them the oldest."""
    job_ids = [each.id for each in jobs.enqueue_many("mail", ["payload"] * number)]
    pipe = client.pipeline(transaction=False)
    pipe.delete(MAIL.pending, MAIL.wake)
    for number, job_id in enumerate(job_ids):
        pipe.hset(MAIL.row(job_id), mapping={"state": "dead", "attempts": 3, "last_error": "it failed"})
        pipe.zadd(MAIL.dead, {job_id: 1000 + number})
    pipe.execute()
    return job_ids


def in_place(place: str) -> list[str]:
    return [job.id for job in jobs.page("mail", place, size=500)]


# --- enqueue ----------------------------------------------------------------------------------------------------------


def test_an_enqueued_job_is_pending_and_holds_what_was_given(client: redis.Redis) -> None:
    done = jobs.enqueue("mail", {"order": 7}, priority=5, name="shop.tasks.send", max_attempts=2)
    job = jobs.get("mail", done.id)
    assert done.status == jobs.ENQUEUED
    assert (job.queue, job.location, job.payload) == ("mail", "pending", b'{"order":7}')
    assert (job.priority, job.name, job.max_attempts, job.attempts) == (5, "shop.tasks.send", 2, 0)
    assert abs(job.enqueued_at - now_ms(client)) < 5000
    assert ids.parse(done.id).namespace == "JOB"


def test_an_own_id_makes_the_second_enqueue_a_duplicate_while_the_job_or_its_result_exists(
    client: redis.Redis,
) -> None:
    assert jobs.enqueue("mail", b"first", id=OWN) == Enqueued(OWN, "enqueued")
    assert jobs.enqueue("mail", b"second", id=OWN) == Enqueued(OWN, "duplicate")
    [claim] = jobs.claim("mail")
    assert jobs.enqueue("mail", b"third", id=OWN).status == "duplicate"
    assert claim.payload == b"first"
    jobs.complete(claim, "done")
    assert jobs.enqueue("mail", b"fourth", id=OWN).status == "duplicate"
    client.delete(MAIL.result(OWN))
    assert jobs.enqueue("mail", b"fifth", id=OWN).status == "enqueued"


def test_a_reused_id_inherits_nothing(client: redis.Redis) -> None:
    jobs.enqueue("mail", b"first", id=OWN, priority=9, name="a.b", max_attempts=2)
    [claim] = jobs.claim("mail")
    jobs.retry(claim, "it failed", delay=0)
    [claim] = jobs.claim("mail")
    jobs.complete(claim)
    client.delete(MAIL.result(OWN))
    jobs.enqueue("mail", b"second", id=OWN)
    job = jobs.get("mail", OWN)
    assert (job.payload, job.attempts, job.priority, job.name, job.max_attempts) == (b"second", 0, 0, "", None)
    assert (job.last_error, job.errors, job.started_at, job.owner) == ("", (), None, "")


def test_higher_priorities_come_first_and_equal_ones_in_order() -> None:
    order = [jobs.enqueue("mail", str(priority), priority=priority).id for priority in (0, -100, 100, 0, 100, 7)]
    assert [claim.id for claim in jobs.claim("mail", 9)] == [order[at] for at in (2, 4, 5, 0, 3, 1)]


def test_many_jobs_are_stored_in_order_with_a_verdict_each() -> None:
    done = jobs.enqueue_many("mail", (str(number) for number in range(1201)), name="a.b", max_attempts=3, priority=2)
    assert {each.status for each in done} == {"enqueued"}
    assert jobs.counts("mail").pending == 1201
    assert [claim.payload for claim in jobs.claim("mail", 500)] == [str(number).encode() for number in range(500)]
    assert jobs.enqueue_many("mail", []) == []
    assert {each.status for each in jobs.enqueue_many("mail", ["later"] * 2, delay=60)} == {"scheduled"}


def test_one_payload_that_cannot_be_written_stops_all_of_them(client: redis.Redis) -> None:
    with pytest.raises(PayloadError, match="queue 'mail' was not stored"):
        jobs.enqueue_many("mail", [b"good", object()])
    assert dump(client) == {}


def test_a_bulk_that_breaks_off_says_how_many_were_stored(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    admit = admitting.chunk
    chunks: list[int] = []

    def admitted(queue: str, bodies: Any, *rest: Any) -> Any:
        chunks.append(len(bodies))
        if len(chunks) == 3:
            raise ServerUnavailable("gone")
        return admit(queue, bodies, *rest)

    monkeypatch.setattr(admitting, "chunk", admitted)
    with pytest.raises(ServerUnavailable) as caught:
        jobs.enqueue_many("mail", ["payload"] * 1500)
    assert caught.value.__notes__ == ["1000 of 1500 jobs were stored in queue 'mail' before this."]
    assert chunks == [500, 500, 500]
    assert jobs.counts("mail").pending == 1000


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"priority": 101}, ValueError, "-100 to 100"),
        ({"priority": -101}, ValueError, "-100 to 100"),
        ({"priority": True}, ValueError, "priority"),
        ({"priority": 1.5}, ValueError, "priority"),
        ({"max_attempts": 0}, ValueError, "max_attempts"),
        ({"max_attempts": True}, ValueError, "max_attempts"),
        ({"max_attempts": "3"}, ValueError, "max_attempts"),
        ({"name": None}, ValueError, "name"),
        ({"name": "x" * 501}, ValueError, "name"),
        ({"delay": 1, "at": datetime.now(UTC)}, ValueError, "not both"),
        ({"id": "JOB0MzT2a4Bc3D\n"}, InvalidId, "is not an id"),
        ({"id": "TEN0MzT2a4Bc3D"}, InvalidId, "those begin with 'JOB'"),
        ({"id": ""}, InvalidId, "is not an id"),
        ({"id": 7}, InvalidId, "is not an id"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_stored(
    client: redis.Redis, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        jobs.enqueue("mail", b"payload", **options)
    assert not client.keys(MAIL.job_root + "*")


@pytest.mark.parametrize("queue", ["", "emq", "a:b", "*", "{x}", "é", "a" * 129, "mail\n", "a b", None, 7])
def test_a_queue_without_a_proper_name_is_refused_by_every_function(client: redis.Redis, queue: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: jobs.enqueue(queue, b""),
        lambda: jobs.enqueue_many(queue, [b""]),
        lambda: jobs.claim(queue),
        lambda: jobs.promote(queue),
        lambda: jobs.reap(queue),
        lambda: jobs.expire(queue),
        lambda: jobs.get(queue, OWN),
        lambda: jobs.location(queue, OWN),
        lambda: jobs.counts(queue),
        lambda: jobs.page(queue, "dead"),
        lambda: jobs.oldest_pending_age(queue),
        lambda: jobs.minutes(queue),
        lambda: jobs.requeue(queue, OWN),
        lambda: jobs.remove(queue, OWN),
        lambda: jobs.advance(queue, OWN),
        lambda: jobs.revise(queue, OWN, b""),
        lambda: jobs.requeue_all(queue),
        lambda: jobs.advance_all(queue),
        lambda: jobs.remove_all(queue, "dead"),
        lambda: jobs.drain(queue),
        lambda: jobs.pause(queue),
        lambda: jobs.resume(queue),
    ]
    for call in calls:
        with pytest.raises(InvalidQueueName, match="is not a queue's name"):
            call()
    assert dump(client).keys() <= {keys.VERSION}


# --- delays and times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay", "ms"),
    [
        (0, 0),
        (0.0004, 0),
        (0.0006, 1),
        (1, 1000),
        (2.5, 2500),
        (timedelta(hours=1), 3_600_000),
        (timedelta(0), 0),
        (100 * 365 * 86_400, 100 * 365 * 86_400_000),
    ],
)
def test_a_delay_is_added_to_the_servers_clock(client: redis.Redis, delay: Any, ms: int) -> None:
    before = now_ms(client)
    done = jobs.enqueue("mail", b"payload", delay=delay)
    after = now_ms(client)
    if ms == 0:
        assert done.status == "enqueued"
    else:
        assert done.status == "scheduled"
        assert before + ms <= client.zscore(MAIL.schedule, done.id) <= after + ms


@pytest.mark.parametrize(
    ("delay", "error"),
    [
        (-1, ValueError),
        (-0.001, ValueError),
        (timedelta(seconds=-1), ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-math.inf, ValueError),
        (10**12, ValueError),
        (10**400, ValueError),
        (timedelta.max, ValueError),
        (True, TypeError),
        ("5", TypeError),
        (b"5", TypeError),
        (Decimal(5), TypeError),
        (datetime.now(UTC), TypeError),
    ],
)
def test_a_delay_that_is_none_is_refused_in_the_caller(client: redis.Redis, delay: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="delay is"):
        jobs.enqueue("mail", b"payload", delay=delay)
    with pytest.raises(error, match="delay is"):
        jobs.enqueue_many("mail", [b"payload"], delay=delay)
    assert dump(client) == {}


# In New York the clocks went from 2:00 to 3:00 on 2030-03-10, and from 2:00 back to 1:00 on 2030-11-03.
@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("time_zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("at", "epoch"),
    [
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), 1893553445),
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=KATHMANDU), 1893532745),
        (datetime(2030, 3, 10, 1, 59, tzinfo=NEW_YORK), 1899356340),
        (datetime(2030, 3, 10, 2, 30, tzinfo=NEW_YORK), 1899358200),
        (datetime(2030, 3, 10, 2, 30, tzinfo=NEW_YORK, fold=1), 1899354600),
        (datetime(2030, 11, 3, 1, 30, tzinfo=NEW_YORK), 1919914200),
        (datetime(2030, 11, 3, 1, 30, tzinfo=NEW_YORK, fold=1), 1919917800),
        (datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=-12))), 1893499200),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), 253402300799),
    ],
)
def test_an_aware_time_means_the_same_moment_everywhere(
    client: redis.Redis, settings: Any, use_tz: bool, time_zone: str, at: datetime, epoch: int
) -> None:
    settings.USE_TZ, settings.TIME_ZONE = use_tz, time_zone
    done = jobs.enqueue("mail", b"payload", at=at)
    assert done.status == "scheduled"
    assert client.zscore(MAIL.schedule, done.id) == epoch * 1000
    job = jobs.get("mail", done.id)
    assert (job.location, job.time) == ("schedule", epoch * 1000)


@pytest.mark.parametrize(
    ("time_zone", "at", "epoch"),
    [
        ("UTC", datetime(2030, 1, 2, 3, 4, 5), 1893553445),
        ("Asia/Kathmandu", datetime(2030, 1, 2, 3, 4, 5), 1893532745),
        ("America/New_York", datetime(2030, 3, 10, 2, 30), 1899358200),
        ("America/New_York", datetime(2030, 11, 3, 1, 30), 1919914200),
        ("America/New_York", datetime(2030, 11, 3, 1, 30, fold=1), 1919917800),
    ],
)
def test_a_naive_time_is_in_the_projects_zone_when_use_tz_is_off(
    client: redis.Redis, settings: Any, time_zone: str, at: datetime, epoch: int
) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, time_zone
    done = jobs.enqueue("mail", b"payload", at=at)
    assert client.zscore(MAIL.schedule, done.id) == epoch * 1000


def test_a_naive_time_is_refused_when_use_tz_is_on(client: redis.Redis) -> None:
    with pytest.raises(ValueError, match="has no time zone: use an aware datetime, as USE_TZ is on"):
        jobs.enqueue("mail", b"payload", at=datetime(2030, 1, 1))
    assert dump(client) == {}


@pytest.mark.parametrize("at", ["2030-01-01", 1893456000, date(2030, 1, 1), True])
def test_a_time_that_is_no_datetime_is_refused(client: redis.Redis, at: Any) -> None:
    with pytest.raises(TypeError, match="use a datetime"):
        jobs.enqueue("mail", b"payload", at=at)
    assert dump(client) == {}


def test_a_time_that_has_passed_means_now() -> None:
    for at in (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1, 1, 2, tzinfo=UTC),
        datetime.now(UTC) - timedelta(seconds=1),
    ):
        assert jobs.enqueue("mail", b"payload", at=at).status == "enqueued"
    assert jobs.counts("mail").pending == 3


def test_a_job_runs_once_when_its_time_has_come_and_not_before(client: redis.Redis) -> None:
    done = jobs.enqueue("mail", b"payload", delay=60)
    assert jobs.claim("mail") == []
    client.zadd(MAIL.schedule, {done.id: now_ms(client)})
    [claim] = jobs.claim("mail")
    assert claim.id == done.id
    assert jobs.claim("mail") == []


@pytest.mark.parametrize("hours", [-240, 240])
def test_a_clients_wrong_clock_moves_neither_delays_nor_leases_nor_backoffs(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
    monkeypatch.setattr(ids, "_mint", ids.Mint(clock=time.time))
    now = now_ms(client)
    done = jobs.enqueue("mail", b"later", delay=5)
    assert now + 5000 <= client.zscore(MAIL.schedule, done.id) <= now + 8000
    claim = a_claim()
    assert now + 30_000 <= client.zscore(MAIL.active, claim.id) <= now + 33_000
    jobs.extend(claim, 50)
    assert now + 50_000 <= client.zscore(MAIL.active, claim.id) <= now + 53_000
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    jobs.reap("mail")
    assert jobs.reap("mail").moved == 0
    jobs.retry(claim, "it failed", delay=10)
    assert now + 10_000 <= client.zscore(MAIL.schedule, claim.id) <= now + 13_000
    # The one clock of a producer that is seen: its age. It is never negative.
    jobs.enqueue("mail", b"aged")
    age = jobs.oldest_pending_age("mail")
    assert age is not None
    assert 0 <= age < 241 * 3600


# --- payloads ---------------------------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "data",
    [
        (1, 2),
        {1, 2},
        {1: "a"},
        {None: "a"},
        {True: "a"},
        {"a": (1,)},
        math.nan,
        math.inf,
        [1, -math.inf],
        Decimal("1.5"),
        uuid.uuid4(),
        datetime.now(UTC),
        datetime(2030, 1, 1),
        date(2030, 1, 1),
        timedelta(1),
        [b"bytes inside"],
        bytearray(b"x"),
        memoryview(b"x"),
        Colour.RED,
        Path("a"),
        gettext_lazy("text"),
        {"a": gettext_lazy("text")},
        mark_safe("text"),
        [mark_safe("text")],
        object(),
        iter([1]),
        range(3),
        lambda: None,
        "\ud800",
        {"a": "\ud800"},
        {"\udfff": 1},
        10**5000,
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_would_not_come_back_as_it_is_is_refused_in_the_caller(client: redis.Redis, data: Any) -> None:
    with pytest.raises(PayloadError, match="a job for queue 'mail' was not stored: ") as caught:
        jobs.enqueue("mail", data)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    assert dump(client) == {}


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_what_is_nested_too_deeply_or_contains_itself_is_refused(client: redis.Redis, depth: int) -> None:
    nested: Any = []
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(PayloadError, match="nested too deeply"):
        jobs.enqueue("mail", nested)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="nested too deeply"):
        jobs.enqueue("mail", {"loop": loop})
    assert dump(client) == {}


NESTED: Any = 1
for _ in range(300):
    NESTED = [NESTED]
SHUFFLED = list(string.ascii_letters)
random.Random(7).shuffle(SHUFFLED)


@pytest.mark.parametrize(
    "data",
    [
        None,
        True,
        0,
        [],
        {},
        [[], {}, [{}]],
        {"a": [], "b": {"c": {}}},
        2**53 + 1,
        2**63,
        -(2**70),
        15947634569000323,
        1e-7,
        0.1 + 0.2,
        math.pi,
        -0.0,
        1e308,
        ["3.14159265358979323846264338327950288"],
        {"z": 1, "a": 2, "m": 3},
        dict.fromkeys(SHUFFLED, 0),
        {"a": 1, "A": 2, " a": 3, "": 4},
        ["\x00", "\u2028\u2029", "\N{GRINNING FACE}", "é", "é", '"\\/', "</script>"],
        NESTED,
    ],
    ids=lambda data: repr(data)[:30],
)
def test_a_json_payload_comes_back_as_it_went_in_and_its_bytes_are_never_touched(
    client: redis.Redis, data: Any
) -> None:
    done = jobs.enqueue("mail", data, delay=60)

    def stored() -> bytes:
        held: bytes = client.hget(MAIL.row(done.id), "payload")
        return held

    body = stored()
    assert json.loads(body) == data
    client.zadd(MAIL.schedule, {done.id: 1})
    assert jobs.promote("mail") == jobs.Moved(1, 0)
    assert stored() == body
    [claim] = jobs.claim("mail")
    assert (claim.payload, stored()) == (body, body)
    assert json.dumps(claim.data) == json.dumps(data)
    assert type(claim.data) is type(data)
    jobs.retry(claim, "it failed", delay=0)
    [claim] = jobs.claim("mail")
    jobs.release(claim)
    [claim] = jobs.claim("mail")
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    jobs.reap("mail")
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    client.zadd(MAIL.active, {done.id: 1})
    assert jobs.reap("mail").pending == 1
    [claim] = jobs.claim("mail")
    assert jobs.retry(claim, "it failed", max_attempts=1) is Location.DEAD
    assert (jobs.get("mail", done.id).payload, in_place("dead")) == (body, [done.id])
    jobs.requeue("mail", done.id)
    [claim] = jobs.claim("mail")
    assert (claim.payload, stored()) == (body, body)
    jobs.complete(claim)


@pytest.mark.parametrize("data", [b"", b"\x00", bytes(range(256)), b"\x80\x04junk", "", "text", "{not json", "é\x00"])
def test_bytes_and_texts_are_stored_as_they_are(data: bytes | str) -> None:
    claim = a_claim(data)
    assert claim.payload == (data if isinstance(data, bytes) else data.encode())


def test_a_payload_that_is_not_json_is_an_error_only_when_it_is_read_as_json() -> None:
    claim = a_claim(b"\x80\x04junk")
    with pytest.raises(PayloadError, match="it is not JSON"):
        _ = claim.data
    jobs.complete(claim)


def test_a_payload_that_is_too_large_for_the_server_fails_clearly_and_the_client_goes_on(
    private_server: Callable[..., Any], settings: Any
) -> None:
    server = private_server(config={"proto-max-bulk-len": "1mb"})
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    assert jobs.enqueue("mail", b"x" * 900_000).status == "enqueued"
    with pytest.raises(EchoMQError, match="queue 'mail'"):
        jobs.enqueue("mail", b"x" * 2_000_000)
    assert jobs.enqueue("mail", b"small").status == "enqueued"
    assert jobs.counts("mail").pending == 2


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_holds_what_the_job_holds_and_proves_itself() -> None:
    done = jobs.enqueue("mail", {"order": 7}, name="a.b", max_attempts=9)
    [claim] = jobs.claim("mail")
    assert (claim.queue, claim.id, claim.token, claim.attempt) == ("mail", done.id, 1, 1)
    assert (claim.data, claim.name, claim.max_attempts) == ({"order": 7}, "a.b", 9)
    assert jobs.location("mail", done.id) is Location.ACTIVE
    assert jobs.claim("mail") == []


def test_every_claim_of_one_process_is_another_one() -> None:
    first = a_claim()
    jobs.release(first)
    [second] = jobs.claim("mail")
    assert (second.id, second.token) == (first.id, 2)
    assert second.owner != first.owner
    assert second.attempt == 1
    with pytest.raises(LeaseLost):
        jobs.complete(first)
    jobs.complete(second)


@pytest.mark.parametrize("n", [0, -1, 501])
def test_a_claim_of_too_many_or_none_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="claim from 1 to 500 jobs of queue 'mail'"):
        jobs.claim("mail", n)


@pytest.mark.parametrize(("lease", "ms"), [(None, 30_000), (5, 5000), (0.5, 500), (timedelta(minutes=2), 120_000)])
def test_a_lease_is_the_queues_or_the_one_that_is_given(client: redis.Redis, lease: Any, ms: int) -> None:
    jobs.enqueue("mail", b"payload")
    now = now_ms(client)
    [claim] = jobs.claim("mail", lease=lease)
    assert now + ms <= client.zscore(MAIL.active, claim.id) <= now + ms + 5000


SETTLES: list[Any] = [
    pytest.param(lambda claim: jobs.complete(claim), id="complete"),
    pytest.param(lambda claim: jobs.retry(claim, "it failed"), id="retry"),
    pytest.param(lambda claim: jobs.extend(claim), id="extend"),
    pytest.param(lambda claim: jobs.release(claim), id="release"),
]


@pytest.mark.parametrize("settle", SETTLES)
def test_a_claim_that_was_lost_is_refused_by_name_and_changes_nothing(
    client: redis.Redis, settle: Callable[[Claim], Any]
) -> None:
    late = a_claim()
    jobs.release(late)
    jobs.claim("mail")
    before = dump(client)
    with pytest.raises(LeaseLost) as caught:
        settle(late)
    assert dump(client) == before
    assert f"job {late.id} of queue 'mail': the claim with token 1 no longer holds it" in str(caught.value)
    assert "Drop this result" in str(caught.value)


@pytest.mark.parametrize(
    ("settle", "error"),
    list(zip((each.values[0] for each in SETTLES), (JobGone, JobGone, LeaseLost, LeaseLost), strict=True)),
    ids=["complete", "retry", "extend", "release"],
)
def test_a_job_that_was_completed_meanwhile_is_refused_by_name_and_no_ghost_is_made(
    client: redis.Redis, settle: Callable[[Claim], Any], error: type[Exception]
) -> None:
    claim = a_claim()
    jobs.complete(claim)
    before = dump(client)
    with pytest.raises(error, match=rf"job {claim.id} of queue 'mail'"):
        settle(claim)
    assert dump(client) == before


def test_a_failed_attempt_is_scheduled_with_what_went_wrong_and_dead_after_the_last_one(client: redis.Redis) -> None:
    done = jobs.enqueue("mail", b"payload", max_attempts=2)
    [claim] = jobs.claim("mail")
    assert jobs.retry(claim, ZeroDivisionError("by zero"), delay=0) is Location.SCHEDULE
    [claim] = jobs.claim("mail")
    assert claim.attempt == 2
    assert jobs.retry(claim, "a text") is Location.DEAD
    job = jobs.get("mail", done.id)
    assert (job.location, job.state, job.last_error) == ("dead", "dead", "a text")
    assert [(record.error, record.message, record.attempt) for record in job.errors] == [
        ("builtins.ZeroDivisionError", "ZeroDivisionError: by zero", 1),
        ("error", "a text", 2),
    ]
    assert abs((job.time or 0) - now_ms(client)) < 5000
    assert job.died_at == job.time


def test_the_backoff_of_the_queue_is_used_unless_a_delay_is_given(
    client: redis.Redis, settings: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = {"mail": {"BACKOFF_BASE": 10, "BACKOFF_CAP": 25}}
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": queues}}
    monkeypatch.setattr(retries, "jittered", lambda delay: delay)
    delays = []
    claim = a_claim()
    for _ in range(3):
        before = now_ms(client)
        jobs.retry(claim, "it failed")
        delays.append(round((client.zscore(MAIL.schedule, claim.id) - before) / 1000))
        client.zadd(MAIL.schedule, {claim.id: 1})
        [claim] = jobs.claim("mail")
    assert delays == [10, 20, 25]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("\ud800 half"),
        ValueError("nul \x00 inside"),
        ValueError("x" * 5_000_000),
        KeyboardInterrupt(),
        SystemExit(3),
        MemoryError(),
        RecursionError("deep"),
    ],
    ids=lambda error: repr(error)[:20],
)
def test_any_error_can_be_stored(error: BaseException) -> None:
    claim = a_claim()
    assert jobs.retry(claim, error, delay=60) is Location.SCHEDULE
    job = jobs.get("mail", claim.id)
    assert job.last_error.startswith(type(error).__name__)
    assert len(job.last_error) <= 1000


def test_an_extend_holds_a_job_past_its_lease(client: redis.Redis) -> None:
    claim = a_claim()
    client.zadd(MAIL.active, {claim.id: 1})
    jobs.extend(claim)
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    jobs.reap("mail")
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    assert jobs.reap("mail").moved == 0
    jobs.complete(claim)


def test_a_reap_takes_lost_jobs_back_and_an_outage_gives_the_living_a_lease(client: redis.Redis) -> None:
    claim = a_claim()
    client.zadd(MAIL.active, {claim.id: 1})
    assert jobs.reap("mail").waiting
    client.hset(MAIL.meta, mapping={"reap_after": 0})
    done = jobs.reap("mail")
    assert (done.waiting, done.pending, done.moved) == (False, 1, 1)
    assert [record.error for record in jobs.get("mail", claim.id).errors] == ["crashed"]


@pytest.mark.parametrize("limit", [0, -1, 501])
def test_a_move_of_too_many_or_none_is_refused(limit: int) -> None:
    for move in (jobs.promote, jobs.reap, jobs.expire):
        with pytest.raises(ValueError, match="one call moves from 1 to 500"):
            move("mail", limit)


def test_dead_jobs_beyond_the_time_and_the_number_are_forgotten(client: redis.Redis, settings: Any, url: str) -> None:
    dead = bury(client, 10)
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": {"DEAD_TTL": 3600, "DEAD_MAX": 4}}}}
    client.zadd(MAIL.dead, {job_id: now_ms(client) + at for at, job_id in enumerate(dead[3:])})
    assert jobs.expire("mail") == 6
    assert in_place("dead") == dead[:5:-1]
    assert len(client.keys(MAIL.job_root + "*")) == 4
    assert jobs.expire("mail") == 0


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [True, 0, -1.5, "text", "é\u2028", "", [], [1, [None]], {"a": {"b": []}}])
def test_a_completed_job_is_found_with_its_result_while_that_is_kept(client: redis.Redis, result: Any) -> None:
    claim = a_claim(b"payload", name="a.b")
    jobs.complete(claim, result)
    job = jobs.get("mail", claim.id)
    assert (job.state, job.location, job.time, jobs.location("mail", claim.id)) == ("completed", None, None, None)
    assert json.loads(job.result or b"") == result
    assert (job.payload, job.name, job.attempts, job.owner) == (b"payload", "a.b", 1, claim.owner)
    assert abs((job.finished_at or 0) - now_ms(client)) < 5000
    assert 3_500_000 < client.pttl(MAIL.result(claim.id)) <= 3_600_000
    client.delete(MAIL.result(claim.id))
    with pytest.raises(JobGone, match=r"its result is kept no longer \(RESULT_TTL\)"):
        jobs.get("mail", claim.id)


def test_a_job_without_a_result_is_kept_only_where_the_setting_says_so(settings: Any, url: str) -> None:
    claim = a_claim()
    jobs.complete(claim)
    with pytest.raises(JobGone):
        jobs.get("mail", claim.id)
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": {"RESULT_TTL": 60}}}}
    claim = a_claim()
    jobs.complete(claim)
    assert (jobs.get("mail", claim.id).state, jobs.get("mail", claim.id).result) == ("completed", b"null")


@pytest.mark.parametrize(
    "result", [(1, 2), {1: 2}, math.nan, b"bytes", datetime.now(UTC), {"a": {1}}, "\ud800", Decimal(1), object()]
)
def test_a_result_that_would_not_come_back_as_it_is_settles_nothing(client: redis.Redis, result: Any) -> None:
    claim = a_claim()
    before = dump(client)
    with pytest.raises(PayloadError, match=f"result of job {claim.id} of queue 'mail' cannot be kept.*not settled"):
        jobs.complete(claim, result)
    assert dump(client) == before
    jobs.complete(claim)


@pytest.mark.parametrize(
    ("queue", "kept_ms"),
    [
        ({}, 3_600_000),
        ({"RESULT_TTL": timedelta(minutes=2)}, 120_000),
        ({"RESULT_TTL": 0}, None),
        ({"HANDLER": "a.b"}, None),
        ({"HANDLER": "a.b", "RESULT_TTL": 5}, 5000),
    ],
)
def test_a_result_is_kept_for_the_time_of_its_queue(
    client: redis.Redis, settings: Any, url: str, queue: dict[str, Any], kept_ms: int | None
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": queue}}}
    claim = a_claim()
    jobs.complete(claim, "done")
    if kept_ms:
        assert kept_ms - 5000 < client.pttl(MAIL.result(claim.id)) <= kept_ms
    else:
        assert [key for key in client.keys("*") if claim.id.encode() in key] == []
    assert [job.id for job in jobs.recent("mail")] == [claim.id]


def test_a_completed_job_keeps_its_errors_and_its_log() -> None:
    claim = a_claim()
    jobs.retry(claim, "it failed", delay=0)
    [claim] = jobs.claim("mail")
    note = transitions.annotate(MAIL, claim, [("log", "one"), ("log", "two"), ("progress", "9"), ("checkpoint", "[]")])
    assert connection.client().run(note) == "ok"
    before, lines = jobs.get("mail", claim.id), jobs.logs("mail", claim.id)
    jobs.complete(claim, 7)
    after = jobs.get("mail", claim.id)
    assert [record.message for record in after.errors] == ["it failed"]
    assert (after.errors, jobs.logs("mail", claim.id)) == (before.errors, lines)
    assert (before.progress, before.checkpoint, before.result, before.finished_at) == ("9", b"[]", None, None)
    assert (after.progress, after.checkpoint, after.result, after.attempt) == ("9", b"[]", b"7", 2)
    assert lines == ["one", "two"]


def test_a_job_that_is_completed_between_two_looks_is_found(client: redis.Redis) -> None:
    claim = a_claim()
    call = looks.get(MAIL, claim.id)
    row, *others = call.commands
    replies = [client.execute_command(*row)]
    jobs.complete(claim, 5)
    replies += [client.execute_command(*command) for command in others]
    found = call.parse([_flat(reply) for reply in replies])
    assert found is not None
    assert (found.state, found.location) == ("active", None)
    found = call.parse([_flat(client.execute_command(*command)) for command in call.commands])
    assert found is not None
    assert (found.state, found.result) == ("completed", b"5")


def _flat(reply: Any) -> Any:
    return [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply


def test_a_job_that_waits_again_is_found_before_an_older_result_of_its_id(client: redis.Redis) -> None:
    claim = a_claim(id=OWN)
    jobs.complete(claim, 5)
    # As EchoMQ enqueues it.
    client.hset(MAIL.row(OWN), mapping={"state": "pending", "attempts": 0, "payload": "new"})
    client.zadd(MAIL.pending, {OWN: 0})
    client.rpush(MAIL.result_logs(OWN), "old")
    job = jobs.get("mail", OWN)
    assert (job.state, job.location, job.payload, job.result) == ("pending", "pending", b"new", None)


def test_a_job_without_a_log_has_no_lines(client: redis.Redis) -> None:
    assert jobs.logs("mail", OWN) == []
    assert jobs.logs("mail", a_claim().id) == []
    client.set(MAIL.logs(OWN), "no list")
    client.rpush(MAIL.result_logs(OWN), b"\xff", b"")
    assert jobs.logs("mail", OWN) == ["\\xff", ""]


def test_completed_jobs_are_listed_the_latest_first_also_when_no_result_is_kept(
    client: redis.Redis, settings: Any, url: str
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": {"KEEP_COMPLETED": 4}}}}
    done = [each.id for each in jobs.enqueue_many("mail", ["payload"] * 6, name="a.b")]
    for number, claim in enumerate(jobs.claim("mail", 6)):
        jobs.complete(claim, number)
    client.delete(MAIL.result(done[4]))
    client.delete(MAIL.result(done[3]))
    client.set(MAIL.result(done[3]), "no hash")
    found = jobs.recent("mail")
    assert [(job.id, job.state, job.location, job.name, job.result) for job in found] == [
        (done[5], "completed", None, "a.b", b"5"),
        (done[4], "completed", None, "", None),
        (done[3], "completed", None, "", None),
        (done[2], "completed", None, "a.b", b"2"),
    ]
    assert [job.id for job in jobs.recent("mail", 1, 2)] == [done[4], done[3]]
    assert jobs.recent("mail", 4) == jobs.recent("default") == []
    for start, size in ((-1, 5), (0, 0), (0, 501)):
        with pytest.raises(ValueError, match="a page of queue 'mail' starts at 0 or later and has 1 to 500 jobs"):
            jobs.recent("mail", start, size)


def test_no_completed_job_is_listed_where_none_shall_be(client: redis.Redis, settings: Any, url: str) -> None:
    settings.ECHOMQ = {
        "default": {"LOCATION": url, "QUEUES": {"mail": {"KEEP_COMPLETED": 0, "RESULT_TTL": timedelta(0)}}}
    }
    claim = a_claim()
    jobs.complete(claim)
    assert client.keys(MAIL.recent) == client.keys(f"*{claim.id}*") == jobs.recent("mail") == []


# --- looks ------------------------------------------------------------------------------------------------------------


def test_a_job_is_found_in_every_place(client: redis.Redis) -> None:
    dead = a_dead_job()
    active = a_claim().id
    scheduled = jobs.enqueue("mail", b"", delay=60).id
    pending = jobs.enqueue("mail", b"").id
    places = {pending: "pending", active: "active", scheduled: "schedule", dead: "dead", OWN: None}
    assert {job_id: jobs.location("mail", job_id) for job_id in places} == places
    counts = jobs.counts("mail")
    assert (counts.pending, counts.active, counts.schedule, counts.dead, counts.quarantine) == (1, 1, 1, 1, 0)
    assert (counts.completed, counts.failed, counts.paused) == (0, 1, False)
    for job_id, place in places.items():
        if place:
            assert in_place(place) == [job_id]
            assert jobs.get("mail", job_id).location == place
    with pytest.raises(JobGone, match=f"queue 'mail' has no job {OWN}: it was removed, never enqueued, or completed"):
        jobs.get("mail", OWN)


@pytest.mark.parametrize("look", [jobs.get, jobs.location, jobs.logs, jobs.requeue, jobs.remove, jobs.advance])
@pytest.mark.parametrize("job_id", ["", "JOB", OWN + "\n", "TEN0MzT2a4Bc3D", "*", None])
def test_what_is_no_id_of_a_job_is_refused_before_a_key_is_built_from_it(
    client: redis.Redis, look: Callable[[str, Any], Any], job_id: Any
) -> None:
    with pytest.raises(InvalidId):
        look("mail", job_id)
    assert dump(client) == {}


def test_pages_part_a_place_and_the_dead_are_shown_newest_first(client: redis.Redis) -> None:
    dead = bury(client, 25)
    pages = [[job.id for job in jobs.page("mail", "dead", start, 10)] for start in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [job_id for page in pages for job_id in page] == dead[::-1]
    pending = [each.id for each in jobs.enqueue_many("mail", ["payload"] * 3)]
    assert in_place("pending") == pending
    soon = [jobs.enqueue("mail", b"", delay=delay).id for delay in (300, 100, 200)]
    assert in_place("schedule") == [soon[1], soon[2], soon[0]]


@pytest.mark.parametrize(("start", "size"), [(-1, 10), (0, 0), (0, 501), (0, -1)])
def test_a_page_that_is_none_is_refused(start: int, size: int) -> None:
    with pytest.raises(ValueError, match="a page of queue 'mail'"):
        jobs.page("mail", "dead", start, size)


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'done' is not a valid Location"):
        jobs.page("mail", "done")


def test_a_page_shows_jobs_whose_rows_are_broken(client: redis.Redis) -> None:
    dead = bury(client, 5)
    client.delete(MAIL.row(dead[0]))
    client.hset(MAIL.row(dead[2]), mapping={"attempts": "many", "payload": b"\xff\xfe", "name": b"\xff", "spared": ""})
    assert in_place("dead") == dead[::-1]
    assert jobs.get("mail", dead[2]).payload == b"\xff\xfe"


def test_the_oldest_pending_job_is_found_under_any_priority(client: redis.Redis) -> None:
    assert jobs.oldest_pending_age("mail") is None
    age = 3600
    old = ids.brand("JOB", (now_ms(client) - age * 1000 - ids.EPOCH) << 22)
    jobs.enqueue("mail", b"urgent", priority=9)
    jobs.enqueue("mail", b"old", priority=-5, id=old)
    jobs.enqueue("mail", b"new", priority=-5)
    found = jobs.oldest_pending_age("mail")
    assert found is not None
    assert age <= found < age + 30


def test_queues_are_those_configured_and_those_used(client: redis.Redis) -> None:
    assert jobs.queues() == ["default", "mail"]
    jobs.enqueue("invoices", b"")
    jobs.enqueue_many("Letters", [b""])
    assert jobs.queues() == ["Letters", "default", "invoices", "mail"]


def test_two_queues_of_one_server_share_nothing(client: redis.Redis) -> None:
    jobs.enqueue("mail", b"mail", id=OWN)
    jobs.enqueue("mail.high", b"high", id=OWN)
    before = {key: value for key, value in dump(client).items() if "{mail}" in key}
    assert jobs.drain("mail.high") == 1
    assert {key: value for key, value in dump(client).items() if "{mail}" in key} == before
    assert jobs.location("mail.high", OWN) is None


def test_the_minutes_of_the_last_hour_are_told_the_oldest_first_also_those_in_which_nothing_was_done(
    client: redis.Redis,
) -> None:
    this = now_ms(client) // 60_000
    assert this * 60_000 <= jobs.now_ms() < (this + 2) * 60_000
    for minute in range(this - 100, this - 5):
        client.hset(MAIL.minute(minute), mapping={"completed": minute, "failed": 1})
    client.delete(MAIL.minute(this - 7), MAIL.minute(this - 8))
    client.set(MAIL.minute(this - 7), "junk")
    client.hset(MAIL.minute(this - 6), mapping={"completed": "x", "failed": "-1"})
    jobs.complete(a_claim())
    a_dead_job()
    found = jobs.minutes("mail")
    last = found[-1].minute // 60_000
    assert last in (this, this + 1)
    assert [each.minute for each in found] == [minute * 60_000 for minute in range(last - 59, last + 1)]
    told = {each.minute // 60_000 - this: (each.completed, each.failed) for each in found}
    assert [told[at] for at in range(-58, -8)] == [(this + at, 1) for at in range(-58, -8)]
    assert [told[at] for at in range(-8, 0)] == [(0, 0)] * 8
    assert (told[0][0] + told.get(1, (0, 0))[0], told[0][1] + told.get(1, (0, 0))[1]) == (1, 1)
    assert set(jobs.minutes("other")) == {jobs.Minute(each.minute, 0, 0) for each in found}


def test_lapsed_counts_what_a_reap_and_a_promote_would_move(client: redis.Redis) -> None:
    claim = a_claim()
    done = jobs.enqueue("mail", b"", delay=60)
    before = dump(client)
    nothing = jobs.lapsed("mail")
    client.zadd(MAIL.active, {claim.id: 1})
    client.zadd(MAIL.schedule, {done.id: 1})
    something = jobs.lapsed("mail")
    assert nothing != something
    client.zadd(MAIL.active, {claim.id: dict(before["emq:{mail}:active"][1])[claim.id]})
    client.zadd(MAIL.schedule, {done.id: dict(before["emq:{mail}:schedule"][1])[done.id]})
    assert dump(client) == before


def test_nobody_works_until_a_worker_announces_itself() -> None:
    assert jobs.workers() == []
    facts: dict[str, str | int] = {"queues": "mail", "pid": 7}
    connection.client().run(transitions.announce("host:7:abcd", ttl_ms=60_000, facts=facts))
    [worker] = jobs.workers()
    assert (worker.id, worker.facts["queues"]) == ("host:7:abcd", "mail")
    assert worker.silent_ms < 5000


# --- operators --------------------------------------------------------------------------------------------------------


def test_a_dead_job_is_requeued_with_all_its_attempts() -> None:
    job_id = a_dead_job()
    jobs.requeue("mail", job_id)
    job = jobs.get("mail", job_id)
    assert (job.location, job.attempt, job.attempts, job.last_error, job.stalled) == ("pending", 0, 1, "", 0)
    assert len(job.errors) == 1
    [claim] = jobs.claim("mail")
    assert (claim.token, claim.attempt) == (2, 1)


def test_a_dead_job_is_requeued_with_another_payload() -> None:
    job_id = a_dead_job({"to": "wrong"})
    jobs.revise("mail", job_id, {"to": "right"})
    job = jobs.get("mail", job_id)
    assert (job.location, job.attempt, job.attempts, job.last_error, len(job.errors)) == ("pending", 0, 1, "", 1)
    [claim] = jobs.claim("mail")
    assert (claim.token, claim.attempt, claim.data) == (2, 1, {"to": "right"})


def test_a_payload_that_would_not_come_back_as_it_is_revises_nothing(client: redis.Redis) -> None:
    job_id = a_dead_job()
    before = dump(client)
    with pytest.raises(PayloadError, match=f"job {job_id} of queue 'mail' was left as it is: .*datetime"):
        jobs.revise("mail", job_id, datetime.now(UTC))
    with pytest.raises(InvalidId):
        jobs.revise("mail", "junk", b"")
    assert dump(client) == before


def test_a_scheduled_job_can_be_run_now() -> None:
    done = jobs.enqueue("mail", b"", delay=3600)
    jobs.advance("mail", done.id)
    assert [claim.id for claim in jobs.claim("mail")] == [done.id]


def test_a_removed_job_leaves_nothing_behind(client: redis.Redis) -> None:
    jobs.counts("mail")
    job_ids = [jobs.enqueue("mail", b"", delay=60).id, a_dead_job(), jobs.enqueue("mail", b"").id]
    for job_id in job_ids:
        jobs.remove("mail", job_id)
    assert not client.keys(MAIL.job_root + "*")
    assert {key for key in dump(client) if ":receipt:" not in key} <= {
        keys.VERSION,
        keys.QUEUES,
        MAIL.wake,
        MAIL.failed,
        *(key for key in dump(client) if key.startswith(MAIL.minute_root)),
    }


def test_a_job_that_left_the_place_in_which_it_was_seen_is_not_removed(client: redis.Redis) -> None:
    dead, scheduled = a_dead_job(), jobs.enqueue("mail", b"", delay=60).id
    before = dump(client)
    with pytest.raises(WrongPlace, match=f"job {dead} of queue 'mail' is not in schedule"):
        jobs.remove("mail", dead, location="schedule")
    with pytest.raises(ValueError, match="nowhere"):
        jobs.remove("mail", dead, location="nowhere")
    assert jobs.remove_many("mail", [dead, OWN], location=Location.PENDING) == ["elsewhere", "gone"]
    assert dump(client) == before
    jobs.remove("mail", dead, location="dead")
    assert jobs.remove_many("mail", [dead, scheduled], location="schedule") == ["gone", "ok"]


@pytest.mark.parametrize("comes_back", [False, True])
def test_remove_all_spares_what_is_requeued_while_it_runs(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    dead, before = bury(client, 3), looks.before
    cutoff = datetime.now(UTC)

    def left(*args: Any, **kwargs: Any) -> Any:
        call = before(*args, **kwargs)

        def parse(replies: Any) -> Any:
            listed = call.parse(replies)
            if dead[1] in listed:  # somebody else is quicker than the script
                jobs.requeue("mail", dead[1])
                if comes_back:
                    [claim] = jobs.claim("mail")
                    jobs.retry(claim, "again", max_attempts=1)
                    client.zincrby(MAIL.dead, 60_000, dead[1])
            return listed

        return replace(call, parse=parse)

    with monkeypatch.context() as patch:
        patch.setattr(looks, "before", left)
        assert jobs.remove_all("mail", "dead", before=cutoff) == 2
    assert in_place("dead" if comes_back else "pending") == [dead[1]]


@pytest.mark.parametrize(
    ("move", "wrong"),
    [
        (jobs.requeue, ("pending", "active", "schedule")),
        (lambda queue, job_id: jobs.revise(queue, job_id, b"other"), ("pending", "active", "schedule")),
        (jobs.remove, ("active",)),
        (jobs.advance, ("pending", "active", "dead")),
    ],
)
def test_an_operators_move_from_a_wrong_place_is_refused_by_name_and_changes_nothing(
    client: redis.Redis, move: Callable[[str, str], None], wrong: tuple[str, ...]
) -> None:
    there = {"dead": a_dead_job(), "active": a_claim().id, "schedule": jobs.enqueue("mail", b"", delay=60).id}
    there["pending"] = jobs.enqueue("mail", b"").id
    before = dump(client)
    for place in wrong:
        with pytest.raises(WrongPlace, match=f"job {there[place]} of queue 'mail' is not"):
            move("mail", there[place])
    with pytest.raises(JobGone, match=f"queue 'mail' has no job {OWN}"):
        move("mail", OWN)
    assert dump(client) == before


def test_a_move_of_a_broken_job_puts_it_into_quarantine_and_says_so(client: redis.Redis) -> None:
    dead, other, scheduled = a_dead_job(), a_dead_job(), jobs.enqueue("mail", b"", delay=60).id
    client.delete(MAIL.row(dead), MAIL.row(other), MAIL.row(scheduled))
    with pytest.raises(JobGone, match=f"job {dead} of queue 'mail' .*quarantine"):
        jobs.requeue("mail", dead)
    with pytest.raises(JobGone, match=f"job {other} of queue 'mail' .*quarantine"):
        jobs.revise("mail", other, b"other")
    with pytest.raises(JobGone, match=f"job {scheduled} of queue 'mail' .*quarantine"):
        jobs.advance("mail", scheduled)
    assert jobs.counts("mail").quarantine == 3


def test_many_named_jobs_are_moved_with_a_word_for_each(client: redis.Redis) -> None:
    dead = bury(client, 3)
    client.delete(MAIL.row(dead[1]))
    pending = jobs.enqueue("mail", b"").id
    assert jobs.requeue_many("mail", [*dead, pending, OWN]) == ["ok", "unsound", "ok", "elsewhere", "gone"]
    assert jobs.remove_many("mail", [dead[0], OWN, pending]) == ["ok", "gone", "ok"]
    assert jobs.requeue_many("mail", []) == jobs.remove_many("mail", []) == jobs.advance_many("mail", []) == []
    with pytest.raises(InvalidId):
        jobs.remove_many("mail", [dead[2], "junk"])
    assert jobs.location("mail", dead[2]) == "pending"


def test_requeue_all_moves_the_oldest_first_up_to_the_limit(client: redis.Redis) -> None:
    dead = bury(client, 10)
    assert jobs.requeue_all("mail", limit=4) == Moved(4, 0)
    assert in_place("pending") == dead[:4]
    assert jobs.requeue_all("mail", limit=0) == Moved(0, 0)
    assert jobs.requeue_all("mail") == Moved(6, 0)
    assert jobs.requeue_all("mail") == Moved(0, 0)


def test_requeue_all_spares_what_died_after_the_cut_off(client: redis.Redis) -> None:
    dead = bury(client, 10)
    assert jobs.requeue_all("mail", before=datetime.fromtimestamp(1.004, UTC)) == Moved(5, 0)
    assert in_place("dead") == dead[:4:-1]
    # Without one the cut-off is now: a job that dies again meanwhile is not requeued for ever.
    client.zadd(MAIL.dead, {dead[9]: now_ms(client) + 60_000})
    assert jobs.requeue_all("mail") == Moved(4, 0)
    assert in_place("dead") == [dead[9]]


def test_requeue_all_puts_broken_jobs_aside_and_says_so(client: redis.Redis) -> None:
    dead = bury(client, 100)
    for at in (0, 50, 99):
        client.delete(MAIL.row(dead[at]))
    assert len(in_place("dead")) == 100
    assert jobs.requeue_all("mail") == Moved(97, 3)
    counts = jobs.counts("mail")
    assert (counts.pending, counts.dead, counts.quarantine) == (97, 0, 3)


def appoint(client: redis.Redis, number: int) -> list[str]:
    """Put many scheduled jobs there at once, a second apart from each other, the first in an hour."""
    job_ids = [each.id for each in jobs.enqueue_many("mail", ["payload"] * number, delay=3600)]
    first = now_ms(client) + 3_600_000
    client.zadd(MAIL.schedule, {job_id: first + at * 1000 for at, job_id in enumerate(job_ids)})
    return job_ids


def test_advance_all_runs_the_soonest_first_up_to_the_limit(client: redis.Redis) -> None:
    scheduled = appoint(client, 10)
    assert jobs.advance_all("mail", limit=4) == Moved(4, 0)
    assert in_place("pending") == scheduled[:4]
    assert jobs.advance_all("mail", limit=0) == Moved(0, 0)
    assert jobs.advance_all("mail") == Moved(6, 0)
    assert jobs.advance_all("mail") == Moved(0, 0)
    assert in_place("pending") == scheduled


def test_advance_all_leaves_what_would_run_after_the_cut_off(client: redis.Redis) -> None:
    scheduled = appoint(client, 10)
    cutoff = client.zscore(MAIL.schedule, scheduled[6])
    assert jobs.advance_all("mail", before=datetime.fromtimestamp(cutoff / 1000, UTC)) == Moved(7, 0)
    assert in_place("schedule") == scheduled[7:]
    with pytest.raises(ValueError, match="USE_TZ"):
        jobs.advance_all("mail", before=datetime(2030, 1, 1))


def test_advance_all_puts_broken_jobs_aside_and_says_so(client: redis.Redis) -> None:
    client.delete(MAIL.row(appoint(client, 5)[2]))
    assert jobs.advance_all("mail") == Moved(4, 1)
    assert jobs.counts("mail").quarantine == 1


def test_a_job_that_comes_back_to_the_schedule_meanwhile_is_not_advanced_for_ever(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled = appoint(client, 5)
    within = datetime.fromtimestamp(client.zscore(MAIL.schedule, scheduled[2]) / 1000, UTC)
    advance, calls = transitions.advance, []

    def comes_back(queue_keys: Any, job_ids: Any) -> Any:
        calls.append(len(job_ids))
        jobs.enqueue("mail", b"", delay=60)
        return advance(queue_keys, job_ids)

    monkeypatch.setattr(transitions, "advance", comes_back)
    monkeypatch.setattr("echomq_django.service.operators.MAX_BATCH", 1)
    assert jobs.advance_all("mail", before=within) == Moved(3, 0)
    assert jobs.advance_all("mail", limit=1) == Moved(1, 0)
    assert jobs.counts("mail").schedule == 5
    assert jobs.advance_all("mail") == Moved(5, 0)
    assert calls == [1] * 9


@pytest.mark.parametrize("name", ["requeue_all", "advance_all", "remove_all"])
@pytest.mark.parametrize(("seconds", "done"), [(None, 25), (60, 25), (0.2, 20), (0, 10), (-1, 10)])
def test_many_are_moved_for_so_many_seconds_and_a_second_call_moves_the_others(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float | None, done: int
) -> None:
    moves: dict[str, Callable[..., Any]] = {
        "requeue_all": jobs.requeue_all,
        "advance_all": jobs.advance_all,
        "remove_all": lambda queue, **options: Moved(jobs.remove_all(queue, "dead", **options), 0),
    }
    (appoint if name == "advance_all" else bury)(client, 25)
    clock = itertools.count(1000.0, 0.1)  # a tenth of a second for each chunk
    monkeypatch.setattr("echomq_django.service.operators.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("echomq_django.service.operators.MAX_BATCH", 10)
    assert moves[name]("mail", seconds=seconds) == Moved(done, 0)
    assert moves[name]("mail") == Moved(25 - done, 0)


def test_remove_all_empties_a_place_and_leaves_the_others(client: redis.Redis) -> None:
    bury(client, 5)
    scheduled = [jobs.enqueue("mail", b"", delay=delay).id for delay in (60, 120, 180)]
    jobs.enqueue_many("mail", ["payload"] * 4)
    assert jobs.remove_all("mail", "dead", limit=2) == 2
    assert jobs.remove_all("mail", Location.DEAD) == 3
    cutoff = datetime.fromtimestamp(now_ms(client) / 1000 + 150, UTC)
    assert jobs.remove_all("mail", "schedule", before=cutoff) == 2
    assert in_place("schedule") == scheduled[2:]
    assert jobs.remove_all("mail", "pending", limit=1) == 1
    assert jobs.drain("mail") == 3
    assert jobs.remove_all("mail", "dead") == 0
    assert len(client.keys(MAIL.job_root + "*")) == 1


@pytest.mark.parametrize("limit", [None, 3, 99])
def test_pending_jobs_that_come_meanwhile_are_not_removed_for_ever(
    monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    jobs.enqueue_many("mail", ["payload"] * 3)
    late, remove = iter(range(10)), transitions.remove

    def another_comes(*args: Any, **kwargs: Any) -> Any:
        if next(late, None) is not None:  # a queue that is never empty would keep a broken bound busy for ever
            jobs.enqueue("mail", b"late")
        return remove(*args, **kwargs)

    monkeypatch.setattr(transitions, "remove", another_comes)
    monkeypatch.setattr("echomq_django.service.operators.MAX_BATCH", 1)
    assert jobs.remove_all("mail", "pending", limit=limit) == 3
    assert [job.payload for job in jobs.page("mail", "pending")] == [b"late"] * 3


def test_remove_all_removes_broken_jobs_too(client: redis.Redis) -> None:
    dead = bury(client, 4)
    client.delete(MAIL.row(dead[1]))
    assert jobs.remove_all("mail", "dead") == 4


def test_remove_all_of_what_runs_or_has_no_time_is_refused(client: redis.Redis) -> None:
    claim = a_claim()
    with pytest.raises(WrongPlace, match="active jobs of queue 'mail'"):
        jobs.remove_all("mail", "active")
    with pytest.raises(ValueError, match="pending jobs of queue 'mail' have no time"):
        jobs.remove_all("mail", "pending", before=datetime.now(UTC))
    with pytest.raises(ValueError, match="USE_TZ"):
        jobs.remove_all("mail", "dead", before=datetime(2030, 1, 1))
    jobs.complete(claim)


def test_drain_takes_the_pending_ones_only() -> None:
    jobs.enqueue("mail", b"", delay=60)
    a_dead_job()
    a_claim()
    jobs.enqueue_many("mail", ["payload"] * 3)
    assert jobs.drain("mail") == 3
    counts = jobs.counts("mail")
    assert (counts.pending, counts.active, counts.schedule, counts.dead) == (0, 1, 1, 1)


@pytest.mark.slow
@pytest.mark.slow
def test_8_500_jobs_are_more_than_one_script_can_take_and_are_moved_all_the_same(client: redis.Redis) -> None:
    number = 8500
    dead = bury(client, number)
    assert jobs.requeue_all("mail") == Moved(number, 0)
    assert client.zrange(MAIL.pending, 0, -1) == [job_id.encode() for job_id in dead]
    assert jobs.drain("mail") == number
    dead = bury(client, number)
    assert jobs.requeue_many("mail", dead) == ["ok"] * number
    assert jobs.remove_many("mail", dead) == ["ok"] * number
    done = jobs.enqueue_many("mail", ["payload"] * number, delay=3600)
    assert jobs.advance_many("mail", [each.id for each in done]) == ["ok"] * number
    assert jobs.remove_all("mail", "pending") == number
    assert not client.keys(MAIL.job_root + "*")


def test_a_paused_queue_takes_jobs_and_gives_none_until_it_is_resumed() -> None:
    claim = a_claim()
    jobs.pause("mail")
    jobs.pause("mail")
    assert jobs.counts("mail").paused
    done = jobs.enqueue("mail", b"payload")
    assert jobs.claim("mail") == []
    jobs.complete(claim)
    assert jobs.enqueue("default", b"payload").status == "enqueued"
    assert len(jobs.claim("default")) == 1
    jobs.resume("mail")
    jobs.resume("mail")
    assert not jobs.counts("mail").paused
    assert [claim.id for claim in jobs.claim("mail")] == [done.id]


def test_every_function_takes_the_server_of_its_alias(settings: Any, url: str, client: redis.Redis) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}, "second": {"LOCATION": url}}
    second: dict[str, Any] = {"using": "second"}
    jobs.enqueue("mail", b"one", **second)
    jobs.enqueue_many("mail", [b"two", b"three"], **second)
    one, two, three = jobs.claim("mail", 3, **second)
    jobs.extend(one, **second)
    jobs.complete(one, "done", **second)
    assert jobs.get("mail", one.id, **second).result == b'"done"'
    assert [job.id for job in jobs.recent("mail", **second)] == [one.id]
    assert jobs.logs("mail", one.id, **second) == []
    jobs.release(two, **second)
    assert jobs.retry(three, "it failed", max_attempts=1, **second) is Location.DEAD
    jobs.requeue("mail", three.id, **second)
    assert jobs.promote("mail", **second) == jobs.Moved(0, 0)
    assert jobs.reap("mail", **second).waiting
    assert jobs.expire("mail", **second) == 0
    assert jobs.counts("mail", **second).pending == 2
    assert jobs.get("mail", two.id, **second).location == jobs.location("mail", three.id, **second) == "pending"
    assert jobs.oldest_pending_age("mail", **second) is not None
    assert sum(each.completed for each in jobs.minutes("mail", **second)) == 1
    assert len(jobs.page("mail", "pending", **second)) == 2
    assert jobs.queues(**second) == ["mail"]
    assert jobs.workers(**second) == []
    jobs.pause("mail", **second)
    jobs.resume("mail", **second)
    jobs.remove("mail", two.id, **second)
    with pytest.raises(JobGone):
        jobs.revise("mail", two.id, b"", **second)
    assert jobs.requeue_all("mail", **second) == Moved(0, 0)
    assert jobs.advance_all("mail", **second) == Moved(0, 0)
    assert jobs.remove_all("mail", "dead", **second) == 0
    assert jobs.drain("mail", **second) == 1


def test_the_error_of_a_full_server_names_the_queue_and_what_to_do(
    private_server: Callable[..., Any], settings: Any
) -> None:
    server = private_server(config={"maxmemory": "1"})
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    with pytest.raises(QueueFull, match=r"queue 'mail'.*let workers drain it, or raise it"):
        jobs.enqueue("mail", b"payload")


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_say_what_it_is_can_be_stored() -> None:
    claim = a_claim()
    assert jobs.retry(claim, Unsayable(), delay=60) is Location.SCHEDULE
    assert "Unsayable" in jobs.get("mail", claim.id).last_error


def test_a_page_shows_jobs_whose_rows_are_of_a_wrong_type(client: redis.Redis) -> None:
    dead = bury(client, 3)
    client.delete(MAIL.row(dead[1]))
    client.set(MAIL.row(dead[1]), "no hash")
    assert in_place("dead") == dead[::-1]


def test_a_junk_id_in_pending_does_not_hide_the_oldest_job(client: redis.Redis) -> None:
    jobs.enqueue("mail", b"payload")
    client.zadd(MAIL.pending, {"!junk": 0})
    assert jobs.oldest_pending_age("mail") is not None


def test_a_queue_is_listed_again_after_the_server_was_emptied(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.enqueue("invoices", b"")
    client.flushdb()
    monkeypatch.setattr(admitting, "REGISTER_EVERY", 0.0)
    jobs.enqueue("invoices", b"")
    assert "invoices" in jobs.queues()


def test_a_junk_id_in_a_place_can_be_seen_and_removed(client: redis.Redis) -> None:
    jobs.enqueue("mail", b"payload")
    client.zadd(MAIL.dead, {"!junk": 5})
    [job] = jobs.page("mail", "dead")
    assert job.id == "!junk"
    assert jobs.remove_all("mail", "dead") == 1
    assert jobs.counts("mail").dead == 0


def test_a_bad_queue_name_is_refused_by_reap_before_a_server_is_asked(client: redis.Redis) -> None:
    with pytest.raises(InvalidQueueName):
        jobs.reap("no queue")
    assert dump(client) == {}
