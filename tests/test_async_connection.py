"""Clients for coroutines: calls cut short, lost replies, loops one after the other and at once, forks."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from asgiref.sync import async_to_sync

from echomq_django import async_connection, async_pool, ids, jobs, keys, looks, scripts, transitions
from echomq_django.exceptions import EchoMQError, ServerUnavailable, WireVersionMismatch
from echomq_django.jobs import Enqueued
from echomq_django.service import admitting
from tests.lossy import CLOSE, DROP, STALL, Lossy, lossy
from tests.server import dump
from tests.test_connection import Fake, certificates, fake, tls_port  # noqa: F401 (fixtures)
from tests.test_fork import program, stored  # noqa: F401

MAIL = keys.of("mail")
NAME = "ours"
TIMES = pytest.mark.parametrize("times", [1, 10], ids=["once", "ten times"])
Program = Callable[[str], list[Any]]


@pytest.fixture(autouse=True)
def _forget_known_queues() -> None:
    admitting._registered.clear()


@pytest.fixture(autouse=True)
def _named(settings: Any, url: str, _settings: None) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"client_name": NAME, "socket_connect_timeout": 20}}}


PATIENT = {"socket_connect_timeout": 20, "socket_timeout": 20}
"""What connections are given that shall not fail because the machine is busy."""


def connections(client: redis.Redis, expected: int = 0) -> int:
    """Count the connections that are ours, as soon as they are as many as expected: the server hears of ends late."""
    for _ in range(100):
        found = len([each for each in client.client_list() if each["name"] == NAME])
        if found == expected:
            break
        time.sleep(0.01)
    return found


def run(each: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a loop of its own, and let whatever it left be warned of."""
    came = asyncio.run(each)
    gc.collect(1)
    return came


async def one(number: int) -> str:
    """Enqueue a job and read it back; its id."""
    body = f"{threading.get_ident()}:{number}"
    done = await jobs.aenqueue("mail", body)
    job = await jobs.aget("mail", done.id)
    assert (job.id, job.payload) == (done.id, body.encode())
    return done.id


# --- cancelled calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0.0, 0.0003, 0.001])
def test_200_calls_that_are_cut_short_leave_every_other_call_its_own_reply(client: redis.Redis, limit: float) -> None:
    async def cut(number: int) -> str | None:
        with suppress(TimeoutError):
            return (await asyncio.wait_for(jobs.aenqueue("mail", f"cut {number}"), limit)).id
        return None

    async def main() -> tuple[list[str | None], list[str]]:
        await one(-1)
        both = [work(number) for number in range(200) for work in (cut, one)]
        came = await asyncio.gather(*both)
        return came[::2], [*came[1::2], await one(200)]

    cuts, whole = run(main())
    assert len(set(whole)) == 201
    assert None in cuts
    held = stored(client)
    assert {*whole, *filter(None, cuts)} <= held.keys()
    assert len(set(held.values())) == len(held)  # each was stored once, if at all
    assert connections(client) == 0


def test_calls_cut_short_one_after_the_other_leave_a_connection_that_can_be_used(client: redis.Redis) -> None:
    async def main() -> None:
        for number in range(200):
            with suppress(TimeoutError):
                await asyncio.wait_for(jobs.aenqueue("mail", "cut"), number / 200_000)
            await one(number)
        assert connections(client) <= 2

    run(main())


def test_a_call_cancelled_while_its_reply_is_under_way_closes_its_connection(client: redis.Redis) -> None:
    async def main() -> None:
        await one(0)
        client.client_pause(150)
        before = time.monotonic()
        call = asyncio.create_task(jobs.aenqueue("mail", b"cancelled"))
        await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - before < 0.1
        await one(1)
        assert connections(client, 1) == 1

    run(main())


