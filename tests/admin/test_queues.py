"""The queues: their numbers, and pausing, resuming and draining them."""

import re
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils.translation import override

from echomq_django import jobs, keys
from echomq_django.admin import draining
from tests.admin import filling, scene
from tests.admin.reading import Page, sent

LIST = "/admin/echomq/queue/"
MAIL = "/admin/echomq/queue/mail/"
SELECTED = {"_selected_action": ["mail"]}


def names(response: Any) -> list[str]:
    return [shape.name for shape in response.context["cl"].result_list]


def logged() -> list[tuple[str, str, str]]:
    entries = LogEntry.objects.order_by("pk")
    return [(each.user.username, each.object_id, each.get_change_message()) for each in entries]


def test_a_queue_shows_its_jobs_by_place_as_links(boss: Client) -> None:
    filling.dead(queue="mail")
    filling.active(queue="mail")
    for _ in range(2):
        filling.pending(queue="mail")
    filling.scheduled(queue="mail")
    page = Page(boss.get(LIST))
    for place in ("dead", "active", "pending", "schedule"):
        link = f"/admin/echomq/job/?queue=mail&location={place}"
        assert link in page.links
        assert boss.get(link).context["cl"].result_count == (2 if place == "pending" else 1)


def test_a_queue_shows_latency_rate_workers_and_state(boss: Client, client: redis.Redis) -> None:
    filling.pending(queue="mail")
    scene.announce(client, "web-1:1:a", "mail,default", silent=1)
    scene.announce(client, "web-2:2:b", "mail", silent=3000)
    this = jobs.now_ms() // 60_000
    for ago in range(12):
        client.hset(keys.of("mail").minute(this - ago), mapping={"completed": 600 if ago in (0, 11) else 25})
    text = Page(boss.get(MAIL + "change/")).text
    assert "Completed a minute: 25.0" in text  # neither the minute that is not over, nor the one before the ten
    assert "Workers: 1" in text
    assert "State: running" in text
    assert re.search(r"Oldest pending: \d+ seconds?", text)
    jobs.pause("mail")
    assert "State: paused" in Page(boss.get(MAIL + "change/")).text


def test_an_empty_queue_is_not_asked_for_its_oldest_job(boss: Client, asked: list[Any]) -> None:
    boss.get(LIST)
    asked.clear()
    page = boss.get(LIST)
    assert names(page) == ["default", "mail"]
    assert len(asked) < 160  # two queues of 8 counts, a clock and 60 minutes


def test_the_list_is_filtered_by_state(boss: Client) -> None:
    jobs.pause("mail")
    assert names(boss.get(LIST)) == ["default", "mail"]
    assert names(boss.get(LIST, {"state": "paused"})) == ["mail"]
    assert names(boss.get(LIST, {"state": "running"})) == ["default"]
    jobs.resume("mail")
    page = boss.get(LIST, {"state": "paused"})
    assert names(page) == []
    assert "No queue is in this state." in Page(page).text


