"""The page of a job: what it shows of a job in each place, and to whom."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib import admin
from django.test import Client, RequestFactory

from echomq_django import ids, jobs, keys
from echomq_django.admin.arguments import SHOWN_LIMIT
from echomq_django.admin.showing import PLACE_WORDS, visible
from echomq_django.job import Location
from echomq_django.models import Job
from echomq_django.tasks import task
from tests import tasks
from tests.admin import filling, scene
from tests.admin.reading import Page

pytestmark = pytest.mark.slow

LIST = "/admin/echomq/job/"
ROW = keys.of(filling.QUEUE).row


def url(job_id: str, page: str = "change", queue: str = filling.QUEUE) -> str:
    return f"{LIST}{queue}:{job_id}/{page}/"


def show(browser: Client, job_id: str) -> Page:
    answer = browser.get(url(job_id))
    assert answer.status_code == 200
    return Page(answer)


def buttons(page: Page) -> set[str]:
    """Give the pages to which the buttons lead."""
    names = {
        link.rstrip("/").rpartition("/")[2] for link in page.links if "/job/default:" in link or "/default_3A" in link
    }
    return names - {"history", "change"}


def test_a_dead_job_shows_its_identity_times_arguments_and_attempts(boss: Client) -> None:
    job_id = filling.dead_task(17, copy=True, error=ValueError("no such order"))
    page = show(boss, job_id)
    for text in (
        job_id, "tests.tasks.echo", "default", "dead", "1 of 5", "Fencing token: 1", "Lost leases: 0",
        '"args": [ 17 ]', '"copy": true', "Attempt 1", "builtins.ValueError", "ValueError: no such order",
    ):  # fmt: skip
        assert text in page.text
    assert "raise error if isinstance" in page.text  # a line of the traceback: complaint 5
    assert "Died: " in page.text
    assert " ago (" in page.text
    assert page.text.count("CST)") + page.text.count("CDT)") >= 2  # an absolute time has its zone


def test_an_active_job_shows_its_lease_its_worker_its_token_and_what_it_says(boss: Client) -> None:
    tasks.about.enqueue()
    [claim] = jobs.claim(filling.QUEUE, lease=timedelta(minutes=5))
    client = redis.Redis.from_url(_location())
    client.hset(ROW(claim.id), "progress", '{"done": 1, "total": 2, "note": "half"}')
    client.rpush(keys.of(filling.QUEUE).logs(claim.id), "a line", "another")
    page = show(boss, claim.id)
    for text in (
        "Lease ends: in 4 minutes", f"Worker: {claim.owner.rpartition(':')[0]}", "Fencing token: 1",
        "1 / 2 (50 %) half", "a line another",
    ):  # fmt: skip
        assert text in page.text.replace("\xa0", " ")


def test_arguments_that_can_be_edited_are_shown_once_and_all_others_once_too(boss: Client, user_with: Any) -> None:
    job_id = filling.dead_task(17)
    page = show(boss, job_id)
    assert "textarea" in page.html
    assert page.text.count('"args": [ 17 ]') == 1
    page = show(user_with("view_job", "view_job_payload"), job_id)
    assert "textarea" not in page.html
    assert page.text.count('"args": [ 17 ]') == 1


def attempt(page: Page, number: int = 1) -> str:
    """Give the line of an attempt, up to its traceback."""
    return page.text.partition(f"Attempt {number} ")[2].partition(" Traceback")[0]


def test_an_attempt_is_told_once_and_what_is_not_known_of_it_is_left_out(boss: Client) -> None:
    job_id = filling.dead_task(17, error=ValueError("no such order"))
    [record] = jobs.get(filling.QUEUE, job_id).errors
    assert (record.started_at, record.finished_at) == (0, 0)  # as it is of a claim that the application settles
    assert attempt(show(boss, job_id)) == f"· {record.worker} builtins.ValueError: no such order"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            {"error": "a.b.E", "message": "E: x", "started_at": 1_000, "finished_at": 4_000},
            "· after 3 seconds a.b.E: x",
        ),
        ({"error": "a.b.E", "message": "E: x", "started_at": 1_000}, "· started "),
        ({"error": "a.b.E", "message": "x", "finished_at": 1_000}, ") a.b.E: x"),
        ({"error": "a.b.E", "message": "Etwas"}, "a.b.E: Etwas"),
        ({"error": "a.b.E", "message": ""}, "a.b.E"),
        ({"error": "error", "message": "ValueError: x"}, "ValueError: x"),
        ({"error": "crashed", "message": ""}, "crashed: its worker was lost"),
        ({"error": "", "message": "x"}, "x"),
    ],
)
def test_an_attempt_is_told_by_what_its_record_has(
    boss: Client, client: redis.Redis, record: dict[str, Any], words: str
) -> None:
    job_id = filling.dead()
    errors = keys.of(filling.QUEUE).errors(job_id)
    client.delete(errors)
    client.rpush(errors, json.dumps({"attempt": 7, **record}))
    line = attempt(show(boss, job_id), 7).partition(" Arguments")[0].partition(" Edit and requeue")[0]
    assert words in line
    assert line.count("E: x") <= 1
    assert "—" not in line


def test_a_dead_job_tells_its_last_error_and_leads_to_those_that_died_of_it(boss: Client) -> None:
    # A job that another program buried has no records, only this.
    filling.dead(error=KeyError("other"))
    alike = [filling.dead(error=ValueError(text)) for text in ("one", "two")]
    page = show(boss, alike[0])
    assert "Last error: ValueError: one" in page.text
    [link] = [each for each in page.links if "error=" in each]
    assert {shape.job_id for shape in boss.get(link).context["cl"].result_list} == set(alike)


def test_a_job_says_what_comes_next(boss: Client, client: redis.Redis, settings: Any) -> None:
    settings.ECHOMQ = {"default": {**settings.ECHOMQ["default"], "QUEUES": {"default": {"DEAD_TTL": 86_400 * 3}}}}
    dead, scheduled, pending = filling.dead(), filling.scheduled(), filling.pending()
    page = show(boss, dead)
    assert "Next: nothing runs it until it is requeued" in page.text
    assert "Forgotten: in 2 days, 23 hours" in page.text.replace("\xa0", " ")
    assert "Next: no living worker serves its queue" in show(boss, pending).text
    scene.announce(client, "web-1:1:a", "mail,default", silent=1)
    assert "Next: a worker claims it when it is its turn" in show(boss, pending).text
    assert "Next: attempt 1 of 5" in show(boss, scheduled).text
    jobs.pause(filling.QUEUE)
    for job_id in (scheduled, pending):
        assert "Next: nobody claims it while its queue is paused" in show(boss, job_id).text


def test_an_active_job_says_when_its_worker_was_heard(boss: Client, client: redis.Redis) -> None:
    claim = filling.active()
    worker = claim.owner.rpartition(":")[0]
    assert f"Worker: {worker} (has not announced itself)" in show(boss, claim.id).text
    scene.announce(client, worker, "default", silent=1)
    assert re.search(rf"Worker: {worker} \(heard \d+ seconds? ago\)", show(boss, claim.id).text)
    scene.announce(client, worker, "default", silent=3000)
    assert f"Worker: {worker} (silent for 50 minutes: stale)" in show(boss, claim.id).text.replace("\xa0", " ")


def _location() -> str:
    from django.conf import settings  # noqa: PLC0415

    location: str = settings.ECHOMQ["default"]["LOCATION"]
    return location


def test_a_completed_job_shows_its_result_while_it_is_kept(boss: Client) -> None:
    page = show(boss, filling.completed(result={"sum": [3]}))
    assert "completed" in page.text
    assert '"sum": [ 3 ]' in page.text
    assert "Finished: " in page.text


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (filling.dead, {"requeue", "payload", "delete"}),
        (filling.scheduled, {"advance", "payload", "delete"}),
        (filling.pending, {"payload", "delete"}),
        (lambda: filling.active().id, {"payload"}),
        (filling.completed, {"payload"}),
    ],
)
def test_each_place_has_its_buttons(boss: Client, make: Any, expected: set[str]) -> None:
    assert buttons(show(boss, make())) == expected


@pytest.mark.parametrize(
    ("permission", "expected"),
    [
        ("requeue_job", {"requeue"}),
        ("delete_job", {"delete"}),
        ("view_job_payload", {"payload"}),
        ("advance_job", set()),
    ],
)
def test_each_button_is_for_those_who_may(user_with: Any, permission: str, expected: set[str]) -> None:
    job_id = filling.dead()
    assert buttons(show(user_with("view_job"), job_id)) == set()
    assert buttons(show(user_with("view_job", permission), job_id)) == expected


# Arguments.


def test_arguments_results_and_notes_are_hidden_from_those_who_may_not_see_them(
    user_with: Any, client: redis.Redis
) -> None:
    job_id = filling.completed({"secret": 1}, result="secret")
    client.hset(keys.of(filling.QUEUE).result(job_id), "progress", "secret")
    client.rpush(keys.of(filling.QUEUE).result_logs(job_id), "secret")
    page = show(user_with("view_job"), job_id)
    assert "secret" not in page.html
    assert "Hidden: seeing it needs the permission" in page.text
    assert "secret" in show(user_with("view_job", "view_job_payload"), job_id).text


def test_long_arguments_are_cut_and_can_be_had_whole_as_a_file(boss: Client) -> None:
    body = json.dumps({"text": "x" * 3_000_000}).encode()
    job_id = filling.dead(body)
    answer = boss.get(url(job_id))
    assert len(answer.content) < SHOWN_LIMIT + 50_000
    assert "This is not all" in Page(answer).text
    file = boss.get(url(job_id, "payload"))
    assert file.content == body
    assert file["Content-Type"] == "text/plain; charset=utf-8"
    assert file["Content-Disposition"] == f'attachment; filename="{job_id}.txt"'
    assert file["X-Content-Type-Options"] == "nosniff"


def test_a_list_never_reads_what_may_be_long(boss: Client, asked: list[Any]) -> None:
    # Complaints 6 and 7: one large payload on a page made the whole list slow.
    for _ in range(3):
        filling.dead(b"x" * 1_000_000)
    asked.clear()
    page = boss.get(LIST)
    assert len(page.content) < 100_000
    assert not [command for command in asked if command[0] == "HGETALL"]
    for command in asked:
        assert not {"payload", "result", "checkpoint"} & set(command)


def redact(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    return [f"{name}: {len(args)}"], {**kwargs, "card": "****"} if "card" in kwargs else kwargs


def broken(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    raise TypeError(f"4111 {args} {kwargs}")


def unprintable(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    return {1: args, (2,): "4111"}, kwargs


def _redact_with(settings: Any, name: str) -> None:
    settings.ECHOMQ = {"default": {**settings.ECHOMQ["default"], "REDACT": f"{__name__}.{name}"}}


def test_what_is_redacted_is_in_no_page_no_search_and_no_file(boss: Client, settings: Any) -> None:
    # Complaint 26: secrets in arguments.
    _redact_with(settings, "redact")
    job_id = filling.dead_task(17, card="4111", name="Ada")
    page = show(boss, job_id)
    assert '"card": "****"' in page.text
    assert "tests.tasks.echo: 1" in page.text
    file = boss.get(url(job_id, "payload")).content
    assert b"****" in file
    for text in (page.html, file.decode()):
        assert "4111" not in text
    assert not boss.get(LIST, {"q": "4111"}).context["cl"].result_list
    assert boss.get(LIST, {"q": "Ada"}).context["cl"].result_list


def test_what_is_redacted_cannot_be_edited(boss: Client, settings: Any) -> None:
    # Or stars would be enqueued.
    _redact_with(settings, "redact")
    job_id = filling.dead_task(17, card="4111")
    assert "textarea" not in show(boss, job_id).html
    assert boss.post(url(job_id), {"arguments": '{"args": [], "kwargs": {}}'}).status_code == 403


@pytest.mark.parametrize("name", ["broken", "unprintable"])
@pytest.mark.parametrize("payload", [b"4111", b'"4111"', b"\xff4111"])
def test_a_redaction_that_fails_hides_everything(boss: Client, settings: Any, name: str, payload: bytes) -> None:
    _redact_with(settings, name)
    job_id = filling.dead(payload)
    for text in (show(boss, job_id).html, boss.get(url(job_id, "payload")).content.decode()):
        assert "4111" not in text
        assert "Hidden: REDACT" in text
    assert not boss.get(LIST, {"q": "4111"}).context["cl"].result_list


# Data that is odd.


@pytest.mark.parametrize(
    "payload",
    [
        b"\x80\x04junk", b"", b"null", b"[" * 5_000, b"1" * 5_000, b"\xed\xa0\x80", b'{"v": 1, "task": "os.system"}',
        b'{"v": 2}', b'"\\ud800"', b"NaN", b'{"a":' * 900 + b"1" + b"}" * 900,
    ],
)  # fmt: skip
def test_a_payload_that_nobody_can_read_is_shown_as_it_is(
    boss: Client, payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Complaints 1, 2 and 3: nothing that a payload names is imported or called.
    monkeypatch.setattr("os.system", lambda *_: pytest.fail("called"))
    job_id = filling.dead(payload)
    assert boss.get(LIST).status_code == 200
    page = show(boss, job_id)
    assert payload.startswith(b"{") or visible(payload.decode(errors="backslashreplace"))[:500] in page.text
    assert boss.get(url(job_id, "payload")).content == payload
    assert boss.get(LIST, {"q": "needle"}).status_code == 200


@task
def at_import() -> None:
    """Be named by a payload whose module must not be imported."""


@pytest.mark.parametrize("module", ["no.such.module", "tests.broken"])
def test_a_task_whose_module_is_missing_or_breaks_is_shown_and_not_imported(boss: Client, module: str) -> None:
    job_id = filling.dead({"v": 1, "task": f"{module}.name", "args": [1]}, name=f"{module}.name")
    assert f"{module}.name" in Page(boss.get(LIST)).text
    assert '"args": [ 1 ]' in show(boss, job_id).text


@pytest.mark.parametrize("missing", ["state", "attempts", "payload", "name", "last_error", "owner", "died_at"])
def test_a_row_may_lack_anything(boss: Client, client: redis.Redis, missing: str) -> None:
    job_id = filling.dead(name="shop.pay")
    client.hdel(ROW(job_id), missing)
    assert job_id in Page(boss.get(LIST)).text
    show(boss, job_id)


def test_a_row_of_another_kind_does_not_break_the_list(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead()
    client.delete(ROW(job_id))
    client.rpush(ROW(job_id), "what")
    assert job_id in Page(boss.get(LIST)).text
    show(boss, job_id)


def lose(client: redis.Redis, job_id: str, kind: str) -> None:
    """Take a job's row away, or put what is none in its place."""
    client.delete(ROW(job_id))
    if kind == "no hash":
        client.rpush(ROW(job_id), "what")


