"""A real browser: Debian's Chromium, driven by Playwright, in a thread of its own.

Playwright's functions run an event loop in the thread that calls them, and Django refuses a thread with a running loop
its database. So a test gives `visit` a function to run over there, and asks the database on its own side.
"""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

__all__ = ["SCREENSHOTS", "Chromium", "Page", "Visit", "expect"]

T = TypeVar("T")
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WISH = os.environ.get("ECHOMQ_TEST_BROWSER", "")


def lacking(what: str) -> NoReturn:
    """Skip, but fail where the browser was asked for by name, and in CI."""
    if WISH or os.environ.get("CI"):
        raise RuntimeError(what)
    pytest.skip(what, allow_module_level=True)


try:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Response, expect, sync_playwright
except ImportError:
    lacking("Playwright is not installed: install the dependency group test")


def binary() -> str:
    """Find the browser: the one in ECHOMQ_TEST_BROWSER, a path or a name on PATH, or else Chromium."""
    for name in [WISH] if WISH else ["chromium", "chromium-browser", "google-chrome"]:
        if found := shutil.which(name):
            return found
    lacking(f"there is no browser {WISH or 'chromium'!r}: install it, or name one in ECHOMQ_TEST_BROWSER")


class Chromium:
    """Run functions in the browser's thread."""

    def __init__(self) -> None:
        path = binary()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="chromium")
        self._playwright = self.run(lambda: sync_playwright().start())
        self._browser: Browser = self.run(lambda: self._playwright.chromium.launch(executable_path=path))

    def run(self, call: Callable[..., T], *args: Any) -> T:
        return self._thread.submit(call, *args).result()

    def stop(self) -> None:
        self.run(self._browser.close)
        self.run(self._playwright.stop)
        self._thread.shutdown()

    def visit(self, walk: Callable[[Page], T], url: str, cookies: list[Any], **options: Any) -> T:
        """Walk through pages, and fail when the browser or the site complains of one."""
        return self.run(self._visit, walk, url, cookies, options)

    def _visit(self, walk: Callable[[Page], T], url: str, cookies: list[Any], options: dict[str, Any]) -> T:
        with self._browser.new_context(base_url=url, locale="en-GB", **options) as context:
            context.set_default_timeout(15_000)
            context.add_cookies(cookies)
            # Every browser asks for it, and no admin has one.
            context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
            page = context.new_page()
            found = complaints(page)
            try:
                return walk(page)
            finally:
                # What the browser said first is the cause of what the walk then missed.
                assert not found, "\n".join(found)


def complaints(page: Page) -> list[str]:
    """Collect, from now on, console messages, errors of scripts, dialogs and answers that are errors."""
    found: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        found.append(f"{page.url}: {message.type}: {message.text}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            found.append(f"{response.url}: {response.status}")

    page.on("console", on_console)
    page.on("response", on_response)
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
    page.on("dialog", lambda dialog: (found.append(f"{page.url}: a dialog says {dialog.message}"), dialog.dismiss()))
    return found


@dataclass(frozen=True)
class Visit:
    """Let a user walk through the live site."""

    chromium: Chromium
    url: str

    def __call__(self, walk: Callable[[Page], T], user: User | None = None, **options: Any) -> T:
        return self.chromium.visit(walk, self.url, self._cookies(user), **options)

    def _cookies(self, user: User | None) -> list[dict[str, str]]:
        if user is None:
            return []
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        return [{"name": name, "value": client.cookies[name].value, "url": self.url}]
