"""waiter: sleep at the server until a queue has work, and take no token that nobody here can use."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import conf, jobs, keys
from echomq_django.connection import Client
from echomq_django.worker.waiter import BEAT, Waiter
from tests.handlers import PATIENCE, until
from tests.lossy import CLOSE, lossy

WAKE = keys.of("default").wake


class Woken:
    """Take what a waiter tells."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()

    def __call__(self, name: str, token: bool) -> None:
        self._queue.put((name, token))

    def next(self) -> tuple[str, bool]:
        return self._queue.get(timeout=PATIENCE)

    @property
    def left(self) -> int:
        return self._queue.qsize()


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def waiter(client: redis.Redis, woken: Woken, _settings: None) -> Iterator[Callable[[], Waiter]]:
    made: list[tuple[Client, Waiter]] = []

    def make() -> Waiter:
        lines = Client(conf.alias(), socket_timeout=BEAT + 2)
        made.append((lines, Waiter(lines, "default", woken)))
        return made[-1][1]

    yield make
    for lines, each in made:
        each.stop()
        each._thread.join(PATIENCE)
        lines.close()


def parked(client: redis.Redis) -> bool:
    """Say whether somebody waits at the server."""
    return bool(client.info("clients")["blocked_clients"])


def test_a_token_wakes_it_and_is_taken(waiter: Any, woken: Woken, client: redis.Redis) -> None:
    one = waiter()
    one.arm(BEAT)
    client.lpush(WAKE, "1")
    assert woken.next() == ("default", True)
    assert not one.parked
    assert client.llen(WAKE) == 0


def test_an_enqueue_wakes_it(waiter: Any, woken: Woken, client: redis.Redis) -> None:
    one = waiter()
    while True:
        one.arm(BEAT)
        until(lambda: parked(client) or woken.left)
        if parked(client):
            break
        woken.next()
    jobs.enqueue("default", b"payload")
    assert any(woken.next()[1] or one.arm(BEAT) for _ in range(3))


def test_a_token_that_was_there_before_wakes_it(waiter: Any, woken: Woken, client: redis.Redis) -> None:
    client.lpush(WAKE, "1")
    waiter().arm(BEAT)
    assert woken.next() == ("default", True)


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.0004, 0.05, 3600.0])
def test_without_a_token_it_wakes_after_its_time_or_a_beat(waiter: Any, woken: Woken, timeout: float) -> None:
    one = waiter()
    one.arm(timeout)
    assert woken.next() == ("default", False)
    assert not one.parked


def test_it_takes_one_token_each_time_it_is_armed_and_none_otherwise(
    waiter: Any, woken: Woken, client: redis.Redis
) -> None:
    one = waiter()
    client.lpush(WAKE, "1", "1", "1")
    for left in (2, 1):
        one.arm(BEAT)
        assert one.parked
        assert woken.next() == ("default", True)
        assert client.llen(WAKE) == left
        assert not parked(client)
        assert woken.left == 0


def test_a_stopped_one_waits_no_more(waiter: Any, woken: Woken, client: redis.Redis) -> None:
    one = waiter()
    one.stop()
    assert not one._thread.is_alive()
    one.arm(BEAT)
    client.lpush(WAKE, "1")
    assert woken.left == 0
    assert client.llen(WAKE) == 1


def test_a_wait_under_way_ends_when_it_is_stopped(waiter: Any, woken: Woken) -> None:
    one = waiter()
    one.arm(BEAT)
    one.stop()
    one._thread.join(PATIENCE)
    assert not one._thread.is_alive()


@pytest.mark.parametrize("how", ["unblocked", "killed"])
def test_a_wait_that_the_server_breaks_off_is_told_as_one_without_a_token(
    waiter: Any, woken: Woken, client: redis.Redis, how: str
) -> None:
    one = waiter()

    def break_off() -> bool:
        for each in client.client_list():
            if each["cmd"].lower() == "blpop":
                if how == "unblocked":
                    client.client_unblock(int(each["id"]), error=True)
                else:
                    client.client_kill_filter(_id=each["id"])
                return True
        return False

    one.arm(BEAT)
    until(break_off)
    assert woken.next() == ("default", False)
    one.arm(BEAT)
    client.lpush(WAKE, "1")
    assert woken.next() == ("default", True)


def test_a_reply_that_is_lost_is_told_as_one_without_a_token(
    settings: Any, url: str, waiter: Any, woken: Woken, client: redis.Redis
) -> None:
    with lossy(url) as proxy:
        settings.ECHOMQ = {"default": {"LOCATION": proxy.url}}
        one = waiter()
        proxy.lose("BLPOP", 3, CLOSE)
        client.lpush(WAKE, *["1"] * 4)
        for _ in range(3):
            one.arm(BEAT)
            assert woken.next() == ("default", False)
        one.arm(BEAT)
        assert woken.next() == ("default", True)
        one.stop()


def test_it_works_again_after_the_server_was_killed(
    settings: Any, private_server: Any, waiter: Any, woken: Woken
) -> None:
    server = private_server()
    settings.ECHOMQ = {"default": {"LOCATION": server.url}}
    one = waiter()
    with redis.Redis.from_url(server.url) as plain:
        one.arm(BEAT)
        until(lambda: parked(plain))
    server.kill()
    assert woken.next() == ("default", False)
    one.arm(BEAT)
    assert woken.next() == ("default", False)
    server.restart()
    with redis.Redis.from_url(server.url) as plain:
        plain.lpush(WAKE, "1")
    one.arm(BEAT)
    assert woken.next() == ("default", True)