HOLLOW = {
    "dead": (filling.dead, "Died: ", {"delete"}),
    "schedule": (filling.scheduled, "Runs: ", {"delete"}),
    "pending": (filling.pending, "Enqueued: ", {"delete"}),
    "active": (lambda: filling.active().id, "Lease ends: ", set()),
}


@pytest.mark.parametrize("kind", ["missing", "no hash"])
@pytest.mark.parametrize("place", HOLLOW)
def test_an_id_without_a_row_has_a_page_that_says_what_is_known(
    boss: Client, client: redis.Redis, place: str, kind: str
) -> None:
    make, time, expected = HOLLOW[place]
    job_id = make()
    lose(client, job_id, kind)
    listed = Page(boss.get(LIST, {"location": place}))
    assert "?" in listed.text
    [link] = {each.partition("?")[0] for each in listed.links if job_id in each}
    page = Page(boss.get(link))
    for text in (job_id, "Queue: default", f"Place: {PLACE_WORDS[Location(place)]}", time, "Its row is missing"):
        assert text in page.text
    for text in ("Attempts:", "Fencing token:", "Arguments", "Next:"):
        assert text not in page.text
    assert buttons(page) == expected
    assert [shape.job_id for shape in boss.get(LIST, {"q": job_id}).context["cl"].result_list] == [job_id]


