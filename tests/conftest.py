"""The fixtures that every test may use: a server, a client, more servers, and the settings that point at them."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from echomq_django import embedded
from tests.server import Choice, NoServer, Running, binary, choose, running
from tests.settings import echomq

CHOICE = pytest.StashKey[Choice]()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the server once, in the process that the user started; the xdist workers hear of it."""
    if hasattr(config, "workerinput"):
        config.stash[CHOICE] = Choice(**config.workerinput["server"])
        return
    try:
        config.stash[CHOICE] = choose(os.environ.get("ECHOMQ_TEST_SERVER") or "auto")
    except NoServer as error:
        raise pytest.UsageError(str(error)) from error
    if config.stash[CHOICE].kind == "url" and config.getoption("numprocesses", None):
        raise pytest.UsageError("ECHOMQ_TEST_SERVER is one server, and each xdist worker flushes its own: add -n0")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["server"] = vars(node.config.stash[CHOICE])


def pytest_report_header(config: pytest.Config) -> str:
    return f"server under test: {config.stash[CHOICE]}"


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Iterator[Running]:
    """Start the server under test: one for each xdist worker, for the whole run."""
    with running(pytestconfig.stash[CHOICE]) as server:
        yield server


@pytest.fixture(scope="session")
def url(server: Running) -> str:
    return server.url


@pytest.fixture
def client(server: Running) -> Iterator[redis.Redis]:
    """Give a plain client on the server under test, which is empty."""
    with redis.Redis.from_url(server.url, decode_responses=False, protocol=2) as client:
        if server.choice.kind == "url":
            client.flushdb()  # the user's server may hold other databases; this one was empty at the start
        else:
            client.flushall()
        yield client


@pytest.fixture
def private_server(pytestconfig: pytest.Config) -> Iterator[Callable[..., embedded.PrivateServer]]:
    """Give a function that starts a server of the test's own, to be stopped, killed or filled."""
    started: list[embedded.PrivateServer] = []

    def start(**kwargs: Any) -> embedded.PrivateServer:
        choice = pytestconfig.stash[CHOICE]
        if choice.kind == "local":
            kwargs.setdefault("binary", binary(choice.where))
        started.append(embedded.start(**kwargs))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def _settings(client: redis.Redis, url: str, settings: Any) -> None:
    """Point the library at the empty server; the signal setting_changed clears what it had cached."""
    settings.ECHOMQ = echomq(url)
