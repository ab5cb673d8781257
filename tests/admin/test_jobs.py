"""The list of a place: what it shows, in which order, how it is filtered, searched and paged through."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.contrib.admin import site
from django.test import Client
from django.utils import timezone

from echomq_django import ids, jobs, keys
from echomq_django.admin import dates, listing
from echomq_django.connection import Client as ServerClient
from echomq_django.models import Job
from tests.admin import filling
from tests.admin.reading import Page

LIST = "/admin/echomq/job/"
PLACES = ("dead", "schedule", "active", "pending")


def listed(response: Any) -> list[str]:
    return [shape.job.id for shape in response.context["cl"].result_list]


def sidebar(response: Any) -> dict[str, list[str]]:
    cl = response.context["cl"]
    return {spec.parameter_name: [str(each["display"]) for each in spec.choices(cl)] for spec in cl.filter_specs}


def test_each_place_lists_its_own_jobs_and_the_dead_come_without_being_asked_for(boss: Client) -> None:
    made = {
        "dead": filling.dead(), "active": filling.active().id, "pending": filling.pending(),
        "schedule": filling.scheduled(),
    }  # fmt: skip
    assert listed(boss.get(LIST)) == [made["dead"]]
    for place, job_id in made.items():
        page = boss.get(LIST, {"location": place})
        assert page.status_code == 200
        assert listed(page) == [job_id]


def test_a_dead_job_shows_id_task_queue_place_attempts_time_and_error(boss: Client) -> None:
    job_id = filling.dead(error=ValueError("no" * 100), name="shop.pay", max_attempts=7)
    page = Page(boss.get(LIST))
    for text in (job_id, "shop.pay", "default", "dead", "1/7", "died", "seconds ago", "ValueError: nono"):
        assert text in page.text
    assert "no" * 60 not in page.text  # an error is cut


def test_an_active_job_shows_its_worker_and_when_its_lease_ends(boss: Client) -> None:
    claim = filling.active()
    page = Page(boss.get(LIST, {"location": "active"}))
    assert claim.owner.rpartition(":")[0] in page.text
    assert "lease ends in 4 minutes" in page.text.replace("\xa0", " ")


def test_the_dead_are_listed_newest_first_and_the_others_as_they_come_up(boss: Client) -> None:
    dead = [filling.dead(queue="mail") for _ in range(3)]
    soon = [filling.scheduled(queue="mail", at=filling.SOON + timedelta(hours=hour)) for hour in (3, 1, 2)]
    waiting = [filling.pending(queue="mail", priority=priority) for priority in (0, 5, 0)]
    assert listed(boss.get(LIST)) == dead[::-1]
    assert listed(boss.get(LIST, {"location": "schedule"})) == [soon[1], soon[2], soon[0]]
    assert listed(boss.get(LIST, {"location": "pending"})) == [waiting[1], waiting[0], waiting[2]]


def test_no_request_changes_the_order(boss: Client) -> None:
    dead = [filling.dead() for _ in range(2)]
    page = boss.get(LIST, {"o": "-1.2"})
    assert listed(page) == dead[::-1]
    assert "sortable" not in Page(page).html


def test_the_sidebar_counts_places_queues_tasks_and_errors(boss: Client) -> None:
    filling.dead(name="shop.pay", error=KeyError("a"))
    filling.dead(name="shop.pay", queue="mail")
    filling.dead(name="shop.ship")
    filling.pending(queue="mail")
    assert sidebar(boss.get(LIST)) == {
        "location": ["Dead (3)", "Scheduled (0)", "Active (0)", "Pending (1)"],
        "queue": ["All", "default (2)", "mail (1)"],
        "task": ["All", "shop.pay (2)", "shop.ship (1)"],
        "error": ["All", "ValueError (2)", "KeyError (1)"],
    }
    assert sidebar(boss.get(LIST, {"queue": "mail", "location": "pending"})) == {
        "location": ["Dead (1)", "Scheduled (0)", "Active (0)", "Pending (1)"],
        "queue": ["All", "default (0)", "mail (1)"],
    }


def test_a_queue_a_task_and_an_error_can_be_chosen(boss: Client) -> None:
    first = filling.dead(name="shop.pay", error=KeyError("a"))
    second = filling.dead(name="shop.pay", queue="mail")
    third = filling.dead(name="shop.ship")
    assert listed(boss.get(LIST, {"task": "shop.pay"})) == [second, first]
    assert listed(boss.get(LIST, {"error": "ValueError"})) == [third, second]
    assert listed(boss.get(LIST, {"queue": "default", "task": "shop.pay", "error": "KeyError"})) == [first]


@pytest.mark.parametrize(
    "query",
    [
        "location=nowhere", "queue=none", "p=99999999999", "p=0", "p=-1", "at__year=abc", "at__year=99999",
        "at__year=9999&at__month=12&at__day=31", "at__year=0",
    ],
)  # fmt: skip
def test_what_makes_no_sense_leads_back_to_the_list(boss: Client, query: str) -> None:
    filling.dead()
    answer = boss.get(f"{LIST}?{query}")
    assert answer.status_code == 302
    assert boss.get(answer["Location"]).status_code == 200


@pytest.mark.parametrize("query", ["p=abc", "skip=abc", "skip=-1", "e=1", "at__year=2020", "skip=99999999999999999999"])
def test_what_makes_little_sense_is_read_as_far_as_it_goes(boss: Client, query: str) -> None:
    filling.dead()
    assert boss.get(f"{LIST}?{query}").status_code == 200


@pytest.mark.parametrize("query", ["at__gte=2020-01-01", "payload__contains=x", "at__lt=1"])
def test_a_lookup_that_the_page_does_not_offer_is_refused(boss: Client, query: str) -> None:
    assert boss.get(f"{LIST}?{query}").status_code == 400


def test_an_empty_place_says_so(boss: Client) -> None:
    assert "No job is in this place." in Page(boss.get(LIST)).text


# Pages.


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_pages_share_out_the_place_without_gaps_or_repeats(boss: Client, client: redis.Redis, place: str) -> None:
    minted = filling.crowd(client, place, 230)
    pages = [listed(boss.get(LIST, {"location": place, "queue": "default", "p": number})) for number in range(1, 6)]
    assert [len(page) for page in pages] == [50, 50, 50, 50, 30]
    assert [job_id for page in pages for job_id in page] == (minted[::-1] if place == "dead" else minted)


@pytest.mark.slow
def test_several_queues_are_merged_by_time_down_to_a_bound_and_the_page_says_so(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MERGED", 120)
    first = filling.crowd(client, "dead", 100, queue="default")
    second = filling.crowd(client, "dead", 100, queue="mail", first_ms=1_700_000_000_001)
    page = boss.get(LIST)
    assert listed(page) == [job_id for pair in zip(second[::-1], first[::-1], strict=True) for job_id in pair][:50]
    assert page.context["cl"].result_count == 200
    assert "The list of several queues ends after 120 jobs." in Page(page).text
    assert len(listed(boss.get(LIST, {"p": 3}))) == 20
    assert boss.get(LIST, {"p": 4}).status_code == 302
    assert "ends after" not in Page(boss.get(LIST, {"queue": "mail"})).text


# The date hierarchy.


def test_the_date_hierarchy_offers_only_years_months_and_days_that_have_jobs(boss: Client, client: redis.Redis) -> None:
    at = [datetime(2024, 3, 5, 12), datetime(2024, 3, 9, 12), datetime(2024, 11, 5, 12), datetime(2026, 1, 5, 12)]
    for number, moment in enumerate(at, 1):
        job_id = ids.brand("JOB", number)
        client.zadd(keys.of("default").dead, {job_id: timezone.make_aware(moment).timestamp() * 1000})
    links = Page(boss.get(LIST)).links
    assert "?at__year=2024" in links
    assert "?at__year=2026" in links
    assert "?at__year=2025" not in links
    links = Page(boss.get(LIST, {"at__year": 2024})).links
    assert {link for link in links if "at__month" in link} == {
        "?at__month=3&at__year=2024", "?at__month=11&at__year=2024"
    }  # fmt: skip
    page = boss.get(LIST, {"at__year": 2024, "at__month": 3})
    days = {link for link in Page(page).links if "at__day" in link}
    assert days == {f"?at__day={day}&at__month=3&at__year=2024" for day in (5, 9)}
    assert listed(page) == [ids.brand("JOB", 2), ids.brand("JOB", 1)]
    page = boss.get(LIST, {"at__year": 2024, "at__month": 3, "at__day": 9})
    assert listed(page) == [ids.brand("JOB", 2)]
    assert page.context["cl"].result_count == 1


def test_the_days_of_all_queues_are_counted_in_one_round_trip(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips: list[int] = []
    exchange = ServerClient.exchange

    def listening(self: ServerClient, commands: Any) -> Any:
        trips.append(len(commands))
        return exchange(self, commands)

    for number in range(1, 9):
        filling.crowd(client, "dead", 40, queue=f"q{number}", rows=0)
    monthly = {"at__year": 2023, "at__month": 11}
    boss.get(LIST, monthly)
    monkeypatch.setattr(ServerClient, "exchange", listening)
    monkeypatch.setattr(dates, "periods", lambda *_: [])
    boss.get(LIST, monthly)
    without = len(trips)
    monkeypatch.undo()
    monkeypatch.setattr(ServerClient, "exchange", listening)
    trips.clear()
    page = boss.get(LIST, monthly)
    assert len([link for link in Page(page).links if "at__day" in link]) == 17
    assert len(trips) == without + 1
    assert max(trips) == 8 * 17


def test_a_long_name_and_a_long_error_are_cut_in_the_list_and_beside_it(boss: Client) -> None:
    filling.dead(error=ValueError("e" * 300), name="n" * 300)
    page = Page(boss.get(LIST))
    assert f"{'n' * 79}…" in page.text
    assert f"{'n' * 79}… (1)" in page.text
    assert "n" * 80 not in page.text
    assert f"ValueError: {'e' * 67}…" in page.text


def test_scores_that_were_written_by_hand_do_not_make_the_date_hierarchy_long(
    boss: Client, client: redis.Redis, asked: list[Any]
) -> None:
    dead = keys.of("default").dead
    client.zadd(dead, {ids.brand("JOB", 1): 0, ids.brand("JOB", 2): 253_000_000_000_000, ids.brand("JOB", 3): 1e15})
    assert boss.get(LIST).status_code == 200
    client.zrem(dead, ids.brand("JOB", 3))
    asked.clear()
    page = boss.get(LIST)
    assert len(listed(page)) == 2
    assert len(asked) < 100
    client.zadd(dead, {ids.brand("JOB", 4): "inf", ids.brand("JOB", 5): "-inf"})
    assert len(listed(boss.get(LIST))) == 4


def test_pending_has_no_date_hierarchy(boss: Client) -> None:
    filling.pending()
    assert not [link for link in Page(boss.get(LIST, {"location": "pending"})).links if "at__" in link]


# Search.


@pytest.mark.parametrize("place", [*PLACES, "completed"])
def test_an_id_finds_its_job_in_every_place_at_a_cost_that_does_not_grow(
    boss: Client, client: redis.Redis, asked: list[Any], place: str
) -> None:
    made = {
        "dead": filling.dead, "schedule": filling.scheduled, "active": lambda: filling.active().id,
        "completed": filling.completed, "pending": filling.pending,
    }  # fmt: skip
    job_id = made[place]()
    boss.get(LIST, {"q": job_id})
    asked.clear()
    page = boss.get(LIST, {"q": f" {job_id} "})
    few = len(asked)
    assert listed(page) == [job_id]
    assert place.removesuffix("ule").removesuffix("pleted") in Page(page).text
    for crowded in ("schedule", "active"):
        filling.crowd(client, crowded, 3000)
    asked.clear()
    boss.get(LIST, {"q": job_id})
    assert len(asked) == few


def test_an_id_that_no_queue_has_is_answered_in_a_sentence(boss: Client) -> None:
    assert "No queue has a job with this ID" in Page(boss.get(LIST, {"q": ids.mint()})).text


def test_text_is_looked_for_in_task_error_and_arguments(boss: Client) -> None:
    task, error = filling.dead(name="shop.PayBill"), filling.dead(error=ValueError("bill is gone"))
    arguments = filling.dead({"bill": 7})
    filling.dead("nothing")
    assert listed(boss.get(LIST, {"q": "BILL"})) == [arguments, error, task]


def test_arguments_are_searched_only_for_those_who_may_see_them(user_with: Any) -> None:
    filling.dead({"card": "4111"})
    assert listed(user_with("view_job").get(LIST, {"q": "4111"})) == []
    assert len(listed(user_with("view_job", "view_job_payload").get(LIST, {"q": "4111"}))) == 1


def test_a_search_looks_at_a_window_and_offers_to_go_on(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Complaint 35: no search, or one that walked everything.
    monkeypatch.setattr(listing, "WINDOW", 100)
    monkeypatch.setattr(listing, "PAYLOADS", 50)
    minted = filling.crowd(client, "dead", 250, queue="mail")
    client.hset(keys.of("mail").row(minted[0]), "name", "needle")
    client.hset(keys.of("mail").row(minted[-1]), "name", "needle")
    page = boss.get(LIST, {"q": "needle"})
    assert listed(page) == [minted[-1]]
    assert "Searched 100 of 250 jobs." in Page(page).text
    seen = listed(page)
    while older := page.context["cl"].searched["older"]:
        assert older in Page(page).links
        page = boss.get(LIST + older)
        seen += listed(page)
    assert seen == [minted[-1], minted[0]]
    assert "Searched 250 of 250 jobs." in Page(page).text


def test_a_search_over_several_queues_takes_turns_and_comes_to_an_end(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 100)
    first = filling.crowd(client, "dead", 150, queue="default", name="needle")
    second = filling.crowd(client, "dead", 20, queue="mail", first_ms=1_700_000_000_001, name="needle")
    query, seen = "?q=needle", []
    while query:
        page = boss.get(LIST + query)
        for number in page.context["cl"].paginator.page_range:
            seen += listed(boss.get(f"{LIST}{query}&p={number}"))
        query = page.context["cl"].searched["older"]
    assert sorted(seen) == sorted(first + second)


def test_a_search_stops_when_its_time_is_up(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    monkeypatch.setattr(listing, "BUDGET", 0)
    filling.crowd(client, "dead", 2000)
    page = boss.get(LIST, {"q": "needle"})
    assert "Searched 100 of 2,000 jobs." in Page(page).text


def test_choosing_something_else_begins_the_search_anew(boss: Client) -> None:
    filling.dead()
    filling.dead(queue="mail")
    links = Page(boss.get(LIST, {"q": "no", "skip": 1})).links
    assert not [link for link in links if "skip=" in link and "queue=" in link]


@pytest.fixture
def only_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.get_model_admin(Job), "text_search", False)


@pytest.mark.usefixtures("only_ids")
def test_a_site_that_searches_no_texts_looks_at_no_job_for_one_and_says_so(
    boss: Client, client: redis.Redis, asked: list[Any]
) -> None:
    # Complaint 8: a search that the server suffered from, and that nobody could switch off.
    job_id = filling.dead({"bill": 7}, name="bill")
    boss.get(LIST)
    asked.clear()
    answer = boss.get(LIST, {"q": "bill"})
    assert listed(answer) == []
    page = Page(answer)
    assert "Only IDs are looked for here" in page.text
    assert "Searched" not in page.text
    assert "any other text" not in page.text
    assert not [command for command in asked if command[0] == "HMGET"]
    found = boss.get(LIST, {"q": job_id})
    assert listed(found) == [job_id]
    assert "Only IDs" not in Page(found).text
    assert listed(boss.get(LIST, {"task": "bill"})) == [job_id]  # a choice of the sidebar is none


@pytest.mark.usefixtures("only_ids")
@pytest.mark.parametrize("action", ["remove_selected", "export_selected"])
def test_a_site_that_searches_no_texts_does_not_so_for_a_form_either(
    boss: Client, asked: list[Any], action: str
) -> None:
    filling.dead({"bill": 7}, name="bill")
    data = {
        "action": action, "index": "0", "select_across": "1", "_selected_action": "any",
        "cutoff": str(jobs.now_ms() + 60_000), "resume": "",
    }  # fmt: skip
    asked.clear()
    answer = boss.post(f"{LIST}?q=bill", data)
    assert not (answer.streaming and b"".join(answer.streaming_content))
    assert not [command for command in asked if command[0] == "HMGET"]
    assert jobs.counts("default").dead == 1


# Who sees which queues.


@pytest.fixture
def only_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(site.get_model_admin(Job)), "get_queue_names", lambda self, request: ["mail"])


@pytest.mark.usefixtures("only_mail")
def test_a_queue_that_the_user_may_not_see_is_in_no_list_no_count_and_no_search(boss: Client) -> None:
    hidden, shown = filling.dead(name="shop.pay"), filling.dead(queue="mail", name="mail.send")
    page = boss.get(LIST)
    assert listed(page) == [shown]
    assert sidebar(page) == {
        "location": ["Dead (1)", "Scheduled (0)", "Active (0)", "Pending (0)"],
        "queue": ["All", "mail (1)"], "task": ["All", "mail.send (1)"], "error": ["All", "ValueError (1)"],
    }  # fmt: skip
    assert listed(boss.get(LIST, {"q": hidden})) == []
    assert boss.get(LIST, {"queue": "default"}).status_code == 302


@pytest.mark.usefixtures("only_mail")
@pytest.mark.parametrize("page", ["change", "requeue", "advance", "payload", "delete", "history"])
def test_a_queue_that_the_user_may_not_see_has_no_page(boss: Client, page: str) -> None:
    key = f"default:{filling.dead({'secret': 1})}"
    answer = boss.get(f"{LIST}{key}/{page}/", follow=True)
    assert "Perhaps it was deleted?" in Page(answer).text
    assert b"secret" not in answer.content
    boss.post(f"{LIST}{key}/{page}/", {"post": "yes", "arguments": "1"})
    assert jobs.counts("default").dead == 1


@pytest.mark.usefixtures("only_mail")
@pytest.mark.parametrize("across", ["0", "1"])
def test_a_queue_that_the_user_may_not_see_is_spared_by_a_form_written_by_hand(boss: Client, across: str) -> None:
    hidden, shown = filling.dead(), filling.dead(queue="mail")
    data = {
        "action": "remove_selected", "select_across": across, "cutoff": str(jobs.now_ms()), "resume": "default:0",
        "_selected_action": [f"default:{hidden}", f"mail:{shown}"],
    }  # fmt: skip
    boss.post(LIST, data)
    assert (jobs.counts("default").dead, jobs.counts("mail").dead) == (1, 0)


def test_times_are_told_in_the_zone_of_the_site(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kathmandu"
    filling.dead()
    assert 'title="' in Page(boss.get(LIST)).html
    assert "+0545" in Page(boss.get(LIST)).html
