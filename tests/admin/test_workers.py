"""The workers: who lives, who has fallen silent, and what each of them runs."""

from typing import Any

import pytest
import redis
from django.contrib.admin.utils import quote
from django.test import Client

from echomq_django import jobs, keys
from echomq_django.admin import workers
from tests.admin import filling, scene
from tests.admin.reading import Page

LIST = "/admin/echomq/worker/"


def names(response: Any) -> list[str]:
    return [shape.name for shape in response.context["cl"].result_list]


def page_of(browser: Client, worker: str) -> Any:
    return browser.get(f"{LIST}{quote(worker)}/change/")


def test_a_worker_shows_its_heartbeat_in_words_its_load_and_its_queues(boss: Client, client: redis.Redis) -> None:
    scene.announce(client, "web-1:4711:a1b2", "mail,default", silent=2)
    text = Page(boss.get(LIST)).text
    for words in ("web-1:4711:a1b2", "2 seconds ago", "1 of 4", "default, mail"):
        assert words in text
    assert "stale" not in text
    text = Page(page_of(boss, "web-1:4711:a1b2")).text
    for words in ("Host: web-1", "Process: 4711", "Last heartbeat: 2 seconds ago", "hour, 23 minutes ago"):
        assert words in text.replace("\xa0", " ")


def test_after_three_beats_a_worker_is_stale_and_comes_behind_the_living(boss: Client, client: redis.Redis) -> None:
    scene.announce(client, "a-silent:1:a", "mail", silent=16)
    scene.announce(client, "b-alive:2:b", "mail", silent=13)
    page = boss.get(LIST)
    assert names(page) == ["b-alive:2:b", "a-silent:1:a"]
    text = Page(page).text
    assert "13 seconds ago 1 of 4" in text
    assert "16 seconds ago: stale" in text


def test_without_a_worker_the_list_says_how_one_is_started(boss: Client) -> None:
    assert "Start one with manage.py echomq_worker." in Page(boss.get(LIST)).text


def test_many_workers_are_paged(boss: Client, client: redis.Redis) -> None:
    for at in range(101):
        scene.announce(client, f"web-{at:03}:1:a", "mail", silent=1)
    assert len(names(boss.get(LIST))) == 100
    assert names(boss.get(LIST, {"p": 2})) == ["web-100:1:a"]
    assert boss.get(LIST, {"p": 3}).status_code == 302


def test_a_worker_shows_the_jobs_that_it_runs_and_no_others(boss: Client, client: redis.Redis) -> None:
    mine, other = filling.active(queue="mail", name="shop.pay"), filling.active(queue="default")
    worker = mine.owner.rpartition(":")[0]
    client.hset(keys.of("default").row(other.id), "owner", "other:1:b:7")
    scene.announce(client, worker, "mail,default", silent=1)
    page = Page(page_of(boss, worker))
    assert f"/admin/echomq/job/{quote(f'mail:{mine.id}')}/change/" in page.links
    assert "shop.pay" in page.text
    assert other.id not in page.text
    assert "This is not all" not in page.text


def test_a_worker_without_a_job_says_so(boss: Client, client: redis.Redis) -> None:
    scene.announce(client, "web-1:1:a", "mail", silent=1)
    assert "It runs no job now." in Page(page_of(boss, "web-1:1:a")).text


def test_only_so_many_active_jobs_are_looked_at_and_the_page_says_so(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    monkeypatch.setattr(workers, "WINDOW", 5)
    claims = [filling.active(queue=queue) for queue in ("default", "mail") for _ in range(4)]
    worker = claims[0].owner.rpartition(":")[0]
    scene.announce(client, worker, "mail,default", silent=1)
    asked.clear()
    page = Page(page_of(boss, worker))
    assert "only the first 5 active jobs of its queues were looked at" in page.text
    assert sum(command[0] == "HMGET" for command in asked) == 5


def test_the_jobs_of_a_worker_are_for_those_who_may_see_jobs(user_with: Any, client: redis.Redis) -> None:
    claim = filling.active(queue="mail")
    worker = claim.owner.rpartition(":")[0]
    scene.announce(client, worker, "mail", silent=1)
    page = Page(page_of(user_with("view_worker"), worker))
    assert "Hidden: seeing them needs the permission" in page.text
    assert claim.id not in page.text
    assert claim.id in Page(page_of(user_with("view_worker", "view_job"), worker)).text


def test_hostile_names_and_facts_stay_text(boss: Client, client: redis.Redis) -> None:
    scene.announce(client, "web-1:1:a", "mail", silent=1)
    plain = Page(boss.get(LIST)).shape
    client.flushdb()
    for text in filling.HOSTILE:
        worker = f"{text}:1:a/b"
        client.zadd(keys.WORKERS, {worker: jobs.now_ms()})
        facts = dict.fromkeys(("host", "pid", "busy", "concurrency", "started_at"), text)
        client.hset(keys.worker(worker), mapping={"queues": f"mail,{text}", **facts})
        page = boss.get(LIST)
        assert names(page) == [worker]
        assert Page(page).shape == plain, text
        one = page_of(boss, worker)
        assert one.status_code == 200
        assert ("script", {}) not in Page(one).tags
        assert not [tag for tag, attrs in Page(one).tags if any(name.startswith("on") for name in attrs)]
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in Page(page).text.replace(worker, "")
        client.flushdb()


def test_a_worker_that_is_not_text_or_has_another_types_record_breaks_no_list(
    boss: Client, client: redis.Redis
) -> None:
    scene.announce(client, "web-1:1:a", "mail", silent=1)
    now = jobs.now_ms()
    client.zadd(keys.WORKERS, {b"\xff\xfe": now, "wrong": now, "gone": now, "beyond": float("inf"), "never": -1})
    client.set(keys.worker("wrong"), "text")
    client.hset(keys.worker("beyond"), mapping={"queues": "mail", "pid": b"\xff"})
    client.hset(keys.worker("never"), mapping={"queues": "mail", "started_at": "9" * 30})
    page = boss.get(LIST)
    assert page.status_code == 200
    assert {"web-1:1:a"} < set(names(page))
    for worker in names(page):
        assert page_of(boss, worker).status_code == 200
    assert boss.get("/admin/echomq/").status_code == 200
    assert boss.get("/admin/echomq/queue/").status_code == 200


def test_an_unknown_worker_leads_away_as_with_django(boss: Client) -> None:
    assert "Perhaps it was deleted?" in Page(boss.get(f"{LIST}none/change/", follow=True)).text
