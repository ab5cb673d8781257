"""Who may do what: each user, each address, each method; and which queues a user sees."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from echomq_django import jobs
from echomq_django.models import Job, Queue, Worker
from tests.admin import filling, scene
from tests.admin.reading import Page
from tests.admin.stored import dump

pytestmark = pytest.mark.slow

ROOT = "/admin/echomq/"
WORKER = "web-1:1:a"
QUEUE_PAGES = ("queue/", "queue/mail/change/", "queue/mail/history/")
WORKER_PAGES = ("worker/", f"worker/{quote(WORKER)}/change/", f"worker/{quote(WORKER)}/history/")
NEVER = tuple(
    f"{each}{end}"
    for each in ("queue/", "worker/")
    for end in ("add/", f"{'mail' if each == 'queue/' else quote(WORKER)}/delete/")
)
ASK = {
    "queue/mail/pause/": "pause_queue",
    "queue/mail/resume/": "pause_queue",
    "queue/mail/drain/": "drain_queue",
}
# What is sent, and the permission without which it changes nothing.
CHANGES: list[tuple[str, dict[str, str], str]] = [
    ("queue/mail/pause/", {}, "pause_queue"),
    ("queue/default/resume/", {}, "pause_queue"),
    ("queue/mail/drain/", {"confirmed": "yes", "number-mail": "9"}, "drain_queue"),
    ("queue/", {"action": "pause_selected", "_selected_action": "mail"}, "pause_queue"),
    ("queue/", {"action": "resume_selected", "_selected_action": "default"}, "pause_queue"),
    (
        "queue/",
        {"action": "drain_selected", "_selected_action": "mail", "confirmed": "yes", "number-mail": "9"},
        "drain_queue",
    ),
    (
        "queue/",
        {
            "action": "drain_selected",
            "select_across": "1",
            "_selected_action": "x",
            "confirmed": "yes",
            "number-mail": "9",
        },
        "drain_queue",
    ),
]  # fmt: skip
OURS = ("view_queue", "pause_queue", "drain_queue", "view_worker", "view_job")


@pytest.fixture(autouse=True)
def _filled(client: redis.Redis, _settings: None) -> None:
    filling.pending(queue="mail")
    filling.dead(queue="mail")
    filling.active(queue="default")
    jobs.pause("default")
    scene.announce(client, WORKER, "mail,default", silent=1)


@pytest.fixture
def unchanged(client: redis.Redis, db: None, _filled: None) -> Callable[[], bool]:
    before, entries = dump(client), LogEntry.objects.count()

    def look() -> bool:
        return dump(client) == before and LogEntry.objects.count() == entries

    return look


def anybody() -> Client:
    return Client()


def customer() -> Client:
    browser = Client()
    browser.force_login(User.objects.create_user("customer"))
    return browser


@pytest.mark.parametrize("path", ["", *QUEUE_PAGES, *WORKER_PAGES, *NEVER, *ASK])
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("who", [anybody, customer])
def test_who_is_no_staff_is_asked_to_log_in(
    unchanged: Callable[[], bool], who: Callable[[], Client], method: str, path: str
) -> None:
    answer = getattr(who(), method)(ROOT + path, {"confirmed": "yes", "number-mail": "9"})
    assert answer.status_code == 302
    assert answer["Location"].startswith("/admin/login/")
    assert unchanged()


def wanted(path: str) -> set[str]:
    """Give the permissions that an address needs; one that nobody has for what nobody may."""
    if path in NEVER:
        return {"nobody's"}
    return {"view_worker"} if path.startswith("worker") else {"view_queue", *filter(None, [ASK.get(path)])}


@pytest.mark.parametrize("path", [*QUEUE_PAGES, *WORKER_PAGES, *NEVER, *ASK])
@pytest.mark.parametrize(
    "held",
    [
        (), ("view_queue",), ("view_worker",), ("view_job",), ("pause_queue",), ("drain_queue",),
        ("view_queue", "pause_queue"), ("view_queue", "drain_queue"), OURS,
    ],
)  # fmt: skip
def test_staff_see_what_their_permissions_say(
    unchanged: Callable[[], bool], user_with: Any, held: tuple[str, ...], path: str
) -> None:
    answer = user_with(*held).get(ROOT + path)
    assert answer.status_code == (200 if wanted(path) <= set(held) else 403)
    assert unchanged()


@pytest.mark.parametrize(("path", "data", "permission"), CHANGES)
@pytest.mark.parametrize(
    "held", [(), ("view_queue",), ("view_queue", "pause_queue"), ("view_queue", "drain_queue"), OURS]
)
def test_a_change_needs_its_permission(
    unchanged: Callable[[], bool],
    user_with: Any,
    held: tuple[str, ...],
    path: str,
    data: dict[str, str],
    permission: str,
) -> None:
    user_with(*held).post(ROOT + path, data)
    assert unchanged() is not ({"view_queue", permission} <= set(held))


@pytest.mark.parametrize(("path", "data", "permission"), CHANGES)
def test_a_permission_to_change_is_none_to_see(
    unchanged: Callable[[], bool], user_with: Any, path: str, data: dict[str, str], permission: str
) -> None:
    assert user_with(permission, "view_worker", "view_job").post(ROOT + path, data).status_code == 403
    assert unchanged()


@pytest.mark.parametrize(("path", "data", "permission"), CHANGES)
def test_a_change_needs_the_token_and_a_post(
    unchanged: Callable[[], bool], boss: Client, path: str, data: dict[str, str], permission: str
) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="boss"))
    assert strict.post(ROOT + path, data).status_code == 403
    assert boss.get(ROOT + path, data).status_code in (200, 302)
    assert boss.put(ROOT + path, data).status_code in (200, 302, 403, 405)
    assert boss.delete(ROOT + path).status_code in (200, 302, 403, 405)
    assert unchanged()


@pytest.mark.parametrize("path", ["", *QUEUE_PAGES, *WORKER_PAGES, *NEVER, *ASK, "job/", "job/?location=pending"])
def test_looking_changes_nothing(unchanged: Callable[[], bool], boss: Client, path: str) -> None:
    assert boss.get(ROOT + path).status_code in (200, 403)
    assert boss.head(ROOT + path).status_code in (200, 403)
    assert boss.options(ROOT + path).status_code in (200, 403, 405)
    assert unchanged()


def test_posting_to_a_page_that_only_shows_changes_nothing(unchanged: Callable[[], bool], boss: Client) -> None:
    for path in (*QUEUE_PAGES, *WORKER_PAGES):
        assert boss.post(ROOT + path, {"name": "other"}).status_code in (200, 302, 403)
    assert unchanged()


def test_an_action_is_offered_only_to_who_may(user_with: Any) -> None:
    for held, offered in (
        (("view_queue",), set()),
        (("view_queue", "pause_queue"), {"pause_selected", "resume_selected"}),
        (("view_queue", "drain_queue"), {"drain_selected"}),
    ):
        page = Page(user_with(*held).get(ROOT + "queue/"))
        options = {str(attrs["value"]) for tag, attrs in page.tags if tag == "option" and attrs.get("value")}
        assert options == offered
        buttons = [link for link in Page(user_with(*held).get(ROOT + "queue/mail/change/")).links if "/mail/" in link]
        assert ("/admin/echomq/queue/mail/pause/" in buttons) is ("pause_selected" in offered)
        assert ("/admin/echomq/queue/mail/drain/" in buttons) is ("drain_selected" in offered)


@pytest.fixture
def only_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in (Queue, Job, Worker):
        page = admin.site.get_model_admin(model)
        monkeypatch.setattr(page, "get_queue_names", lambda request: ["default"], raising=False)


@pytest.mark.usefixtures("only_default")
def test_a_queue_that_a_user_may_not_see_is_nowhere(boss: Client, client: redis.Redis) -> None:
    scene.announce(client, "web-2:2:b", "mail", silent=1)
    for path in ("", "queue/", "worker/", f"worker/{quote(WORKER)}/change/", "job/", "queue/default/change/"):
        page = boss.get(ROOT + path)
        assert page.status_code == 200
        assert "mail" not in Page(page).text, path
        assert "web-2" not in Page(page).text, path
    for path in (
        "queue/mail/change/",
        "queue/mail/history/",
        "queue/mail/drain/",
        f"worker/{quote('web-2:2:b')}/change/",
    ):
        assert "Perhaps it was deleted?" in Page(boss.get(ROOT + path, follow=True)).text, path


@pytest.mark.usefixtures("only_default")
@pytest.mark.parametrize(("path", "data", "permission"), [each for each in CHANGES if "default" not in str(each)])
def test_a_queue_that_a_user_may_not_see_is_not_changed(
    unchanged: Callable[[], bool], boss: Client, path: str, data: dict[str, str], permission: str
) -> None:
    boss.post(ROOT + path, data)
    assert unchanged()
