"""What people do to one job: requeue, run now, remove, edit; and who may."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation
from django.utils.translation import gettext

from echomq_django import jobs
from echomq_django.admin.moves import ADVANCE, REMOVE, REQUEUE, Move, NotMoved
from tests.admin import filling
from tests.admin.reading import Page, sent
from tests.admin.stored import dump

pytestmark = pytest.mark.slow

LIST = "/admin/echomq/job/"


def url(job_id: str, page: str = "change", queue: str = filling.QUEUE) -> str:
    return f"{LIST}{queue}:{job_id}/{page}/"


def counts() -> tuple[int, int, int, int]:
    found = jobs.counts(filling.QUEUE)
    return found.pending, found.active, found.schedule, found.dead


def history() -> list[tuple[str, str, int, str]]:
    """Give the lines of Django's history, the first first."""
    lines = LogEntry.objects.order_by("pk")
    return [(str(line.content_type), str(line.object_id), line.action_flag, line.change_message) for line in lines]


MOVES: list[tuple[str, Callable[[], str], tuple[int, int, int, int], int, str]] = [
    ("requeue", filling.dead, (1, 0, 0, 0), CHANGE, "Requeued."),
    ("advance", filling.scheduled, (1, 0, 0, 0), CHANGE, "Run now."),
    ("delete", filling.dead, (0, 0, 0, 0), DELETION, ""),
    ("delete", filling.scheduled, (0, 0, 0, 0), DELETION, ""),
    ("delete", filling.pending, (0, 0, 0, 0), DELETION, ""),
]


@pytest.mark.parametrize(("page", "make", "after", "flag", "words"), MOVES)
def test_a_move_asks_then_does_it_and_leaves_a_line_in_the_history(
    boss: Client, page: str, make: Any, after: Any, flag: int, words: str
) -> None:
    # Complaint 18: nothing was asked.
    job_id = make()
    before = counts()
    asking = boss.get(url(job_id, page))
    assert job_id in Page(asking).text
    assert (counts(), history()) == (before, [])
    done = boss.post(url(job_id, page), {"post": "yes"}, follow=True)
    assert (counts(), done.status_code) == (after, 200)
    [(kind, object_id, logged, message)] = history()
    assert (object_id, logged) == (f"default:{job_id}", flag)
    assert kind.endswith("job")
    assert message == words
    assert job_id in Page(done).text


def crumbs(answer: Any) -> list[str]:
    """Give the breadcrumbs, each as its text; an arrow behind those that are links."""
    [found] = re.findall(r'class="breadcrumbs">(.*?)</(?:div|ol)>', Page(answer).html, re.DOTALL)
    parts = [part for part in re.split(r"&rsaquo;|</li>", found) if part.strip()]
    return [re.sub(r"<[^>]*>", "", part).strip() + ("→" if "<a " in part else "") for part in parts]


QUEUE_PAGES = {"pause": "Pause", "resume": "Resume", "drain": "Drain"}


@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_a_page_that_asks_has_the_breadcrumbs_that_djangos_own_pages_have(
    boss: Client, client: redis.Redis, language: str
) -> None:
    dead, scheduled = filling.dead(), filling.scheduled()
    with translation.override(language):  # some of our words are in Django's own catalogue too
        home = crumbs(boss.get(LIST))[0]
        way = [home, "EchoMQ→", "Jobs→"]
        for job_id, page, words in (
            (dead, "requeue", "Requeue"), (scheduled, "advance", "Run now"), (dead, "delete", "Remove"),
        ):  # fmt: skip
            assert crumbs(boss.get(url(job_id, page))) == [*way, f"{job_id}→", gettext(words)]
        data = {"index": "0", "select_across": "0", "_selected_action": f"default:{dead}"}
        for action, words in (("requeue_selected", "Requeue"), ("remove_selected", "Remove")):
            assert crumbs(boss.post(LIST, {"action": action, **data})) == [*way, f"{gettext(words)} 1 dead job"]
        for page, words in QUEUE_PAGES.items():
            way = [home, "EchoMQ→", "Queues→", "default→", words]
            assert crumbs(boss.get(f"/admin/echomq/queue/default/{page}/")) == way
        data = {"action": "drain_selected", "_selected_action": "default"}
        assert crumbs(boss.post("/admin/echomq/queue/", data)) == [home, "EchoMQ→", "Queues→", "Drain"]


