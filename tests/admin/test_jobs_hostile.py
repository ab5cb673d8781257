"""Texts that want to be markup: in every field, on every page, they stay texts."""

import json
from typing import Any

import pytest
import redis
from django.test import Client

from echomq_django import jobs, keys
from tests.admin import filling
from tests.admin.reading import Page, sent

pytestmark = pytest.mark.slow

LIST = "/admin/echomq/job/"
HARMLESS = "harmless"
MARK = "\N{SNOWMAN}"
"""Marks hostile texts, so that they can be told from the page's own."""
RAW = b"\xff\xfe\xed\xa0\x80\x00" + MARK.encode()
ACROSS = {"action": "requeue_selected", "index": "0", "select_across": "1", "_selected_action": "all"}
FORBIDDEN = ("\x00", "\N{RIGHT-TO-LEFT OVERRIDE}", "\ufeff")


def poison(client: redis.Redis, job_id: str, place: str, text: str | bytes) -> None:
    """Write a text into every field that a page might show, as any program could."""
    names = keys.of(filling.QUEUE)
    kept = place == "completed"
    row, errors, logs = (
        (names.result(job_id), names.result_errors(job_id), names.result_logs(job_id))
        if kept
        else (names.row(job_id), names.errors(job_id), names.logs(job_id))
    )
    told = text if isinstance(text, str) else text.decode(errors="surrogateescape")
    record = json.dumps({"error": told, "message": told, "traceback": told, "worker": told, "attempt": 1})
    owner = (text if isinstance(text, bytes) else text.encode()) + b":1"
    fields = {"name": text, "last_error": text, "owner": owner, "payload": text, "result": text, "progress": text}
    client.hset(row, mapping={**fields, "group": text, "attempts": "3", "priority": text, "max_attempts": text})
    client.delete(errors)
    client.rpush(errors, record, text)
    client.rpush(logs, text)


def make(place: str) -> str:
    match place:
        case "dead":
            return filling.dead()
        case "active":
            return filling.active().id
        case "schedule":
            return filling.scheduled()
        case "pending":
            return filling.pending()
    return filling.completed()


def pages(place: str, job_id: str) -> list[str]:
    of_one = [f"{LIST}default:{job_id}/{page}/" for page in ("change", "requeue", "advance", "delete", "history")]
    return [f"{LIST}?q={job_id}", *([] if place == "completed" else [f"{LIST}?location={place}"]), *of_one]


@pytest.mark.parametrize("place", ["dead", "active", "schedule", "pending", "completed"])
def test_a_hostile_text_in_any_field_changes_no_element_of_any_page(
    boss: Client, client: redis.Redis, place: str
) -> None:
    # Complaint 22, and P2 of the bug log.
    job_id = make(place)
    poison(client, job_id, place, HARMLESS)
    shapes = {url: Page(boss.get(url)).shape for url in pages(place, job_id)}
    for text in (*filling.HOSTILE, "\x00" + MARK, RAW):
        poison(client, job_id, place, text)
        for url in pages(place, job_id):
            answer = boss.get(url)
            assert answer.status_code == 200
            page = Page(answer)
            assert page.shape == shapes[url], (url, text)
            assert not [each for each in FORBIDDEN if each in page.html], (url, text)


def test_a_hostile_text_is_seen_as_it_was_written(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead()
    poison(client, job_id, "dead", filling.HOSTILE[0])
    for url in (LIST, f"{LIST}default:{job_id}/change/"):
        assert '<script>alert("1")</script>' in Page(boss.get(url)).text
        assert "<script>alert" not in boss.get(url).content.decode()
    poison(client, job_id, "dead", RAW)
    assert "\\xff\\xfe" in Page(boss.get(f"{LIST}default:{job_id}/change/")).text


def test_hostile_arguments_of_a_task_stay_texts_in_the_form_too(boss: Client) -> None:
    for text in filling.HOSTILE:
        job_id = filling.dead_task(text, **{text: text})
        page = Page(boss.get(f"{LIST}default:{job_id}/change/"))
        assert not [attrs for tag, attrs in page.tags for name in attrs if name.startswith("on")]
        assert not [attrs for tag, attrs in page.tags if tag == "img" and attrs.get("src") == "x"]


@pytest.mark.parametrize("text", filling.HOSTILE)
@pytest.mark.parametrize("name", ["q", "task", "error", "queue", "skip", "p", "location", "at__year"])
def test_a_hostile_address_is_a_text(boss: Client, client: redis.Redis, name: str, text: str) -> None:
    filling.crowd(client, "dead", 60)
    plain = Page(boss.get(LIST, {name: HARMLESS}, follow=True)).shape
    answer = boss.get(LIST, {name: text}, follow=True)
    assert answer.status_code == 200
    assert Page(answer).shape == plain
    asking = boss.post(
        f"{LIST}?{name}={HARMLESS}",
        {**ACROSS, "_selected_action": text},
    )
    assert asking.status_code in (200, 302)


@pytest.mark.parametrize("text", filling.HOSTILE)
def test_a_hostile_key_is_a_text_in_messages_and_confirm_pages(boss: Client, text: str) -> None:
    for url in (f"{LIST}default:{text}/change/", f"{LIST}{text}/requeue/"):
        answer = boss.get(url, follow=True)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.content.decode()
    data = {"action": "requeue_selected", "index": "0", "select_across": "0", "_selected_action": f"default:{text}"}
    asking = boss.post(LIST, data)
    plain = boss.post(LIST, {**data, "_selected_action": "default:harmless"})
    assert Page(asking).shape == Page(plain).shape
    done = boss.post(LIST, sent(Page(asking)), follow=True)
    assert "1 was no longer there" in Page(done).text


def test_a_hostile_filter_is_a_text_in_the_confirm_page_and_in_the_history(boss: Client) -> None:
    for text in filling.HOSTILE:
        job_id = filling.dead(name=text)
        query = {"task": text, "queue": "default"}
        url = boss.get(LIST, query).wsgi_request.get_full_path()
        asking = boss.post(url, ACROSS)
        done = boss.post(url, sent(Page(asking)), follow=True)
        for answer in (asking, done, boss.get("/admin/echomq/queue/default/history/"), boss.get("/admin/")):
            assert answer.status_code == 200
            assert "<script>alert" not in answer.content.decode()
            assert not [each for each in FORBIDDEN if each in Page(answer).text]
        assert jobs.location("default", job_id) == "pending"
        jobs.drain("default")


@pytest.mark.parametrize("kind", [bytes, str])
def test_ids_that_are_none_are_listed_as_texts(boss: Client, client: redis.Redis, kind: Any) -> None:
    for number, text in enumerate((*filling.HOSTILE, "\x00", "a/b?c=d#e", "default:x")):
        member = text.encode() if kind is str else text.encode() + b"\xff"
        client.zadd(keys.of("default").dead, {member: number})
    answer = boss.get(LIST)
    assert answer.status_code == 200
    assert len(answer.context["cl"].result_list) == len(filling.HOSTILE) + 3
    assert not [attrs for tag, attrs in Page(answer).tags for name in attrs if name.startswith("on")]
    assert "<script>alert" not in answer.content.decode()
