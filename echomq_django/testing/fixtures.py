"""Fixtures for pytest: pytest_plugins = ["echomq_django.testing.fixtures"]. The only file that needs it."""

from collections.abc import Iterator

import pytest
import redis
from django.conf import settings
from django.test import override_settings

from echomq_django import embedded


@pytest.fixture(scope="session")
def echomq_private_server() -> Iterator[str]:
    """Start a private server for this run, one for each process of pytest-xdist; its URL."""
    with embedded.start() as server:
        yield server.url


@pytest.fixture
def echomq_server(echomq_private_server: str) -> Iterator[str]:
    """Point every server of ECHOMQ at the private one, empty, for a test; its URL.

    The queues and all else are as the settings have them. The servers of ECHOMQ become one: the same queue of two of
    them is one queue.
    """
    servers = getattr(settings, "ECHOMQ", None) or {"default": {}}
    private = {"LOCATION": echomq_private_server, "OPTIONS": {}}
    with redis.Redis.from_url(echomq_private_server, protocol=2) as client:
        client.flushall()
    with override_settings(ECHOMQ={alias: {**server, **private} for alias, server in servers.items()}):
        yield echomq_private_server