def test_nothing_of_ours_says_delete(boss: Client, client: redis.Redis) -> None:
    dead = filling.dead()
    filling.pending()
    data = {"action": "remove_selected", "index": "0", "select_across": "0", "_selected_action": f"default:{dead}"}
    drain = {"action": "drain_selected", "_selected_action": "default"}
    answers = [
        *(boss.get(each) for each in (LIST, url(dead), url(dead, "delete"), "/admin/echomq/queue/")),
        boss.get("/admin/echomq/queue/default/drain/"),
        boss.post(LIST, data),
        boss.post("/admin/echomq/queue/", drain),
        boss.post("/admin/echomq/queue/", {**drain, "confirmed": "yes", "number-default": "1"}, follow=True),
        boss.post(url(dead, "delete"), {"post": "yes"}, follow=True),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert "delet" not in re.sub("Deletion:? ?", "", Page(answer).text).lower()
    assert "1 pending job was removed." in Page(answers[-2]).text
    assert f"Removed: {dead}." in Page(answers[-1]).text


def test_who_removes_a_job_comes_back_to_the_list_he_came_from(user_with: Any) -> None:
    # Django sends who may not change anything to the index.
    browser, job_id = user_with("view_job", "delete_job"), filling.dead()
    filters = {"_changelist_filters": "location=dead&queue=default"}
    answer = browser.post(f"{url(job_id, 'delete')}?{urlencode(filters)}", {"post": "yes"})
    assert answer["Location"] == f"{LIST}?location=dead&queue=default"


PLACES: dict[str, Callable[[], str]] = {
    "dead": filling.dead,
    "schedule": filling.scheduled,
    "pending": filling.pending,
    "active": lambda: filling.active().id,
    "completed": filling.completed,
}
ALLOWED = {
    "requeue": {"dead"},
    "advance": {"schedule"},
    "delete": {"dead", "schedule", "pending"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("page", ALLOWED)
def test_a_move_from_another_place_does_nothing_and_says_why(
    boss: Client, client: redis.Redis, page: str, place: str
) -> None:
    if place in ALLOWED[page]:
        return
    job_id = PLACES[place]()
    before = dump(client)
    answer = boss.post(url(job_id, page), {"post": "yes"}, follow=True)
    assert "Nothing was done" in Page(answer).text
    assert dump(client) == before
    assert history() == []


@pytest.mark.parametrize(
    ("move", "make"), [(REQUEUE, filling.dead), (ADVANCE, filling.scheduled), (REMOVE, filling.dead)]
)
def test_of_ten_who_press_at_once_one_has_done_it(client: redis.Redis, move: Move, make: Any) -> None:
    job = jobs.get(filling.QUEUE, make())

    def press(_: int) -> bool:
        try:
            move.one(job, "default")
        except NotMoved:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(press, range(10))) == 1
    assert sum(counts()) == (0 if move is REMOVE else 1)


def test_a_requeued_job_keeps_its_errors_its_arguments_and_its_maximum(boss: Client) -> None:
    # Complaint 37: a retry overwrote the record, and kept the timeout that the first run had.
    job_id = filling.dead_task(7, error=ValueError("first"))
    before = jobs.get(filling.QUEUE, job_id)
    boss.post(url(job_id, "requeue"))
    after = jobs.get(filling.QUEUE, job_id)
    assert (after.payload, after.max_attempts, after.errors) == (before.payload, before.max_attempts, before.errors)
    assert after.attempt == 0
    assert "ValueError: first" in Page(boss.get(url(job_id))).text


def test_a_job_without_a_sound_row_is_put_aside_and_the_page_says_so(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead()
    job = jobs.get(filling.QUEUE, job_id)
    client.delete(f"emq:{{default}}:job:{job_id}")
    with pytest.raises(NotMoved, match="quarantine"):
        REQUEUE.one(job, "default")


def test_a_job_that_left_its_place_after_the_page_asked_is_not_removed(boss: Client) -> None:
    job_id = filling.dead()
    asking = sent(Page(boss.get(url(job_id, "delete"))))
    assert asking == {"post": ["yes"], "seen": ["dead"]}
    jobs.requeue(filling.QUEUE, job_id)
    answer = boss.post(url(job_id, "delete"), asking, follow=True)
    assert "Nothing was done" in Page(answer).text
    assert (jobs.location(filling.QUEUE, job_id), history()) == ("pending", [])
    boss.post(url(job_id, "delete"), sent(Page(boss.get(url(job_id, "delete")))))
    assert jobs.location(filling.QUEUE, job_id) is None


# Editing.


def edit(browser: Client, job_id: str, arguments: str) -> Any:
    return browser.post(url(job_id), {"arguments": arguments}, follow=True)


def test_an_edited_dead_task_is_requeued_with_its_new_arguments_and_all_else_it_had(boss: Client) -> None:
    job_id = filling.dead_task(1, copy=True)
    before = json.loads(jobs.get(filling.QUEUE, job_id).payload)
    assert "textarea" in Page(boss.get(url(job_id))).html
    answer = edit(boss, job_id, '{"args": [2], "kwargs": {"copy": false}}')
    assert "was changed successfully" in Page(answer).text
    after = jobs.get(filling.QUEUE, job_id)
    assert json.loads(after.payload) == {**before, "args": [2], "kwargs": {"copy": False}}
    assert counts() == (1, 0, 0, 0)
    [(_, object_id, flag, message)] = history()
    assert (object_id, flag) == (f"default:{job_id}", CHANGE)
    assert "rguments" in message


@pytest.mark.parametrize("value", [{}, [], 7, "text", False, {"a": {"é": [None]}}])
def test_another_json_payload_is_edited_whole(boss: Client, value: Any) -> None:
    job_id = filling.dead({"a": 1})
    edit(boss, job_id, json.dumps(value))
    assert json.loads(jobs.get(filling.QUEUE, job_id).payload) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "This field is required"),
        ("{", "Enter a valid JSON"),
        ("[1]", "the arguments of a task are"),
        ('{"args": 1}', "its args are 1"),
        ('{"kwargs": []}', "its kwargs are []"),
        ('{"args": [], "task": "os.system"}', "the arguments of a task are"),
        ('{"args": [NaN]}', "is not JSON"),
        ('{"args": ["\\ud800"]}', "half a character"),
        ("[" * 3000, "Enter a valid JSON"),
        ('{"args": ["</textarea><script>alert(1)</script>"]', "Enter a valid JSON"),
    ],
)
def test_arguments_that_no_worker_could_read_are_an_error_beside_the_field(
    boss: Client, client: redis.Redis, text: str, words: str
) -> None:
    job_id = filling.dead_task(1)
    before = dump(client)
    answer = edit(boss, job_id, text)
    assert answer.status_code == 200
    assert words in Page(answer).text
    assert b"<script>alert" not in answer.content
    assert dump(client) == before
    assert history() == []