@pytest.mark.parametrize("error", [asyncio.CancelledError, MemoryError])
def test_a_connection_on_which_anything_was_raised_is_not_used_again(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    read, hits = async_pool._reply, []

    async def interrupted(line: Any) -> Any:
        if not hits:
            hits.append(line)
            raise error
        return await read(line)

    async def main() -> None:
        await one(0)
        monkeypatch.setattr(async_pool, "_reply", interrupted)
        with pytest.raises(error):
            await jobs.aget("mail", ids.mint())  # its reply is still under way
        await one(1)
        await one(2)
        assert not hits[0].is_connected

    run(main())


def test_a_call_cancelled_while_it_waits_for_its_turn_keeps_nobodys_turn(
    client: redis.Redis, settings: Any, url: str
) -> None:
    options = {"client_name": NAME, "max_connections": 1}
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": options}}

    async def main() -> None:
        for limit in (0.0, 0.0001, 0.0003, 0.001, 0.003) * 20:
            calls = [asyncio.create_task(jobs.aenqueue("mail", b"")) for _ in range(5)]
            await asyncio.sleep(limit)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.wait_for(one(0), 5)

    run(main())


# --- lost replies -----------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(settings: Any, url: str, client: redis.Redis) -> Iterator[Lossy]:
    for script in scripts.ALL:
        client.script_load(script.source)
    jobs.enqueue("mail", "warm up: the queue is registered")
    jobs.drain("mail")
    with lossy(url) as proxy:
        settings.ECHOMQ = {"default": {"LOCATION": proxy.url}}
        yield proxy


@TIMES
@pytest.mark.parametrize("mode", [CLOSE, DROP])
def test_an_aenqueue_whose_reply_is_lost_stores_one_job_and_says_so(
    proxy: Lossy, client: redis.Redis, times: int, mode: str
) -> None:
    async def main() -> Enqueued:
        proxy.lose("EVALSHA", times, mode)
        return await jobs.aenqueue("mail", b"payload")

    done = run(main())
    assert proxy.lost == times
    assert done.status == "enqueued"
    assert stored(client) == {done.id: b"payload"}


@TIMES
def test_a_bulk_whose_replies_are_lost_stores_each_job_once_and_in_order(
    proxy: Lossy, client: redis.Redis, times: int
) -> None:
    proxy.lose("EVALSHA", times)
    done = run(jobs.aenqueue_many("mail", [{"number": number} for number in range(1000)]))
    assert proxy.lost == times
    assert {each.status for each in done} == {"enqueued"}
    assert client.zrange(MAIL.pending, 0, -1) == [each.id.encode() for each in done]


def test_a_job_that_was_done_between_the_sendings_is_recognised(proxy: Lossy, client: redis.Redis, url: str) -> None:
    ran: list[str] = []

    def work() -> None:
        # By a server of the same name and another address, as the proxy would lose this too.
        with redis.Redis.from_url(url) as plain:
            ran.extend(each.decode() for each in plain.zrange(MAIL.pending, 0, -1))
            for job_id in ran:
                plain.delete(MAIL.row(job_id))
            plain.delete(MAIL.pending)

    proxy.lose("EVALSHA", 3, meanwhile=work)
    done = run(jobs.aenqueue("mail", b"payload"))
    assert (done.status, ran) == ("enqueued", [done.id])
    assert stored(client) == {}


def test_an_aget_whose_reply_is_lost_is_asked_again(proxy: Lossy) -> None:
    done = jobs.enqueue("mail", b"payload")
    proxy.lose("HGETALL", 3)
    assert run(jobs.aget("mail", done.id)).payload == b"payload"
    assert proxy.lost == 3


@pytest.mark.parametrize("mode", [CLOSE, DROP])
def test_what_must_not_be_sent_twice_is_not(proxy: Lossy, client: redis.Redis, mode: str) -> None:
    jobs.enqueue_many("mail", ["payload"] * 5)

    async def main() -> None:
        proxy.lose("EVALSHA", 10, mode)
        await async_connection.client().run(transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:1"))

    with pytest.raises(ServerUnavailable, match=r"claim from queue 'mail'.*may have been carried out") as caught:
        run(main())
    assert caught.value.unknown
    assert proxy.lost == 1
    assert client.zcard(MAIL.active) == (1 if mode == CLOSE else 0)


@pytest.mark.slow
def test_an_aenqueue_whose_answer_never_comes_is_sent_again_and_then_given_up_as_unknown(
    proxy: Lossy, client: redis.Redis
) -> None:
    proxy.lose("EVALSHA", 1, STALL)
    assert run(jobs.aenqueue("mail", b"payload")).status == "enqueued"
    proxy.lose("EVALSHA", 100, STALL)
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match=r"no answer in time.*may have been carried out") as caught:
        run(jobs.aenqueue("mail", b"payload"))
    assert time.monotonic() - started < 5.5
    assert caught.value.unknown
    assert client.zcard(MAIL.pending) == 2


def test_a_reply_that_came_while_other_code_kept_the_loop_busy_is_in_time(
    client: redis.Redis, settings: Any, url: str
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"client_name": NAME, "socket_timeout": 0.1}}}

    async def main() -> None:
        await one(0)
        client.config_resetstat()
        call = asyncio.create_task(jobs.aenqueue("mail", b"payload"))
        await asyncio.sleep(0)
        time.sleep(0.3)
        assert (await call).status == "enqueued"

    run(main())
    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] == 1


