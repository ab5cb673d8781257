"""The server is away, or does not serve: a page says so at once, and the rest of the site notices nothing."""

import os
import re
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from echomq_django import jobs
from tests.admin import filling, scene
from tests.admin.reading import Page

pytestmark = pytest.mark.slow

ROOT = "/admin/echomq/"
WORKER = "web-1:1:a"
PAGES = (
    "queue/", "queue/mail/change/", "queue/mail/history/", "queue/mail/pause/", "queue/mail/drain/", "worker/",
    f"worker/{quote(WORKER)}/change/", "job/", "job/?location=pending", "job/?q=text",
)  # fmt: skip
SECRET = "s3cret"
AT_MOST = 3.0


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Be a server that answers each command alike; its URL, with a password."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while heard := self.request.recv(1 << 16):
                self.request.sendall(reply * len(re.findall(rb"(?:^|(?<=\r\n))\*\d+\r\n", heard)))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://user:{SECRET}@127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()


def at(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url, "QUEUES": {"mail": {}}}}


def in_time(ask: Callable[[], Any]) -> Any:
    """Give an answer that must come in time: slow is what is slow twice, once is a busy machine."""
    for _ in range(2):
        began = time.monotonic()
        answer = ask()
        took = time.monotonic() - began
        if took < AT_MOST:
            return answer
    raise AssertionError(f"it took {took:.1f} s")


def says_that_the_server_is_away(browser: Client, path: str, *secrets: str, method: str = "get") -> Page:
    answer = in_time(lambda: getattr(browser, method)(ROOT + path))
    assert answer.status_code == 503, path
    page = Page(answer)
    assert "Site administration" in page.text or "Django administration" in page.text
    assert [attrs for tag, attrs in page.tags if attrs.get("role") == "alert"]
    for secret in (SECRET, "127.0.0.1", "redis://", *secrets):
        assert secret not in page.html
    return page


def the_rest_goes_on(browser: Client) -> None:
    overview = in_time(lambda: browser.get(ROOT))
    assert overview.status_code == 200
    assert "cannot be reached or does not serve now" in Page(overview).text
    assert ROOT + "queue/" in Page(overview).links
    for path in ("/admin/", "/admin/auth/user/", "/admin/auth/"):
        assert browser.get(path).status_code == 200


REPLIES = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "master down": b"-MASTERDOWN Link with MASTER is down\r\n",
    "wrong password": b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    "no password": b"-NOAUTH Authentication required.\r\n",
    "no permission": b"-NOPERM this user has no permissions\r\n",
    "nonsense": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "old": b"-ERR unknown command\r\n",
}


@pytest.mark.parametrize("reply", REPLIES)
def test_a_server_that_does_not_serve_gives_503(boss: Client, settings: Any, reply: str) -> None:
    with answering(REPLIES[reply]) as url:
        at(settings, url)
        for path in PAGES:
            says_that_the_server_is_away(boss, path, url)
        the_rest_goes_on(boss) if reply not in ("no permission", "old") else None


@pytest.mark.parametrize(
    "location", [f"redis://user:{SECRET}@127.0.0.1:1/0", f"redis://:{SECRET}@no-such-host.invalid:1/0"]
)
def test_no_server_gives_503(boss: Client, settings: Any, location: str) -> None:
    at(settings, location)
    for path in PAGES:
        page = says_that_the_server_is_away(boss, path, "no-such-host")
        assert "Nothing was changed by opening this page." in page.text
    the_rest_goes_on(boss)


@pytest.mark.parametrize("warm", [True, False])
def test_a_server_that_has_fallen_silent_gives_503_and_the_page_comes_when_it_is_back(
    boss: Client, settings: Any, private_server: Callable[..., Any], warm: bool
) -> None:
    server = private_server()
    at(settings, server.url)
    if warm:
        assert boss.get(ROOT + "queue/").status_code == 200
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for path in ("queue/", "job/", "worker/"):
            page = says_that_the_server_is_away(boss, path)
            assert "(TimeoutError)" in page.text
        the_rest_goes_on(boss)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert boss.get(ROOT + "queue/").status_code == 200


