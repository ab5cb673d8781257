"""aenqueue, aenqueue_many and aget: each does and says what its twin without the "a" does and says."""

import asyncio
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured

from echomq_django import embedded, ids, jobs, keys
from echomq_django.exceptions import (
    InvalidId,
    InvalidQueueName,
    JobGone,
    PayloadError,
    QueueFull,
    ServerUnavailable,
    WireVersionMismatch,
)
from echomq_django.service import admitting
from tests.server import dump

MAIL = keys.of("mail")
OWN = "JOB0MzT2a4Bc3D"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _forget_known_queues() -> None:
    admitting._registered.clear()


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give a function after which the ids and receipts are those that came after its last call."""
    monkeypatch.setattr(ids.secrets, "randbelow", lambda limit: 0)

    def again() -> None:
        monkeypatch.setattr(ids, "_mint", ids.Mint(node=5, clock=lambda: 1_800_000_000.0))
        receipts = iter(range(100))
        monkeypatch.setattr(admitting, "secrets", SimpleNamespace(token_hex=lambda _: str(next(receipts))))

    return again


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", []), getattr(error, "unknown", None)


def told(call: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    """Tell what comes of a function, and of its twin."""
    run, arun = getattr(jobs, call), async_to_sync(getattr(jobs, f"a{call}"))
    return outcome(lambda: run(*args, **options)), outcome(lambda: arun(*args, **options))


def twins(client: redis.Redis, alike: Callable[[], None], call: str, *args: Any, **options: Any) -> Any:
    """Call both on an empty server; what came of it and what is stored then must be the same. Give the former."""
    seen = []
    for run in (getattr(jobs, call), async_to_sync(getattr(jobs, f"a{call}"))):
        client.flushall()
        client.set(keys.VERSION, "echomq:3.0.0")  # a connection that is open already does not set it again
        admitting._registered.clear()
        alike()
        first = outcome(lambda run=run: run("mail", *args, **options))
        second = outcome(lambda run=run: run("mail", *args, **options))
        seen.append(((first, second), dump(client)))
    assert seen[0] == seen[1]
    return seen[0][0][0]


@pytest.mark.parametrize("payload", [b"\x00\xff", "text", {"é": [1, None]}, None, 0], ids=repr)
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, "enqueued"),
        ({"priority": 7, "name": "a.b", "max_attempts": 2}, "enqueued"),
        ({"at": LATER}, "scheduled"),
        ({"id": OWN}, "enqueued"),
        ({"id": OWN, "at": LATER}, "scheduled"),
    ],
    ids=repr,
)
def test_aenqueue_stores_what_enqueue_stores(
    client: redis.Redis, alike: Any, payload: Any, options: dict[str, Any], status: str
) -> None:
    assert twins(client, alike, "enqueue", payload, **options).status == status


@pytest.mark.parametrize("number", [0, 1, 3, pytest.param(501, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"priority": -3, "name": "a.b", "max_attempts": 2}, {"at": LATER}], ids=repr)
def test_aenqueue_many_stores_what_enqueue_many_stores(
    client: redis.Redis, alike: Any, number: int, options: dict[str, Any]
) -> None:
    done = twins(client, alike, "enqueue_many", [{"number": each} for each in range(number)], **options)
    assert [each.status for each in done] == ["scheduled" if "at" in options else "enqueued"] * number


def test_a_delay_is_on_the_servers_clock(client: redis.Redis) -> None:
    done = asyncio.run(jobs.aenqueue("mail", b"", delay=60))
    assert done.status == "scheduled"
    seconds, micros = client.time()
    assert 59_000 < client.zscore(MAIL.schedule, done.id) - (seconds * 1000 + micros // 1000) <= 60_000


@pytest.mark.parametrize("call", ["enqueue", "enqueue_many"])
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"priority": 101}, ValueError),
        ({"priority": True}, ValueError),
        ({"delay": -1}, ValueError),
        ({"delay": "1"}, TypeError),
        ({"delay": 1, "at": LATER}, ValueError),
        ({"at": datetime(2100, 1, 1)}, ValueError),
        ({"at": 1}, TypeError),
        ({"max_attempts": 0}, ValueError),
        ({"name": 5}, ValueError),
        ({"using": "another"}, ImproperlyConfigured),
    ],
    ids=repr,
)
def test_what_is_wrong_with_the_options_is_said_alike_and_nothing_is_stored(
    client: redis.Redis, alike: Any, settings: Any, call: str, options: dict[str, Any], error: type[Exception]
) -> None:
    settings.USE_TZ = True
    payload = [b""] if call == "enqueue_many" else b""
    assert twins(client, alike, call, payload, **options)[0] is error
    assert dump(client).keys() == {keys.VERSION}


@pytest.mark.parametrize("payload", [{1, 2}, (1, 2), {1: 2}, "\ud800", float("nan")], ids=ascii)
def test_a_payload_that_would_not_come_back_is_refused_alike(client: redis.Redis, alike: Any, payload: Any) -> None:
    assert twins(client, alike, "enqueue", payload)[0] is PayloadError
    assert twins(client, alike, "enqueue_many", [b"good", payload])[0] is PayloadError
    assert dump(client).keys() == {keys.VERSION}


def test_an_id_that_is_none_is_refused_alike(client: redis.Redis, alike: Any) -> None:
    assert twins(client, alike, "enqueue", b"", id="TEN0MzT2a4Bc3D")[0] is InvalidId


@pytest.mark.parametrize("queue", ["", "a b", "{x}", "a" * 201, 5], ids=["empty", "space", "braces", "long", "number"])
def test_a_queue_that_cannot_be_named_so_is_refused_alike(client: redis.Redis, queue: Any) -> None:
    for call, argument in (("enqueue", b""), ("enqueue_many", [b""]), ("get", OWN)):
        said, asaid = told(call, queue, argument)
        assert said == asaid
        assert said[0] is InvalidQueueName
    assert dump(client) == {}


def test_aget_reads_what_get_reads_in_every_place() -> None:
    done = jobs.enqueue_many("mail", [b"pending", b"active", b"dead", b"done"], name="a.b")
    done += jobs.enqueue_many("mail", [b"schedule"], delay=60)
    claims = {claim.id: claim for claim in jobs.claim("mail", 4)}
    jobs.release(claims[done[0].id])
    jobs.retry(claims[done[2].id], "it failed", max_attempts=1)
    jobs.complete(claims[done[3].id], "done")
    for each in done:
        job, same = told("get", "mail", each.id)
        assert job == same
        assert job.id == each.id
    assert asyncio.run(jobs.aget("mail", done[2].id)).errors[0].message == "it failed"


@pytest.mark.parametrize(("job_id", "error"), [(OWN, JobGone), ("mail", InvalidId)])
def test_aget_of_no_job_says_what_get_says(job_id: str, error: type[Exception]) -> None:
    said, asaid = told("get", "mail", job_id)
    assert said == asaid
    assert said[0] is error


@pytest.mark.parametrize("sizes", [(3, 3), (700, 1200)])
def test_ids_that_another_process_has_minted_too_are_minted_again(
    client: redis.Redis, alike: Any, sizes: tuple[int, int]
) -> None:
    alike()
    first = jobs.enqueue_many("mail", [f"first {number}" for number in range(sizes[0])])
    alike()
    client.delete(*client.keys("*receipt*"))
    second = asyncio.run(jobs.aenqueue_many("mail", [f"second {number}" for number in range(sizes[1])]))
    assert {each.status for each in (*first, *second)} == {"enqueued"}
    assert len({each.id for each in (*first, *second)}) == sum(sizes) == client.zcard(MAIL.pending)
    assert client.hget(MAIL.row(second[0].id), "payload") == b"second 0"


def test_a_queue_is_registered_once_for_threads_and_loops(client: redis.Redis) -> None:
    client.config_resetstat()
    for _ in range(3):
        asyncio.run(jobs.aenqueue("mail", b""))
        jobs.enqueue("mail", b"")
    assert "mail" in jobs.queues()
    assert client.info("commandstats")["cmdstat_sadd"]["calls"] == 1


def test_a_full_server_refuses_alike_and_stores_nothing(private_server: Any, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    held = jobs.enqueue("mail", b"payload")
    with redis.Redis.from_url(server.url) as plain:
        plain.config_set("maxmemory", 1)
        before = dump(plain)
        for call, argument in (("enqueue", b""), ("enqueue_many", [b""] * 600)):
            said, asaid = told(call, "mail", argument)
            assert said == asaid
            assert said[0] is QueueFull
        assert asyncio.run(jobs.aget("mail", held.id)).payload == b"payload"
        assert dump(plain) == before


@pytest.mark.parametrize("refused", [ServerUnavailable, WireVersionMismatch])
def test_a_server_that_cannot_be_used_is_refused_alike(
    private_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch, refused: type[Exception]
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    if refused is WireVersionMismatch:
        with redis.Redis.from_url(server.url) as plain:
            plain.set(keys.VERSION, "echomq:2")
    else:
        server.kill()
    for call, argument in (("enqueue", b""), ("enqueue_many", [b""] * 600), ("get", OWN)):
        (kind, text, *rest), (akind, atext, *arest) = told(call, "mail", argument)
        assert kind is akind is refused
        assert rest == arest
        # What redis-py says of a connection that was refused differs a little.
        assert re.sub(r"\(\w+Error: .*\)", "()", text) == re.sub(r"\(\w+Error: .*\)", "()", atext)


def test_an_embedded_server_is_started_beside_the_loop_and_found_again(
    settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, threads = embedded.connect, set()

    def connected(folder: Any) -> str:
        threads.add(threading.current_thread())
        return connect(folder)

    monkeypatch.setattr(embedded, "connect", connected)
    settings.ECHOMQ = {"default": {"LOCATION": f"embedded://{tmp_path}"}}

    async def both() -> list[bytes]:
        done = await asyncio.gather(*(jobs.aenqueue("mail", str(number)) for number in range(20)))
        await asyncio.to_thread(embedded.stop, tmp_path)
        done.append(await jobs.aenqueue("mail", b"after it was stopped"))
        return [(await jobs.aget("mail", each.id)).payload for each in done]

    try:
        assert asyncio.run(both()) == [*(str(number).encode() for number in range(20)), b"after it was stopped"]
        assert threading.main_thread() not in threads
    finally:
        embedded.stop(tmp_path)