def test_without_a_queue_the_list_says_how_one_comes(boss: Client, settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": url}}
    page = Page(boss.get(LIST))
    assert "No queue is here yet" in page.text
    assert boss.get("/admin/echomq/").status_code == 200


def test_an_unknown_queue_leads_away_as_with_django(boss: Client) -> None:
    for url in ("none/change/", "none/history/", "none/pause/", "none/drain/", "a%3Cb/change/", "_3Cx_3E/resume/"):
        page = boss.get(LIST + url, follow=True)
        assert "Perhaps it was deleted?" in Page(page).text, url


def test_what_is_no_queues_name_breaks_no_page(boss: Client, client: redis.Redis) -> None:
    client.sadd(keys.QUEUES, *(text.encode() for text in filling.HOSTILE), b"\xff\x00", "good")
    plain = boss.get(LIST)
    assert names(plain) == ["default", "good", "mail"]
    assert boss.get("/admin/echomq/").status_code == 200
    assert boss.get("/admin/echomq/worker/").status_code == 200
    assert boss.get("/admin/echomq/job/").status_code == 200


def test_selected_queues_are_paused_and_resumed_and_that_is_in_the_history(boss: Client) -> None:
    chosen = {"_selected_action": ["mail", "default", "none"]}
    page = boss.post(LIST, {"action": "pause_selected", **chosen}, follow=True)
    assert "Paused: default, mail." in Page(page).text
    assert all(jobs.counts(queue).paused for queue in ("mail", "default"))
    boss.post(LIST, {"action": "resume_selected", **SELECTED})
    assert not jobs.counts("mail").paused
    assert jobs.counts("default").paused
    assert logged() == [
        ("boss", "default", "Paused: default."),
        ("boss", "mail", "Paused: mail."),
        ("boss", "mail", "Resumed: mail."),
    ]
    assert "Resumed: mail." in Page(boss.get(MAIL + "history/")).text
    assert f'{MAIL}change/"' in boss.get("/admin/").content.decode()  # recent actions


def test_a_queues_own_page_asks_before_it_is_paused_or_resumed(boss: Client) -> None:
    page = Page(boss.get(MAIL + "change/"))
    assert MAIL + "pause/" in page.links
    assert MAIL + "resume/" not in page.links
    assert "Let nobody claim jobs" in Page(boss.get(MAIL + "pause/")).text
    assert not jobs.counts("mail").paused
    done = boss.post(MAIL + "pause/", follow=True)
    assert "Paused: mail." in Page(done).text
    assert jobs.counts("mail").paused
    assert MAIL + "resume/" in Page(done).links
    assert MAIL + "pause/" not in Page(done).links
    boss.post(MAIL + "resume/")
    assert not jobs.counts("mail").paused


@pytest.mark.parametrize("way", [LIST, MAIL + "drain/"])
def test_draining_asks_with_the_number_and_leaves_what_is_not_pending_and_what_comes_later(
    boss: Client, way: str
) -> None:
    dead, active = filling.dead(queue="mail"), filling.active(queue="mail").id
    for _ in range(3):
        filling.pending(queue="mail")
    filling.pending(queue="default")
    first = {"action": "drain_selected", **SELECTED} if way == LIST else {}
    asking = Page(boss.post(way, first))
    assert "Remove 3 pending jobs?" in asking.text
    assert "mail: 3" in asking.text
    assert jobs.counts("mail").pending == 3
    later = filling.pending(queue="mail")
    done = boss.post(way, sent(asking), follow=True)
    assert "3 pending jobs were removed." in Page(done).text
    assert [job.id for job in jobs.page("mail", "pending")] == [later]
    assert [job.id for job in jobs.page("mail", "dead")] == [dead]
    assert [job.id for job in jobs.page("mail", "active")] == [active]
    assert jobs.counts("default").pending == 1
    assert logged() == [("boss", "mail", "Drained of 3 jobs.")]


def test_a_drain_that_takes_too_long_for_one_request_is_gone_on_with(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(7):
        filling.pending(queue="mail")
    asking = Page(boss.post(MAIL + "drain/"))
    ticks = count()
    monkeypatch.setattr(draining, "STEP", 2)
    monkeypatch.setattr(draining, "SECONDS", 2.5)
    monkeypatch.setattr(draining, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    again = Page(boss.post(MAIL + "drain/", sent(asking)))
    assert jobs.counts("mail").pending == 3
    assert "Remove 3 pending jobs?" in again.text
    done = boss.post(MAIL + "drain/", sent(again), follow=True)
    assert "3 pending jobs were removed." in Page(done).text
    assert jobs.counts("mail").pending == 0
    assert logged() == [("boss", "mail", "Drained of 4 jobs."), ("boss", "mail", "Drained of 3 jobs.")]


@pytest.mark.parametrize("number", ["", "x", "-1", "²", "9" * 5000, "1e3"])
def test_a_number_that_is_none_drains_nothing(boss: Client, number: str) -> None:
    filling.pending(queue="mail")
    answer = boss.post(MAIL + "drain/", {"confirmed": "yes", "number-mail": number})
    assert answer.status_code == 302
    assert jobs.counts("mail").pending == 1


def test_numbers_are_written_as_the_user_reads_them(boss: Client, settings: Any, client: redis.Redis) -> None:
    client.zadd(keys.of("mail").dead, {f"JOB{number:011}": 1 for number in range(1234)})
    assert ">1,234<" in boss.get(LIST).content.decode()
    settings.USE_THOUSAND_SEPARATOR = True
    with override("de"):
        german = boss.get(LIST, headers={"accept-language": "de"}).content.decode()
    assert ">1.234<" in german
    assert "queue=mail&amp;location=dead" in german


def test_a_user_without_view_job_sees_numbers_and_no_links(user_with: Any) -> None:
    filling.dead(queue="mail")
    page = Page(user_with("view_queue").get(LIST))
    assert not [link for link in page.links if "/job/" in link]
