"""Jobs as a file of JSON Lines: what is in it, for whom, and how it ends when it is not whole."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from django.contrib.admin import site
from django.contrib.admin.models import CHANGE, LogEntry
from django.test import Client
from django.utils import timezone

from echomq_django import ids, jobs, keys
from echomq_django.admin import exporting
from echomq_django.exceptions import ServerUnavailable
from echomq_django.models import Job
from tests.admin import filling
from tests.server import dump

LIST = "/admin/echomq/job/"


def hide(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return ["…" for _ in args], dict.fromkeys(kwargs, "…")


def fail(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise KeyError(args)


def export(browser: Client, *chosen: str, query: str = "", across: bool = False) -> Any:
    data = {
        "action": "export_selected", "index": "0", "select_across": "1" if across else "0",
        "_selected_action": list(chosen) or ["any"],
    }  # fmt: skip
    return browser.post(LIST + query, data)


def lines(answer: Any) -> list[dict[str, Any]]:
    """Read a file, as a program does."""
    assert answer.status_code == 200
    text = b"".join(answer.streaming_content).decode("ascii")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def history() -> list[tuple[str, str, int, str]]:
    found = LogEntry.objects.order_by("pk")
    return [(str(line.content_type), str(line.object_id), line.action_flag, line.change_message) for line in found]


def test_ticked_jobs_are_given_with_all_that_the_list_knows_and_their_arguments(
    boss: Client, client: redis.Redis
) -> None:
    job_id = filling.dead({"order": 7}, ValueError("no\u2028address"), queue="mail", name="shop.pay", max_attempts=3)
    other = filling.dead(queue="mail")
    client.zadd(keys.of("mail").dead, {job_id: 1_700_000_000_123})
    before = dump(client)
    answer = export(boss, f"mail:{job_id}")
    [line] = lines(answer)
    assert answer["Content-Type"] == "application/jsonl"
    day = timezone.localdate().isoformat()
    assert answer["Content-Disposition"] == f'attachment; filename="echomq-dead-{day}.jsonl"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    for name in ("enqueued_at", "started_at"):
        at = datetime.fromisoformat(line.pop(name))
        assert at.tzinfo == UTC
        assert abs(at.timestamp() * 1000 - jobs.now_ms()) < 60_000
    assert line == {
        "id": job_id, "queue": "mail", "place": "dead", "name": "shop.pay", "attempts": 1, "max_attempts": 3,
        "time": "2023-11-14T22:13:20.123000+00:00", "error": "ValueError: no\u2028address",
        "arguments": {"order": 7},
    }  # fmt: skip
    assert dump(client) == before
    assert other not in str(line)
    assert history() == [("EchoMQ | queue", "mail", CHANGE, "Exported: 1 dead job")]


@pytest.mark.parametrize("place", ["dead", "schedule", "active", "pending"])
def test_all_of_a_place_are_given_in_its_order_queue_by_queue(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(exporting, "PAYLOADS", 20)
    first = filling.crowd(client, place, 70, queue="default")
    second = filling.crowd(client, place, 30, queue="mail")
    asked = [] if place != "dead" else [first[::-1], second[::-1]]
    wanted = [job_id for each in asked or [first, second] for job_id in each]
    found = lines(export(boss, query=f"?location={place}", across=True))
    assert [line["id"] for line in found] == wanted
    assert {line["place"] for line in found} == {place}
    word = {"schedule": "scheduled"}.get(place, place)
    assert [line[1:] for line in history()] == [
        ("default", CHANGE, f"Exported: 70 {word} jobs"), ("mail", CHANGE, f"Exported: 30 {word} jobs")
    ]  # fmt: skip


def test_what_is_filtered_is_what_is_given_and_the_history_tells_the_filter(boss: Client) -> None:
    pay = filling.dead(name="shop.pay", error=KeyError("a"), queue="mail")
    filling.dead(name="shop.ship")
    needle = filling.dead({"find": "needle"})
    assert [line["id"] for line in lines(export(boss, query="?task=shop.pay", across=True))] == [pay]
    assert [line["id"] for line in lines(export(boss, query="?q=needle", across=True))] == [needle]
    assert [line["id"] for line in lines(export(boss, query=f"?q={pay}&queue=mail", across=True))] == [pay]
    assert lines(export(boss, query="?at__year=2001", across=True)) == []
    assert [line[3] for line in history()] == [
        "Exported: 1 dead job (task shop.pay)", "Exported: 1 dead job (text needle)",
        f"Exported: 1 dead job (text {pay})",
    ]  # fmt: skip


def test_arguments_are_given_only_to_those_who_may_see_them_and_are_not_even_read(
    user_with: Any, asked: list[Any]
) -> None:
    job_id = filling.dead({"card": "4111"})
    for chosen, across in (((f"default:{job_id}",), False), ((), True)):
        asked.clear()
        [line] = lines(export(user_with("view_job"), *chosen, across=across))
        assert "arguments" not in line
        assert "4111" not in str(line)
        assert not across or not [command for command in asked if "payload" in command]
        [line] = lines(export(user_with("view_job", "view_job_payload"), *chosen, across=across))
        assert line["arguments"] == {"card": "4111"}


def test_who_may_not_see_jobs_gets_no_file(user_with: Any) -> None:
    job_id = filling.dead({"card": "4111"})
    for held in (("view_queue",), ("view_job_payload",)):
        answer = export(user_with(*held), f"default:{job_id}")
        assert answer.status_code == 403
    assert history() == []


def test_a_file_is_asked_for_with_a_token(boss: Client) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = boss.cookies
    assert export(careful, f"default:{filling.dead()}").status_code == 403


@pytest.mark.parametrize("across", [False, True])
def test_what_is_redacted_is_in_no_file(boss: Client, settings: Any, across: bool) -> None:
    job_id = filling.dead_task("4111", cvc="999", error="ValueError: no")
    raw = filling.dead("card 4111, no JSON")
    for path, task, text in (
        ("hide", {"args": ["…"], "kwargs": {"cvc": "…"}}, {"args": ["…"], "kwargs": {}}),
        ("fail", "Hidden: REDACT raised KeyError.", "Hidden: REDACT raised KeyError."),
    ):
        settings.ECHOMQ = {"default": {**settings.ECHOMQ["default"], "REDACT": f"{__name__}.{path}"}}
        found = lines(export(boss, f"default:{job_id}", f"default:{raw}", across=across))
        assert {line["id"]: line["arguments"] for line in found} == {job_id: task, raw: text}
        assert "4111" not in str(found)
        assert "999" not in str(found)


@pytest.mark.parametrize(
    ("payload", "arguments"),
    [
        (b"\xff\x00<b>", "\\xff\x00<b>"),
        (b'{"a": NaN}', '{\n  "a": NaN\n}'),
        (b"[" * 5000 + b"]" * 5000, "[" * 5000 + "]" * 5000),
        (b'"\\ud800"', "\ud800"),
        ('"\u2028\u0085\r"'.encode().replace(b"\r", b"\\r"), "\u2028\u0085\r"),
        (b"7" * 5000, "7" * 5000),
        (b'{"big": "' + b"x" * 300_000 + b'"}', {"big": "x" * 300_000}),
        (b"", ""),
    ],
    ids=["bytes", "nan", "deep", "half a character", "ends of lines", "a long number", "large", "nothing"],
)
def test_whatever_a_job_carries_a_line_holds_one_object(boss: Client, payload: bytes, arguments: Any) -> None:
    text = "".join(filling.HOSTILE)
    job_id = filling.dead(payload, RuntimeError(text), name=text)
    [line] = lines(export(boss, across=True))
    assert (line["id"], line["name"], line["error"]) == (job_id, text, f"RuntimeError: {text}")
    assert line["arguments"] == arguments


def test_an_id_without_a_row_and_a_time_beyond_all_dates_break_no_file(boss: Client, client: redis.Redis) -> None:
    lost, late = ids.brand("JOB", 1), filling.dead()
    client.zadd(keys.of("default").dead, {lost: 7, late: "inf"})
    found = {line["id"]: line for line in lines(export(boss, across=True))}
    assert (found[lost]["name"], found[lost]["time"]) == ("", "1970-01-01T00:00:00.007000+00:00")
    assert found[late]["time"] is None
    # What was ticked is read again: of the one nothing is left, and what is no id is none.
    [line] = lines(export(boss, f"default:{lost}", "default:no", "none:x", f"default:{late}"))
    assert line["id"] == late


# A file that is not whole says so.


def test_a_file_ends_after_so_many_jobs_and_says_so(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAYLOADS", 20)
    minted = filling.crowd(client, "dead", 60)
    for most, given in ((50, 50), (40, 40), (60, 60), (61, 60)):
        monkeypatch.setattr(exporting, "MOST", most)
        found = lines(export(boss, across=True))
        cut = [line for line in found if "cut" in line]
        assert [line["id"] for line in found if "id" in line] == minted[::-1][:given]
        assert bool(cut) is (given < 60)
        if cut:
            assert found[-1:] == cut
            assert f"Only {given} jobs are here" in cut[0]["cut"]
        assert history()[-1][3] == f"Exported: {given} dead jobs"


def test_a_file_ends_when_its_time_is_up_also_when_nothing_matches(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    filling.crowd(client, "dead", 2000)
    asked.clear()
    monkeypatch.setattr(exporting, "SECONDS", -1)
    [line] = lines(export(boss, query="?task=none", across=True))
    assert line["cut"].startswith("Only 0 jobs are here")
    assert history() == []


@pytest.mark.parametrize("across", [False, True])
def test_when_the_server_goes_away_in_the_middle_the_last_line_says_so(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, across: bool
) -> None:
    monkeypatch.setattr(exporting, "PAYLOADS", 20)
    minted = filling.crowd(client, "dead", 60)[::-1]
    name = "browse" if across else "get"
    real, calls = getattr(jobs, name), iter(range(99))
    answer = export(boss, *(f"default:{job_id}" for job_id in minted), across=across)

    def once(*args: Any, **more: Any) -> Any:
        if next(calls) == 1:
            raise ServerUnavailable("redis://secret@host has gone")
        return real(*args, **more)

    monkeypatch.setattr(jobs, name, once)
    *found, last = lines(answer)
    given = 20 if across else 1
    assert [line["id"] for line in found] == minted[:given]
    assert last == {"cut": "The queue's server was away (ServerUnavailable)."}
    assert [line[3] for line in history()] == [f"Exported: {given} dead job{'s' if across else ''}"]


def test_a_browser_that_goes_away_is_in_the_history_with_what_it_got(
    boss: Client, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PAYLOADS", 20)
    filling.crowd(client, "dead", 60)
    answer = export(boss, across=True)
    assert answer.streaming
    stream: Iterator[bytes] = iter(answer.streaming_content)
    next(stream)
    answer._iterator.close()  # the test client's own, which keeps the database open
    assert [line[3] for line in history()] == ["Exported: 20 dead jobs"]


def test_no_more_is_read_at_once_than_a_batch(boss: Client, client: redis.Redis, asked: list[Any]) -> None:
    filling.crowd(client, "dead", 1500)
    answer = export(boss, across=True)
    stream = iter(answer.streaming_content)
    asked.clear()
    next(stream)
    assert len([command for command in asked if command[0] == "HMGET"]) == exporting.PAYLOADS
    b"".join(stream)


@pytest.mark.parametrize("across", [False, True])
def test_a_queue_that_the_user_may_not_see_is_in_no_file(
    boss: Client, monkeypatch: pytest.MonkeyPatch, across: bool
) -> None:
    monkeypatch.setattr(type(site.get_model_admin(Job)), "get_queue_names", lambda self, request: ["mail"])
    hidden, shown = filling.dead(), filling.dead(queue="mail")
    found = lines(export(boss, f"default:{hidden}", f"mail:{shown}", across=across))
    assert [line["id"] for line in found] == [shown]