@pytest.mark.parametrize("kind", ["missing", "no hash"])
@pytest.mark.parametrize("place", ["dead", "schedule", "pending"])
def test_an_id_without_a_row_can_be_removed_on_its_page(
    boss: Client, client: redis.Redis, place: str, kind: str
) -> None:
    job_id = HOLLOW[place][0]()
    lose(client, job_id, kind)
    assert "Remove" in Page(boss.get(url(job_id, "delete"))).text
    assert f"Removed: {job_id}." in Page(boss.post(url(job_id, "delete"), {"post": "yes"}, follow=True)).text
    assert getattr(jobs.counts("default"), place) == 0
    assert "Perhaps it was deleted?" in Page(boss.get(url(job_id), follow=True)).text


def test_the_error_records_of_an_id_without_a_row_are_known_too(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead(error=ValueError("no such order"))
    lose(client, job_id, "missing")
    assert "ValueError: no such order" in show(boss, job_id).text


def test_an_id_without_a_row_is_found_by_nobody_who_may_not_see_its_queue(client: redis.Redis) -> None:
    job_id = filling.dead()
    lose(client, job_id, "missing")
    page = admin.site.get_model_admin(Job)

    class Blind(type(page)):  # type: ignore[misc]
        def get_queue_names(self, request: Any) -> list[str]:
            return ["mail"]

    for cls, found in ((type(page), True), (Blind, False)):
        shape = cls(Job, admin.site).get_object(RequestFactory().get("/"), f"default:{job_id}")
        assert (shape is not None) == found


def test_an_id_without_a_row_is_removed_from_the_list(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead()
    lose(client, job_id, "missing")
    boss.post(
        LIST, {"action": "remove_selected", "cutoff": str(jobs.now_ms()), "_selected_action": [f"default:{job_id}"]}
    )
    assert jobs.counts("default").dead == 0


def test_an_error_record_of_another_program_is_shown_as_it_is(boss: Client, client: redis.Redis) -> None:
    job_id = filling.dead()
    for record in (
        b"\xffjunk",
        b"[]",
        b'{"error": ["a"], "attempt": "x", "finished_at": 99999999999999999}',
        b"[" * 9999,
    ):
        client.rpush(keys.of(filling.QUEUE).errors(job_id), record)
    assert "\\xffjunk" in show(boss, job_id).text


@pytest.mark.parametrize(
    "text", ["junk", "[]", '{"done": "x"}', '{"done": 1, "total": 0}', '{"done": 1e999, "total": 1e999}']
)
def test_a_progress_of_another_program_is_shown_as_it_is(boss: Client, client: redis.Redis, text: str) -> None:
    claim = filling.active()
    client.hset(ROW(claim.id), "progress", text)
    show(boss, claim.id)


@pytest.mark.parametrize("score", [0, 1e15, 253_402_300_799_000, "inf", "-inf", -1e15, 253_339_228_799_999])
def test_a_time_beyond_all_dates_is_no_time(boss: Client, client: redis.Redis, score: Any) -> None:
    job_id = filling.dead()
    client.zadd(keys.of(filling.QUEUE).dead, {job_id: score})
    assert job_id in Page(boss.get(LIST)).text
    show(boss, job_id)


@pytest.mark.parametrize("page", ["change", "requeue", "advance", "payload", "delete", "history"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_job_that_is_gone_is_missed_in_djangos_own_words(boss: Client, page: str, method: str) -> None:
    # Complaint 4: it was an error 500.
    for key in (f"default:{ids.mint()}", "default:x", f"nowhere:{ids.mint()}", "x", "a_b:_", "{emq}:queues"):
        answer = getattr(boss, method)(f"{LIST}{key}/{page}/", {"post": "yes"})
        assert answer.status_code == 302, (key, answer)
        assert "Perhaps it was deleted?" in Page(boss.get(answer["Location"])).text