def test_a_server_that_was_started_anew_is_asked_again_at_once(
    boss: Client, settings: Any, private_server: Callable[..., Any]
) -> None:
    server = private_server()
    at(settings, server.url)
    boss.get(ROOT + "queue/")
    with redis.Redis.from_url(server.url) as other:
        other.client_kill_filter(skipme=True)  # its connections are gone, as after a start
    assert boss.get(ROOT + "queue/").status_code == 200


def test_a_server_that_runs_somebodys_script_gives_503(
    boss: Client, settings: Any, private_server: Callable[..., Any]
) -> None:
    server = private_server(config={"busy-reply-threshold": "50"})
    at(settings, server.url)
    assert boss.get(ROOT + "queue/").status_code == 200
    with redis.Redis.from_url(server.url) as long, redis.Redis.from_url(server.url) as other:

        def run() -> None:
            with pytest.raises(redis.RedisError):
                long.eval("while true do end", 0)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.2)
        try:
            for path in PAGES:
                says_that_the_server_is_away(boss, path)
            the_rest_goes_on(boss)
        finally:
            other.script_kill()
            thread.join()
    assert boss.get(ROOT + "queue/").status_code == 200


def test_a_replica_is_shown_and_changes_nothing(
    boss: Client, settings: Any, private_server: Callable[..., Any]
) -> None:
    server = private_server()
    at(settings, server.url)
    filling.pending(queue="mail")
    boss.get(ROOT + "queue/")
    with redis.Redis.from_url(server.url) as other:
        other.replicaof("127.0.0.1", 1)
        assert boss.get(ROOT + "queue/").status_code == 200
        page = says_that_the_server_is_away(boss, "queue/mail/pause/", method="post")
        assert "may have been done all the same" in page.text
        assert LogEntry.objects.count() == 0
        other.replicaof("NO", "ONE")
    assert not jobs.counts("mail").paused


def test_a_wrong_password_gives_503_without_it(boss: Client, settings: Any, private_server: Callable[..., Any]) -> None:
    server = private_server(config={"requirepass": "right"})
    at(settings, f"redis://:{SECRET}@127.0.0.1:{server.port}/0")
    for path in PAGES:
        assert "(AuthenticationError)" in says_that_the_server_is_away(boss, path, "right!").text
    the_rest_goes_on(boss)


def test_a_server_fenced_for_others_says_that_it_is_not_away(boss: Client, settings: Any, client: redis.Redis) -> None:
    client.set("{emq}:version", "echomq:9.9.9")
    settings.ECHOMQ = {**settings.ECHOMQ}
    page = says_that_the_server_is_away(boss, "queue/")
    assert "gave an answer that this page cannot show. (WireVersionMismatch)" in page.text


def test_who_may_not_see_a_page_is_not_told_that_the_server_is_away(user_with: Any, settings: Any) -> None:
    at(settings, f"redis://user:{SECRET}@127.0.0.1:1/0")
    browser = user_with("view_job")
    for path in ("queue/", "worker/", "queue/mail/pause/"):
        assert browser.get(ROOT + path).status_code == 403
    assert "cannot be reached" not in Page(browser.get(ROOT)).text


def test_the_log_tells_what_the_page_does_not(boss: Client, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    at(settings, f"redis://user:{SECRET}@127.0.0.1:1/0")
    boss.get(ROOT + "queue/")
    [record] = [each for each in caplog.records if each.name == "echomq_django.admin"]
    assert "/admin/echomq/queue/: " in record.getMessage()
    assert "127.0.0.1:1" in record.getMessage()
    assert SECRET not in record.getMessage()


def test_before_migrate_a_superuser_sees_all_and_others_nothing(db: None, client: redis.Redis) -> None:
    scene.announce(client, WORKER, "mail", silent=1)
    Permission.objects.filter(content_type__app_label="echomq").delete()
    ContentType.objects.filter(app_label="echomq").delete()
    ContentType.objects.clear_cache()
    boss, staff = Client(), Client()
    boss.force_login(User.objects.create_superuser("boss"))
    staff.force_login(User.objects.create_user("staff", is_staff=True))
    for path in ("", *PAGES):
        assert boss.get(ROOT + path).status_code == 200, path
        assert staff.get(ROOT + path).status_code in (403, 404), path
    assert boss.post(ROOT + "queue/mail/pause/").status_code == 302
    assert LogEntry.objects.get().object_id == "mail"
    ContentType.objects.clear_cache()