@pytest.mark.parametrize("place", ["schedule", "pending", "active", "completed"])
def test_only_a_dead_job_can_be_edited(boss: Client, place: str) -> None:
    job_id = PLACES[place]()
    assert "textarea" not in Page(boss.get(url(job_id))).html
    assert boss.post(url(job_id), {"arguments": "1"}).status_code == 403


def test_a_job_that_left_while_it_was_edited_is_left_alone(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = filling.dead({"a": 1})
    revise = jobs.revise

    def late(*args: Any, **kwargs: Any) -> None:
        jobs.requeue(filling.QUEUE, job_id)
        revise(*args, **kwargs)

    monkeypatch.setattr("echomq_django.jobs.revise", late)
    answer = edit(boss, job_id, '{"a": 2}')
    assert "successfully" not in Page(answer).text
    assert job_id in Page(answer).text
    assert jobs.get(filling.QUEUE, job_id).payload == b'{"a":1}'
    assert history() == []


@pytest.mark.parametrize("permissions", [("change_job",), ("view_job", "view_job_payload")])
def test_editing_needs_two_permissions(user_with: Any, permissions: tuple[str, ...]) -> None:
    job_id = filling.dead({"a": 1})
    browser = user_with(*permissions)
    assert "textarea" not in Page(browser.get(url(job_id))).html
    assert browser.post(url(job_id), {"arguments": "1"}).status_code == 403
    assert "textarea" in Page(user_with("change_job", "view_job_payload").get(url(job_id))).html


# Who may.

ALL = ("view_job", "change_job", "delete_job", "view_job_payload", "requeue_job", "advance_job")
GETS = {"list": 200, "change": 200, "history": 200, "requeue": 403, "advance": 403, "payload": 403, "delete": 403}
POSTS = {"change": 403, "requeue": 403, "advance": 403, "payload": 403, "delete": 403}
TABLE: list[tuple[tuple[str, ...], dict[str, int], dict[str, int]]] = [
    ((), dict.fromkeys(GETS, 403), dict.fromkeys(POSTS, 403)),
    (("view_queue", "pause_queue", "drain_queue", "view_worker"), dict.fromkeys(GETS, 403), dict.fromkeys(POSTS, 403)),
    (("view_job",), GETS, POSTS),
    (("view_job", "view_job_payload"), GETS | {"payload": 200}, POSTS | {"payload": 200}),
    (("view_job", "requeue_job"), GETS | {"requeue": 200}, POSTS | {"requeue": 302}),
    (("view_job", "advance_job"), GETS | {"advance": 200}, POSTS | {"advance": 302}),
    (("view_job", "delete_job"), GETS | {"delete": 200}, POSTS | {"delete": 302}),
    (("view_job", "change_job"), GETS, POSTS),
    # Seeing comes first.
    (("requeue_job", "advance_job", "view_job_payload"), dict.fromkeys(GETS, 403), dict.fromkeys(POSTS, 403)),
    (ALL, dict.fromkeys(GETS, 200), dict.fromkeys(POSTS, 302) | {"payload": 200}),
]


def ask(browser: Client, method: str, page: str, job_id: str) -> Any:
    data = {"post": "yes", "arguments": "[1]"} if method == "post" else {}
    return getattr(browser, method)(LIST if page == "list" else url(job_id, page), data)


@pytest.mark.parametrize(("permissions", "gets", "posts"), TABLE)
def test_each_page_asks_for_its_own_permission(
    user_with: Any, client: redis.Redis, permissions: Any, gets: dict[str, int], posts: dict[str, int]
) -> None:
    # Complaints 23 to 25: the permission only hid the menu.
    browser = user_with(*permissions)
    job_id = filling.dead({"a": 1})
    before = dump(client)
    assert {page: ask(browser, "get", page, job_id).status_code for page in gets} == gets
    assert (dump(client), history()) == (before, [])  # a GET changes nothing
    for page, status in posts.items():
        made = filling.dead({"a": 1})
        before = dump(client)
        assert ask(browser, "post", page, made).status_code == status, page
        if status == 403:
            assert dump(client) == before


def test_a_superuser_who_only_looks_changes_nothing_in_any_place(boss: Client, client: redis.Redis) -> None:
    made = [make() for make in PLACES.values()]
    before = dump(client)
    for job_id in made:
        for page in GETS:
            assert ask(boss, "get", page, job_id).status_code == 200
    for query in ("location=pending", "location=active", "location=schedule", "q=x", "task=x", "error=x&queue=mail"):
        assert boss.get(f"{LIST}?{query}").status_code == 200
    assert dump(client) == before
    assert history() == []


@pytest.mark.parametrize("is_staff", [None, False])
def test_who_is_not_staff_is_sent_to_the_login(db: None, client: redis.Redis, is_staff: bool | None) -> None:
    browser = Client()
    if is_staff is not None:
        browser.force_login(User.objects.create_user("guest", is_staff=is_staff))
    job_id = filling.dead()
    before = dump(client)
    for page in GETS:
        for method in ("get", "post"):
            answer = ask(browser, method, page, job_id)
            assert answer.status_code == 302
            assert answer["Location"].startswith("/admin/login/")
    assert dump(client) == before


@pytest.mark.parametrize("page", ["list", *POSTS])
def test_a_post_without_its_token_is_refused(boss: Client, client: redis.Redis, page: str) -> None:
    boss.handler.enforce_csrf_checks = True
    job_id = filling.dead({"a": 1})
    before = dump(client)
    assert ask(boss, "post", page, job_id).status_code == 403
    assert dump(client) == before


def test_who_has_no_permission_of_ours_finds_nothing_of_ours_in_the_index(user_with: Any) -> None:
    # Complaint 24: the wrong app was asked for.
    assert "EchoMQ" not in Page(user_with().get("/admin/")).text
    assert user_with().get("/admin/echomq/").status_code == 404
    assert "/admin/echomq/job/" in Page(user_with("view_job").get("/admin/")).links