def test_a_server_that_does_not_answer_keeps_nobody_else_of_the_loop_waiting(client: redis.Redis) -> None:
    async def main() -> float:
        await one(0)
        client.client_pause(500)
        call = asyncio.create_task(jobs.aenqueue("mail", b""))
        longest, last = 0.0, time.monotonic()
        while not call.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        assert (await call).status == "enqueued"
        return longest

    assert run(main()) < 0.2


# --- forgotten scripts, closed connections ----------------------------------------------------------------------------


def test_scripts_are_flushed_while_200_jobs_are_enqueued_and_none_fails(client: redis.Redis) -> None:
    async def flush() -> None:
        while True:
            client.script_flush()
            await asyncio.sleep(0.003)

    async def main() -> list[str]:
        flusher = asyncio.create_task(flush())
        made = await asyncio.gather(*(one(number) for number in range(200)))
        flusher.cancel()
        return made

    assert {*run(main())} == stored(client).keys()


def test_connections_that_were_killed_while_they_were_idle_cost_nothing(client: redis.Redis) -> None:
    async def main() -> None:
        for number in range(30):
            await one(number)
            client.client_kill_filter(_type="normal", skipme=True)
            await asyncio.sleep(0.002)
            # Not sent twice, so the dead connection has to be noticed before it is used.
            call = transitions.claim(MAIL, limit=1, lease_ms=1000, owner=f"w:{number}")
            assert len((await async_connection.client().run(call)).claims) == 1
        assert connections(client, 1) == 1

    run(main())


def test_a_call_outlasts_a_restart_of_the_server(private_server: Any, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}

    async def main() -> Enqueued:
        await one(0)
        server.kill()
        call = asyncio.create_task(jobs.aenqueue("mail", b"payload"))
        await asyncio.to_thread(server.restart)
        return await call

    assert run(main()).status == "enqueued"


def test_a_server_that_became_a_replica_is_left_and_asked_for_anew(private_server: Any, settings: Any) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url, "OPTIONS": {"client_name": NAME}}}

    async def main() -> None:
        await one(0)
        with redis.Redis.from_url(server.url) as plain:
            [former] = [each["id"] for each in plain.client_list() if each["name"] == NAME]
            plain.replicaof("127.0.0.1", 1)
            call = asyncio.create_task(jobs.aenqueue("mail", b"payload"))
            await asyncio.sleep(0.1)
            plain.replicaof("NO", "ONE")
            assert (await call).status == "enqueued"
            assert former not in [each["id"] for each in plain.client_list() if each["name"] == NAME]

    run(main())


# --- loops ------------------------------------------------------------------------------------------------------------


def test_200_calls_at_once_share_a_bounded_number_of_connections_which_end_with_the_loop(client: redis.Redis) -> None:
    async def main() -> list[Enqueued]:
        done = await asyncio.gather(*(jobs.aenqueue("mail", str(number)) for number in range(200)))
        assert connections(client) <= async_pool.MOST_CONNECTIONS
        return done

    done = run(main())
    assert {each.status for each in done} == {"enqueued"}
    assert stored(client) == {each.id: str(number).encode() for number, each in enumerate(done)}
    assert connections(client) == 0


def test_a_pool_smaller_than_the_number_of_calls_makes_them_wait(client: redis.Redis, settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"max_connections": 2, "client_name": NAME}}}

    async def main() -> None:
        assert len(set(await asyncio.gather(*(one(number) for number in range(200))))) == 200
        assert connections(client) <= 2

    run(main())


def test_a_call_that_waits_too_long_for_its_turn_has_done_nothing(
    client: redis.Redis, settings: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    options = {"max_connections": 1, "timeout": 0.05, "client_name": NAME}
    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": options}}

    async def main() -> None:
        await one(0)
        client.client_pause(400)
        first, second = await asyncio.gather(
            jobs.aenqueue("mail", b"first"), jobs.aenqueue("mail", b"second"), return_exceptions=True
        )
        assert first.status == "enqueued"
        assert isinstance(second, ServerUnavailable)
        assert not second.unknown
        assert "no connection became free within 0.05 s" in str(second)

    run(main())
    assert b"second" not in stored(client).values()


@pytest.mark.parametrize("door", [lambda number: run(one(number)), async_to_sync(one)], ids=["run", "async_to_sync"])
def test_loops_one_after_the_other_each_connect_and_leave_nothing(
    client: redis.Redis, door: Callable[[int], Any]
) -> None:
    for number in range(8):
        door(number)
        gc.collect(1)
        assert connections(client) == 0
    assert len(stored(client)) == 8
    assert len(async_connection._clients) <= 1


def test_a_loop_that_is_run_again_and_again_keeps_its_connection(client: redis.Redis) -> None:
    with asyncio.Runner() as runner:
        for number in range(20):
            runner.run(one(number))
            assert connections(client, 1) == 1
    gc.collect(1)
    assert connections(client) == 0


def test_loops_in_threads_at_once_each_read_their_own_replies(client: redis.Redis, settings: Any, url: str) -> None:
    async def main() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(25)))

    settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {**PATIENT, "client_name": NAME}}}
    with ThreadPoolExecutor(4) as pool:
        made = [job_id for part in pool.map(lambda _: run(main()), range(8)) for job_id in part]
    assert len(set(made)) == 200
    assert {*made} == stored(client).keys()
    assert connections(client) == 0


