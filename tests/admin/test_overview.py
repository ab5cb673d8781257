"""The overview on the app's index page: tiles, and the last hour as a drawing."""

import re
from typing import Any

import pytest
import redis
from django.contrib import admin
from django.template import Context, Template
from django.test import Client, RequestFactory

from echomq_django import ids, jobs, keys
from echomq_django.admin.overview import Bar, bars
from echomq_django.models import Queue
from tests.admin import filling, scene
from tests.admin.reading import Page

URL = "/admin/echomq/"


def charts(page: Page) -> list[dict[str, str | None]]:
    return [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("role")]


def drawn(page: Page) -> list[dict[str, str | None]]:
    return [attrs for tag, attrs in page.tags if tag == "rect"]


def test_the_tiles_count_and_lead_to_what_they_count(boss: Client, client: redis.Redis) -> None:
    for queue in ("mail", "default"):
        filling.dead(queue=queue)
        filling.pending(queue=queue)
    filling.active(queue="mail")
    filling.scheduled(queue="mail")
    client.zadd(keys.of("default").pending, {ids.brand("JOB", 1): 0})
    jobs.pause("mail")
    scene.announce(client, "web-1:1:a", "mail", silent=1)
    scene.announce(client, "web-2:2:b", "mail", silent=3000)
    page = Page(boss.get(URL))
    for words in ("3 pending", "1 active", "1 scheduled", "2 dead", "1 worker alive", "1 stale", "1 paused queue mail"):
        assert words in page.text
    assert re.search(r"\d+ years?.* oldest pending default", page.text)
    for link in (
        "job/?location=pending", "job/?location=active", "job/?location=schedule", "job/?location=dead",
        "job/?location=pending&queue=default", "worker/", "queue/?state=paused",
    ):  # fmt: skip
        assert URL + link in page.links
        assert boss.get(URL + link).status_code == 200
    assert [f"{URL}{each}/" for each in ("job", "queue", "worker")] == sorted(
        {link for link in page.links if link in (f"{URL}job/", f"{URL}queue/", f"{URL}worker/")}
    )


def test_an_empty_server_has_an_overview_too(boss: Client, settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url}}
    page = Page(boss.get(URL))
    assert "0 pending" in page.text
    assert "— oldest pending" in page.text
    assert "0 jobs completed (the upper part of a bar), 0 attempts failed (the lower)." in page.text
    assert drawn(page) == []


def test_the_last_hour_is_drawn_and_told(boss: Client, client: redis.Redis) -> None:
    this = jobs.now_ms() // 60_000
    client.hset(keys.of("mail").minute(this), mapping={"completed": 1500, "failed": 500})
    client.hset(keys.of("default").minute(this - 59), mapping={"completed": 1000})
    client.hset(keys.of("default").minute(this - 60), mapping={"completed": 9000})
    page = Page(boss.get(URL))
    [svg] = charts(page)
    assert svg["role"] == "img"
    caption = next(attrs for tag, attrs in page.tags if tag == "figcaption")
    assert svg["aria-labelledby"] == caption["id"]
    assert (
        "The last 60 minutes: 2,500 jobs completed (the upper part of a bar), 500 attempts failed (the lower)."
        in page.text
    )
    assert svg["viewbox"] == "0 0 600 100"
    found = {(each["x"], each["class"]): each["height"] for each in drawn(page)}
    if ("590", "completed") in found:  # the minute may have ended since
        assert found == {("0", "completed"): "50", ("590", "completed"): "75", ("590", "failed"): "25"}


def test_a_drawing_has_whole_numbers_and_shows_what_is_not_nothing() -> None:
    assert bars([]) == []
    assert bars([(0, 0)]) == [Bar(0, 0, 0)]
    assert bars([(1, 1), (1_000_000, 0), (0, 1), (999_999, 1)]) == [
        Bar(0, 1, 1), Bar(10, 100, 0), Bar(20, 0, 1), Bar(30, 99, 1),
    ]  # fmt: skip
    for bar in bars([(number, 7 * number % 31) for number in range(60)]):
        assert bar.completed_y >= 0
        assert bar.completed_y + bar.completed == bar.failed_y
        assert bar.failed_y + bar.failed == 100


@pytest.mark.parametrize("language", ["de", "fr", "ar", "hi", "en"])
def test_in_every_language_the_drawing_is_one(boss: Client, client: redis.Redis, settings: Any, language: str) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = language
    this = jobs.now_ms() // 60_000
    for ago in range(60):
        client.hset(keys.of("mail").minute(this - ago), mapping={"completed": 1000 + 7 * ago, "failed": 333 + ago})
    client.zadd(keys.of("mail").dead, {f"JOB{number:011}": 1 for number in range(1234)})
    page = Page(boss.get(URL))
    assert len(drawn(page)) >= 118
    for rect in drawn(page):
        assert all(str(rect[name]).isascii() and str(rect[name]).isdecimal() for name in ("x", "y", "width", "height"))
    assert [attrs["viewbox"] for attrs in charts(page)] == ["0 0 600 100"]
    if language == "de":
        assert "1.234" in page.text


def test_who_may_not_see_queues_sees_no_overview(user_with: Any) -> None:
    filling.dead(queue="mail")
    for codenames in (("view_job",), ("view_worker",), ("pause_queue", "view_job")):
        page = Page(user_with(*codenames).get(URL))
        assert "emq-tiles" not in page.html
        assert charts(page) == []
    assert "emq-tiles" in Page(user_with("view_queue").get(URL)).html


def test_the_tiles_link_only_to_where_a_user_may_go(user_with: Any, client: redis.Redis) -> None:
    filling.pending(queue="mail")
    browser = user_with("view_queue")
    page = Page(browser.get(URL))
    assert "1 pending" in page.text
    for link in page.links:
        if link.startswith(URL):
            assert browser.get(link).status_code == 200, link


def test_only_the_queues_that_a_user_may_see_are_counted(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = admin.site.get_model_admin(Queue)
    monkeypatch.setattr(page, "get_queue_names", lambda request: ["default"], raising=False)
    filling.dead(queue="mail")
    jobs.pause("mail")
    scene.announce(client, "web-1:1:a", "mail", silent=1)
    client.hset(keys.of("mail").minute(jobs.now_ms() // 60_000), mapping={"completed": 5})
    text = Page(boss.get(URL)).text
    for words in ("0 dead", "0 workers alive", "0 paused queues", "0 jobs completed"):
        assert words in text


def test_a_template_of_anybodys_that_uses_the_tag_shows_nothing(db: None) -> None:
    template = Template("{% load echomq %}[{% echomq_overview %}]")
    assert template.render(Context()).split() == ["[]"] or template.render(Context()).strip("[] \n") == ""
    assert template.render(Context({"request": RequestFactory().get("/")})).strip("[] \n") == ""


def test_the_index_of_the_whole_site_asks_the_server_nothing(boss: Client, asked: list[Any]) -> None:
    assert boss.get("/admin/").status_code == 200
    assert asked == []


def test_the_overview_costs_the_same_however_many_jobs_there_are(
    boss: Client, client: redis.Redis, asked: list[Any]
) -> None:
    filling.pending(queue="mail")
    filling.dead(queue="mail")
    boss.get(URL)
    asked.clear()
    boss.get(URL)
    few = len(asked)
    for place in ("dead", "pending", "schedule", "active"):
        members = {f"JOB{number:011}": number % 7 for number in range(2_000)}
        client.zadd(getattr(keys.of("mail"), place), members)
    asked.clear()
    boss.get(URL)
    assert len(asked) == few
    assert not {command[0] for command in asked} & {"KEYS", "SCAN", "SORT"}
