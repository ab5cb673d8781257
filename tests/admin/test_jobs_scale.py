"""Law 1: a page costs as much of a million jobs as of a hundred."""

import time
from typing import Any

import pytest
import redis
from django.test import Client

from echomq_django import jobs
from echomq_django.call import Command
from tests.admin import filling
from tests.admin.reading import Page, sent

pytestmark = pytest.mark.slow

LIST = "/admin/echomq/job/"
PLACES = ("dead", "schedule", "active", "pending")
ACROSS = {"action": "requeue_selected", "index": "0", "select_across": "1", "_selected_action": "all"}
SLOW = {"KEYS", "SCAN", "HGETALL", "LRANGE", "HSCAN", "ZSCAN", "SORT"}


def cost(boss: Client, asked: list[Command], **query: Any) -> list[str]:
    """Open a page, and give the commands that it sent, without what they were about."""
    asked.clear()
    answer = boss.get(LIST, query)
    assert answer.status_code == 200
    assert len(answer.context["cl"].result_list) == 50
    return [str(command[0]) for command in asked]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("queue", ["default", ""])
def test_a_page_sends_as_many_commands_for_a_hundred_thousand_jobs_as_for_a_hundred(
    boss: Client, client: redis.Redis, asked: list[Command], place: str, queue: str
) -> None:
    filling.crowd(client, place, 100, queue="default")
    filling.crowd(client, place, 100, queue="mail")
    cost(boss, asked, location=place)  # the first one loads scripts
    few = cost(boss, asked, location=place, queue=queue, p=2)
    client.flushall()
    filling.crowd(client, place, 100_000, queue="default")
    filling.crowd(client, place, 100, queue="mail")
    many = [cost(boss, asked, location=place, queue=queue, p=page) for page in (2, *((1000, 2000) if queue else (40,)))]
    for each in many:
        assert sorted(each) == sorted(few)
        assert not SLOW & set(each)
        assert len(each) < 200


def test_a_list_asks_for_no_range_without_a_bound(boss: Client, client: redis.Redis, asked: list[Command]) -> None:
    filling.crowd(client, "dead", 300)
    asked.clear()
    boss.get(LIST)
    for command in asked:
        if command[0] == "ZRANGE":
            assert "LIMIT" in command or 0 <= int(command[3]) - int(command[2]) < 100


def test_a_filter_and_a_search_read_no_more_than_their_window(
    boss: Client, client: redis.Redis, asked: list[Command]
) -> None:
    filling.crowd(client, "dead", 20_000)
    for query in ({"task": "shop.pay"}, {"q": "needle"}, {"error": "KeyError"}):
        asked.clear()
        boss.get(LIST, query)
        assert len([command for command in asked if command[0] == "HMGET"]) <= 5_000


@pytest.mark.slow
def test_a_million_dead_jobs_are_browsed_searched_and_requeued_bit_by_bit(
    boss: Client, client: redis.Redis, asked: list[Command]
) -> None:
    filling.crowd(client, "dead", 100, queue="default")
    cost(boss, asked, queue="default")
    few = len(cost(boss, asked, queue="default"))
    client.flushall()
    minted = filling.crowd(client, "dead", 1_000_000, queue="default", rows=1_000_000, payload="p")
    first = 1_700_000_000_000
    day = time.gmtime(first / 1000 + 86_400 * 7)
    for name, query in {
        "page 1": {"queue": "default"},
        "page 10,000": {"queue": "default", "p": 10_000},
        "page 20,000": {"queue": "default", "p": 20_000},
        "all queues, page 40": {"p": 40},
        "one day": {"at__year": day.tm_year, "at__month": day.tm_mon, "at__day": day.tm_mday},
        "an id": {"q": minted[500_000]},
        "text that nobody wrote": {"q": "needle"},
    }.items():
        asked.clear()
        assert boss.get(LIST, query).status_code == 200
        if name.startswith("page"):
            assert len(asked) == few
    answer = boss.post(LIST, ACROSS)
    assert "Requeue 1,000,000 dead jobs?" in Page(answer).text
    # One request does what it can in its time, and asks to go on; test_jobs_bulk goes on to the end.
    answer = boss.post(LIST, sent(Page(answer)), follow=True)
    moved = jobs.counts("default").pending
    assert 0 < moved < 1_000_000
    assert f"{moved:,}" in Page(answer).text
