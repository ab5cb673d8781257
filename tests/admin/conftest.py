"""What every test of the admin stands on: users, a count of what is asked of the server, and a ban on our tables."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client

from echomq_django.call import Command
from echomq_django.connection import Client as ServerClient
from tests.admin.chromium import Chromium, Visit

UserWith = Callable[..., Client]


@pytest.fixture(autouse=True)
def _no_table() -> Iterator[None]:
    """Law 2: no query names a table of ours, because there is none."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        assert "echomq_" not in sql, sql
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        yield


@pytest.fixture(scope="session")
def live_server(django_db_setup: None, live_server: Any) -> Any:
    """Start the site when its database is in a file: threads would share one in memory, and SQLite dies of that."""
    return live_server


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Give a browser, which is started once for all tests of a file."""
    chromium = Chromium()
    yield chromium
    chromium.stop()


@pytest.fixture
def visit(chromium: Chromium, live_server: Any) -> Visit:
    """Give a function that walks through the site, logged in."""
    return Visit(chromium, live_server.url)


@pytest.fixture
def boss(db: None) -> Client:
    """Give a browser in which a superuser is logged in."""
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss"))
    return browser


@pytest.fixture
def user_with(db: None) -> UserWith:
    """Give a function that logs in a staff user who has permissions of ours, by codename, and no others."""
    number = count(1)

    def make(*codenames: str, **more: Any) -> Client:
        user = User.objects.create_user(f"user{next(number)}", is_staff=True, **more)
        found = Permission.objects.filter(content_type__app_label="echomq", codename__in=codenames)
        assert {each.codename for each in found} == set(codenames)
        user.user_permissions.set(found)
        browser = Client()
        browser.force_login(user)
        return browser

    return make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Collect the commands that are sent to the server from now on; clear it where counting begins."""
    sent: list[Command] = []
    exchange = ServerClient.exchange

    def listening(self: ServerClient, commands: Sequence[Command]) -> list[Any]:
        sent.extend(commands)
        return exchange(self, commands)

    monkeypatch.setattr(ServerClient, "exchange", listening)
    return sent