def test_a_loop_that_ends_in_the_middle_of_calls_leaves_no_connection(client: redis.Redis) -> None:
    async def main() -> None:
        calls = [asyncio.create_task(one(number)) for number in range(20)]
        await asyncio.sleep(0.01)
        assert calls

    run(main())
    assert connections(client) == 0


def test_a_generator_that_enqueues_while_its_loop_ends_leaves_no_connection(client: redis.Redis) -> None:
    async def numbers() -> Any:
        try:
            while True:
                yield await one(0)
        finally:
            await one(1)

    async def main() -> None:
        nonlocal left
        left = numbers()
        await anext(left)

    left: Any = None
    run(main())
    assert len(stored(client)) == 2
    assert connections(client) == 0


def test_changed_settings_get_another_client_and_close_the_former(client: redis.Redis, settings: Any, url: str) -> None:
    async def main() -> None:
        former = async_connection.client()
        assert async_connection.client() is former
        await one(0)
        settings.ECHOMQ = {"default": {"LOCATION": url}}
        assert async_connection.client() is not former
        await one(1)
        await asyncio.sleep(0.01)
        assert connections(client) == 0

    run(main())


def test_settings_that_change_beside_a_running_loop_close_its_connections(
    client: redis.Redis, settings: Any, url: str
) -> None:
    with asyncio.Runner() as runner:
        runner.run(one(0))
        settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"client_name": "theirs"}}}
        runner.run(one(1))
        runner.run(asyncio.sleep(0.01))
        assert connections(client) == 0
        settings.ECHOMQ = {"default": {"LOCATION": url, "OPTIONS": {"client_name": NAME}}}
    gc.collect(1)


# --- ways to connect, and the fence -----------------------------------------------------------------------------------


async def a_life() -> None:
    client = async_connection.client()
    done = await jobs.aenqueue("mail", {"é": 1}, delay=60)
    assert await client.run(transitions.advance(MAIL, [done.id])) == ["ok"]
    [claim] = (await client.run(transitions.claim(MAIL, limit=1, lease_ms=1000, owner="w:1"))).claims
    assert await client.run(transitions.complete(MAIL, [claim])) == ["ok"]
    assert (await client.run(looks.counts(MAIL))).completed == 1


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("?decode_responses=True&protocol=3", {}),
        ("", {"db": 5, "decode_responses": True, "encoding": "latin-1", "protocol": 3}),
        ("", {"retry_on_timeout": True, "retry_on_error": [redis.ConnectionError], "health_check_interval": 1}),
        ("", {"socket_timeout": None, "socket_connect_timeout": None, "socket_keepalive": True}),
    ],
)
def test_the_options_mean_what_they_mean_to_the_other_clients(
    settings: Any, url: str, query: str, options: dict[str, Any]
) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url + query, "OPTIONS": options}}
    run(a_life())
    if "db" in options:
        with redis.Redis.from_url(f"{url.rpartition('/')[0]}/5") as there:
            assert there.get(keys.VERSION) == b"echomq:3.0.0"
            there.flushdb()


def test_a_unix_socket_and_a_password_are_taken_from_the_url(private_server: Any, settings: Any) -> None:
    server = private_server(config={"unixsocket": "other side.sock", "requirepass": "p@:/#%"})
    secret = quote("p@:/#%", safe="")
    path = f"{quote(str(server.folder))}/other%20side.sock"
    settings.ECHOMQ = {"default": {"LOCATION": f"unix://:{secret}@{path}?db=5"}}
    run(a_life())
    settings.ECHOMQ = {"default": {"LOCATION": f"redis://:{secret}@127.0.0.1:{server.port}/0"}}
    run(a_life())


