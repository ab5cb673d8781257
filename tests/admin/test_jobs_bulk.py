"""Many jobs at once: those that were ticked, and all that match, across thousands."""

from dataclasses import replace
from typing import Any

import pytest
import redis
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.test import Client

from echomq_django import ids, jobs, keys
from echomq_django.admin import bulk, listing, moves
from echomq_django.admin import jobs as job_pages
from echomq_django.exceptions import ServerUnavailable
from tests.admin import filling
from tests.admin.reading import Page, sent
from tests.admin.stored import dump

pytestmark = pytest.mark.slow

LIST = "/admin/echomq/job/"


def history() -> list[tuple[str, str, int, str]]:
    lines = LogEntry.objects.order_by("pk")
    return [(str(line.content_type), str(line.object_id), line.action_flag, line.change_message) for line in lines]


def choose(browser: Client, action: str, *keys: str, query: str = "", across: bool = False) -> Any:
    """Press "Go" on a list."""
    data = {
        "action": action, "index": "0", "select_across": "1" if across else "0",
        "_selected_action": list(keys) or ["any"],
    }  # fmt: skip
    return browser.post(LIST + query, data, follow=True)


def confirm(browser: Client, asking: Any, query: str = "") -> Any:
    """Press the button of a confirm page."""
    return browser.post(LIST + query, sent(Page(asking)), follow=True)


def test_ticked_jobs_are_named_before_anything_is_done_and_then_moved(boss: Client, client: redis.Redis) -> None:
    made = [filling.dead() for _ in range(3)]
    before = dump(client)
    asking = choose(boss, "requeue_selected", *(f"default:{job_id}" for job_id in made[:2]))
    page = Page(asking)
    assert "Requeue 2 dead jobs?" in page.text
    assert all(job_id in page.text for job_id in made[:2])
    assert made[2] not in page.text
    assert (dump(client), history()) == (before, [])
    done = confirm(boss, asking)
    assert "Requeued: 2 jobs." in Page(done).text
    assert {job.id for job in jobs.page("default", "pending")} == set(made[:2])
    lines = sorted(each[1:] for each in history())
    assert lines == sorted((f"default:{job_id}", CHANGE, "Requeued.") for job_id in made[:2])


def test_scheduled_jobs_are_run_now_and_any_are_removed(boss: Client) -> None:
    soon, other, waiting = filling.scheduled(), filling.scheduled(), filling.pending()
    confirm(boss, choose(boss, "advance_selected", f"default:{soon}", query="?location=schedule"), "?location=schedule")
    assert jobs.location("default", soon) == "pending"
    for place, job_id in (("schedule", other), ("pending", waiting)):
        query = f"?location={place}"
        confirm(boss, choose(boss, "remove_selected", f"default:{job_id}", query=query), query)
        assert jobs.location("default", job_id) is None
    assert [flag for _, _, flag, _ in history()] == [CHANGE, DELETION, DELETION]


@pytest.mark.parametrize(
    ("action", "place", "across"),
    [
        ("requeue_selected", "schedule", False), ("requeue_selected", "pending", True),
        ("advance_selected", "dead", False), ("advance_selected", "dead", True),
        ("remove_selected", "active", False), ("remove_selected", "active", True),
        ("remove_selected", "pending", True),
    ],
)  # fmt: skip
def test_an_action_in_another_place_does_nothing_and_says_so(
    boss: Client, client: redis.Redis, action: str, place: str, across: bool
) -> None:
    filling.dead(), filling.scheduled()
    job_id = filling.active().id if place == "active" else filling.pending()
    before = dump(client)
    for query in (f"?location={place}", *([f"?location={place}&q=p"] if across else [])):
        answer = choose(boss, action, f"default:{job_id}", query=query, across=across)
        assert "Nothing was done." in Page(answer).text
    data = {
        "action": action,
        "select_across": str(int(across)),
        "cutoff": "9" * 13,
        "_selected_action": f"default:{job_id}",
    }
    boss.post(f"{LIST}?location={place}", data)
    assert (dump(client), history()) == (before, [])


