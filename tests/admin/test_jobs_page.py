"""The page of a job: what it shows of a job in each place, and to whom."""

import json
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.test import Client

from echomq_django import ids, jobs, keys
from echomq_django.admin.arguments import SHOWN_LIMIT
from echomq_django.admin.showing import visible
from echomq_django.tasks import task
from tests import tasks
from tests.admin import filling
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


def test_an_id_whose_row_is_missing_is_listed_without_a_link_and_can_be_removed(
    boss: Client, client: redis.Redis
) -> None:
    job_id = filling.dead()
    client.delete(ROW(job_id))
    page = Page(boss.get(LIST))
    assert job_id in page.text
    assert "?" in page.text
    assert not [link for link in page.links if job_id in link]
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