def test_tls_works_and_leaves_nothing(tls_port: int, certificates: Path, settings: Any) -> None:  # noqa: F811
    authority = quote(str(certificates / "ca.crt"))
    location = f"rediss://localhost:{tls_port}/0?ssl_ca_certs={authority}"
    settings.ECHOMQ = {"default": {"LOCATION": location, "OPTIONS": PATIENT}}
    run(a_life())


def test_a_wire_version_is_looked_at_on_each_connection(client: redis.Redis) -> None:
    client.set(keys.VERSION, "echomq:2.4.2")
    before = dump(client)

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(WireVersionMismatch, match=r"echomq:2\.4\.2.*Set WIRE_VERSION"):
                await jobs.aenqueue("mail", b"payload")
        await asyncio.sleep(0.01)
        assert connections(client) == 0
        assert dump(client) == before
        client.delete(keys.VERSION)
        await one(0)

    run(main())
    assert client.get(keys.VERSION) == b"echomq:3.0.0"


@pytest.mark.parametrize("reply", ["LOADING it", "BUSY it", "READONLY it", "MISCONF it", "ERR it"])
def test_an_error_reply_means_what_it_means_to_the_other_clients(
    fake: Callable[..., Fake],  # noqa: F811
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    reply: str,
) -> None:
    monkeypatch.setattr("echomq_django.sending.RESEND_FOR", 0.05)
    settings.ECHOMQ = {"default": {"LOCATION": fake(EVALSHA=f"-{reply}\r\n".encode()).url}}
    with pytest.raises(EchoMQError, match="enqueue to queue 'mail'") as caught:
        run(jobs.aenqueue("mail", b"payload"))
    assert type(caught.value) is (EchoMQError if reply == "ERR it" else ServerUnavailable)
    assert not getattr(caught.value, "unknown", False)


# --- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_child_connects_for_itself_and_leaves_its_parents_connections_alone(
    client: redis.Redis,
    program: Program,  # noqa: F811
) -> None:
    codes, made = program("""
import asyncio, gc, json, os, sys
from echomq_django import async_connection, jobs
async def work(who):
    return [(await jobs.aenqueue("mail", f"{who} {number}")).id for number in range(50)]
async def number():
    return (await async_connection.client().exchange((("CLIENT", "ID"),)))[0]
with asyncio.Runner() as runner:
    made = runner.run(work("first"))
    before = runner.run(number())
    children = []
    for child in range(3):
        pid = os.fork()
        if pid == 0:
            asyncio.run(work(f"child {child}"))
            gc.collect(1)
            os._exit(0 if asyncio.run(number()) != before else 9)
        children.append(pid)
    made += runner.run(work("second"))
    print(json.dumps([os.waitpid(pid, 0)[1] for pid in children]))
    assert runner.run(number()) == before  # no child has closed it
    made += runner.run(work("third"))
print(json.dumps(made))
""")
    assert codes == [0, 0, 0]
    held = stored(client)
    assert len(held) == 300
    assert len(set(made)) == 150
    assert {*made} <= held.keys()


def test_a_child_that_goes_on_with_its_parents_loop_has_connections_of_its_own(
    client: redis.Redis,
    program: Program,  # noqa: F811
) -> None:
    before, child, after = program("""
import asyncio, json, os
from echomq_django import async_connection
async def number():
    return (await async_connection.client().exchange((("CLIENT", "ID"),)))[0]
runner = asyncio.Runner()
print(json.dumps(runner.run(number())), flush=True)
pid = os.fork()
if pid == 0:
    print(json.dumps(runner.run(number())), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(json.dumps(runner.run(number())))
runner.close()
""")
    assert before == after != child


@pytest.mark.slow
def test_a_fork_from_a_coroutine_leaves_the_child_able_to_work(
    client: redis.Redis,
    program: Program,  # noqa: F811
) -> None:
    [code] = program("""
import asyncio, json, os
from echomq_django import jobs
async def main():
    await asyncio.gather(*(jobs.aenqueue("mail", b"parent") for _ in range(5)))
    pid = os.fork()
    if pid == 0:
        jobs.enqueue("mail", b"child")
        asyncio.run(jobs.aenqueue("mail", b"child"))
        os._exit(0)
    print(json.dumps(os.waitpid(pid, 0)[1]))
    await asyncio.gather(*(jobs.aenqueue("mail", b"parent") for _ in range(5)))
asyncio.run(main())
""")
    assert code == 0
    assert sorted(stored(client).values()) == [b"child"] * 2 + [b"parent"] * 10