def test_each_place_offers_its_own_actions(boss: Client) -> None:
    def offered(place: str) -> set[str]:
        page = Page(boss.get(f"{LIST}?location={place}"))
        return {attrs["value"] or "" for tag, attrs in page.tags if tag == "option"} - {""}

    for make in (filling.dead, filling.scheduled, filling.pending):
        make()
    assert offered("dead") == {"requeue_selected", "remove_selected", "export_selected"}
    assert offered("schedule") == {"advance_selected", "remove_selected", "export_selected"}
    assert offered("pending") == {"remove_selected", "export_selected"}
    filling.active()
    assert offered("active") == {"export_selected"}  # and nobody is offered Django's own deletion: complaint 19


@pytest.mark.parametrize(
    ("action", "place", "permission"),
    [
        ("requeue_selected", "dead", "requeue_job"),
        ("advance_selected", "schedule", "advance_job"),
        ("remove_selected", "dead", "delete_job"),
    ],
)
@pytest.mark.parametrize("across", [False, True])
def test_an_action_needs_its_own_permission(
    user_with: Any, client: redis.Redis, action: str, place: str, permission: str, across: bool
) -> None:
    job_id = filling.dead() if place == "dead" else filling.scheduled()
    query = f"?location={place}"
    data = {
        "action": action, "select_across": str(int(across)), "cutoff": str(jobs.now_ms() + 1000),
        "_selected_action": f"default:{job_id}",
    }  # fmt: skip
    others = {"requeue_job", "advance_job", "delete_job", "change_job", "view_job_payload"} - {permission}
    before = dump(client)
    user_with("view_job", *others).post(LIST + query, data)
    assert user_with(*others - {"change_job"}, permission).post(LIST + query, data).status_code == 403  # sees no job
    assert (dump(client), history()) == (before, [])
    user_with("view_job", permission).post(LIST + query, data)
    assert dump(client) != before


def test_an_id_found_in_another_place_is_moved_by_where_it_is(boss: Client) -> None:
    # Complaint 20: act by id.
    job_id = filling.scheduled()
    query = f"?location=dead&q={job_id}"
    asking = choose(boss, "advance_selected", f"default:{job_id}", query=query)
    confirm(boss, asking, query)
    assert jobs.location("default", job_id) == "pending"
    answer = confirm(boss, choose(boss, "requeue_selected", f"default:{job_id}", query=query), query)
    assert "Requeued: 0 jobs, 1 was no longer there." in Page(answer).text


@pytest.mark.parametrize("across", [False, True])
def test_what_was_requeued_after_it_was_seen_among_the_dead_is_not_removed(
    boss: Client, monkeypatch: pytest.MonkeyPatch, across: bool
) -> None:
    stays, goes = filling.dead(), filling.dead()
    asking = choose(boss, "remove_selected", *(f"default:{each}" for each in (stays, goes)), across=across)
    remove = jobs.remove_many

    def late(*args: Any, **kwargs: Any) -> Any:
        jobs.requeue("default", stays)
        return remove(*args, **kwargs)

    monkeypatch.setattr(job_pages, "REMOVE", replace(moves.REMOVE, many=late))
    answer = confirm(boss, asking)
    assert "Removed: 1 job, 1 was no longer there." in Page(answer).text
    assert [job.id for job in jobs.page("default", "pending")] == [stays]
    assert jobs.counts("default").dead == 0


def test_an_id_that_was_found_is_removed_from_where_the_question_saw_it(boss: Client) -> None:
    job_id = filling.scheduled()
    query = f"?location=dead&q={job_id}"
    asking = choose(boss, "remove_selected", f"default:{job_id}", query=query)
    jobs.advance("default", job_id)
    answer = confirm(boss, asking, query)
    assert "Removed: 0 jobs, 1 was no longer there." in Page(answer).text
    assert jobs.location("default", job_id) == "pending"
    confirm(boss, choose(boss, "remove_selected", f"default:{job_id}", query=query), query)
    assert jobs.location("default", job_id) is None


