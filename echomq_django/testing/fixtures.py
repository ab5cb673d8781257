"""Fixtures for pytest: pytest_plugins = ["echomq_django.testing.fixtures"]. The only file that needs it."""

from collections.abc import Iterator

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from echomq_django import conf, embedded


@pytest.fixture(scope="session")
def echomq_private_server() -> Iterator[str]:
    """Start a private server for this run, one for each process of pytest-xdist; its URL."""
    with embedded.start() as server:
        yield server.url


@pytest.fixture
def echomq_server(echomq_private_server: str) -> Iterator[str]:
    """Point the servers of ECHOMQ at the private one, empty, for a test; its URL.

    Each has a database of its own there, so they stay apart; queues and all else are as the settings have them.
    """
    root = echomq_private_server.rpartition("/")[0]
    with redis.Redis.from_url(echomq_private_server, protocol=2) as client:
        client.flushall()
    servers = getattr(settings, "ECHOMQ", None) or {conf.DEFAULT_ALIAS: {}}
    private = {
        alias: {**server, "LOCATION": f"{root}/{number}", "OPTIONS": {}}
        for number, (alias, server) in enumerate(servers.items())
    }
    with override_settings(ECHOMQ=private):
        yield private[conf.DEFAULT_ALIAS]["LOCATION"]