def test_what_left_meanwhile_is_told_and_does_not_stop_the_rest(boss: Client, client: redis.Redis) -> None:
    # Complaint 14: it died half way when a job was gone.
    gone, stays, broken = filling.dead(), filling.dead(), filling.dead()
    asking = choose(boss, "requeue_selected", *(f"default:{each}" for each in (gone, "junk", stays, broken, stays)))
    jobs.remove("default", gone)
    client.delete(keys.of("default").row(broken))
    answer = confirm(boss, asking)
    assert "Requeued: 1 job, 3 were no longer there." in Page(answer).text
    assert [job.id for job in jobs.page("default", "pending")] == [stays]
    assert len(history()) == 1


def test_half_a_thousand_dead_without_rows_do_not_stop_requeueing_the_others(boss: Client, client: redis.Redis) -> None:
    # H6 of the bug log: ids whose record had expired.
    filling.crowd(client, "dead", 1200, rows=600)
    confirm(boss, choose(boss, "requeue_selected", across=True))
    counts = jobs.counts("default")
    assert (counts.pending, counts.dead, counts.quarantine) == (600, 0, 600)


def test_all_five_thousand_are_moved_in_several_requests_and_later_deaths_are_spared(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    # Complaints 14 to 17: memory, one by one, jobs that came later, and only those of the page.
    monkeypatch.setattr(bulk, "SECONDS", 0)
    filling.crowd(client, "dead", 5000, rows=5000)
    answer = choose(boss, "requeue_selected", across=True)
    page = Page(answer)
    assert "Requeue 5,000 dead jobs?" in page.text
    assert "are spared" in page.text
    assert not [attrs for _, attrs in page.tags if attrs.get("value") == "All"]
    # Complaint 19: one field for each job.
    assert len(page.fields) < 10
    late = [filling.dead() for _ in range(3)]
    requests = 0
    while sent(Page(answer)).get("cutoff"):
        asked.clear()
        answer = confirm(boss, answer)
        requests += 1
        assert jobs.counts("default").pending <= 500 * requests
        assert len(asked) < 1200
        if requests == 3:
            assert "1,500 jobs are done so far." in Page(answer).text
            assert "Requeue 3,500 dead jobs?" in Page(answer).text
            assert any(attrs.get("value") == "Continue" for _, attrs in Page(answer).tags)
    assert requests >= 10
    assert "Requeued: 5,000 jobs." in Page(answer).text
    counts = jobs.counts("default")
    assert (counts.pending, counts.dead) == (5000, 3)
    assert {job.id for job in jobs.page("default", "dead")} == set(late)
    lines = history()
    assert {line[:3] for line in lines} == {("EchoMQ | queue", "default", CHANGE)}
    assert lines[0][3] == "Requeued: 500 dead jobs"


def test_a_request_that_is_sent_twice_moves_no_job_twice(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SECONDS", 0)
    filling.crowd(client, "dead", 1200, rows=1200)
    asking = choose(boss, "remove_selected", across=True)
    for _ in range(5):
        confirm(boss, asking)
    assert client.keys("emq:{default}:*") == []
    assert sum(int(line[3].split()[1].replace(",", "")) for line in history()) == 1200


def test_only_what_matches_is_moved_however_far_it_lies(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SECONDS", 0)
    monkeypatch.setattr(listing, "WINDOW", 600)
    minted = filling.crowd(client, "dead", 3000, rows=3000)
    wanted = [*minted[:5], *minted[1500:1510], *minted[-5:]]
    for job_id in wanted:
        client.hset(keys.of("default").row(job_id), "name", "needle")
    query = "?task=needle"
    answer = choose(boss, "requeue_selected", query=query, across=True)
    text = Page(answer).text
    assert "Requeue every dead job that matches, of 3,000?" in text
    assert "They match: task needle." in text
    assert "5 of the first 1,000 match." in text
    while sent(Page(answer)).get("cutoff"):
        answer = confirm(boss, answer, query)
    assert "Requeued: 20 jobs." in Page(answer).text
    assert {job.id for job in jobs.page("default", "pending")} == set(wanted)
    assert jobs.counts("default").dead == 2980
    assert history()[0][3].endswith("(task needle)")


def test_a_day_can_be_moved_alone(boss: Client, client: redis.Redis) -> None:
    filling.crowd(client, "dead", 400, rows=400, days=40, first_ms=1_706_767_200_000)  # 1 February 2024
    query = "?at__year=2024&at__month=2"
    answer = choose(boss, "remove_selected", query=query, across=True)
    assert "Remove 290 dead jobs?" in Page(answer).text
    confirm(boss, answer, query)
    assert jobs.counts("default").dead == 110


def test_several_queues_are_moved_one_after_the_other(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "SECONDS", 0)
    filling.crowd(client, "dead", 700, rows=700)
    filling.crowd(client, "dead", 30, rows=30, queue="mail")
    answer = choose(boss, "requeue_selected", across=True)
    while sent(Page(answer)).get("cutoff"):
        answer = confirm(boss, answer)
    assert "Requeued: 730 jobs." in Page(answer).text
    assert {line[1] for line in history()} == {"default", "mail"}


def test_what_was_put_on_the_schedule_later_is_spared(boss: Client) -> None:
    early = [filling.scheduled() for _ in range(3)]
    query = "?location=schedule"
    asking = choose(boss, "advance_selected", query=query, across=True)
    late = filling.scheduled()
    answer = confirm(boss, asking, query)
    assert "Run now: 3 jobs." in Page(answer).text
    assert {job.id for job in jobs.page("default", "pending")} == set(early)
    assert [job.id for job in jobs.page("default", "schedule")] == [late]


def test_an_id_that_is_none_stays_and_stops_nothing(boss: Client, client: redis.Redis) -> None:
    client.zadd(keys.of("default").dead, {b"\xff<b>": 1, "x": 2})
    filling.dead()
    answer = confirm(boss, choose(boss, "requeue_selected", across=True))
    assert "Requeued: 1 job." in Page(answer).text
    assert jobs.counts("default").dead == 2


def test_what_was_done_before_the_server_went_away_is_in_the_history(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    filling.crowd(client, "dead", 1200, rows=1200)
    asking = choose(boss, "remove_selected", across=True)
    listed, calls = jobs.listed, []

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise ServerUnavailable("away")
        return listed(*args, **kwargs)

    monkeypatch.setattr("echomq_django.jobs.listed", failing)
    answer = confirm(boss, asking)
    assert answer.status_code == 503
    assert [line[3] for line in history()] == ["Removed: 1,000 dead jobs"]


@pytest.mark.parametrize("value", ["", "active", "nowhere", "\x00"])
def test_a_place_written_by_hand_breaks_nothing(boss: Client, value: str) -> None:
    filling.dead(), filling.pending()
    active = filling.active().id
    data = {
        "action": "remove_selected", "_selected_action": f"default:{active}", "cutoff": str(jobs.now_ms()),
        "seen": value,
    }  # fmt: skip
    answer = boss.post(LIST, data, follow=True)
    assert "Removed: 0 jobs, 1 was no longer there." in Page(answer).text
    assert jobs.location("default", active) == "active"


@pytest.mark.parametrize("field", ["cutoff", "done", "missed", "resume"])
@pytest.mark.parametrize("value", ["", "-1", "abc", "<script>", "nowhere:7", "default:x", "9" * 40, "\x00"])
def test_a_form_written_by_hand_breaks_nothing(boss: Client, field: str, value: str) -> None:
    filling.dead()
    data = {
        "action": "requeue_selected", "select_across": "1", "_selected_action": "all",
        "cutoff": str(jobs.now_ms()), field: value,
    }  # fmt: skip
    answer = boss.post(LIST, data, follow=True)
    assert answer.status_code == 200
    assert b'<script>"' not in answer.content


def test_nothing_that_matches_is_said_and_nothing_that_is_ticked_too(boss: Client) -> None:
    filling.dead()
    assert "Requeue 0 dead jobs?" in Page(choose(boss, "requeue_selected", f"nowhere:{ids.mint()}")).text
    answer = boss.post(LIST, {"action": "requeue_selected", "index": "0", "select_across": "0"}, follow=True)
    assert "Items must be selected" in Page(answer).text
