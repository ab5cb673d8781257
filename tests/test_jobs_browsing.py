"""Browsing a place: spans of its time, pages at any depth, and what the dead have in common."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from echomq_django import ids, jobs, keys, looks
from echomq_django.exceptions import EchoMQError, InvalidId, InvalidQueueName
from echomq_django.job import LARGE_FIELDS, ROW_FIELDS, Location
from echomq_django.jobs import Census, Span
from echomq_django.service import browsing
from tests.server import dump

MAIL = keys.of("mail")
A, B, C, D, E = (ids.brand("JOB", number) for number in range(1, 6))
TIMED = ("active", "schedule", "dead")


def place_jobs(client: redis.Redis, place: str, scores: dict[str, float], **fields: Any) -> None:
    """Put jobs into a place, each with a row."""
    pipe = client.pipeline(transaction=False)
    pipe.zadd(getattr(MAIL, place), scores)
    for job_id in scores:
        pipe.hset(MAIL.row(job_id), mapping={"state": place, "attempts": "1", "payload": f"of {job_id}", **fields})
    pipe.execute()


def crowd(client: redis.Redis, place: str, number: int) -> list[str]:
    """Put many ids into a place, without rows; one for each ms from 1000 on, the first of them first."""
    minted = [ids.brand("JOB", at) for at in range(number)]
    for first in range(0, number, 10_000):
        chunk = minted[first : first + 10_000]
        client.zadd(getattr(MAIL, place), {job_id: 1000 + first + at for at, job_id in enumerate(chunk)})
    return minted


def commands_of(client: redis.Redis, call: Callable[[], Any]) -> dict[str, int]:
    """Count the commands that the server carries out for a call."""
    call()  # the first call of a client asks the server what it is
    client.config_resetstat()
    call()
    stats = {name: facts["calls"] for name, facts in client.info("commandstats").items()}
    return {name: calls for name, calls in stats.items() if not name.startswith("cmdstat_config")}


SPANS = [
    (None, "abcde"),
    (Span(), "abcde"),
    (Span(20, 40), "bcd"),
    (Span(20, None), "bcde"),
    (Span(None, 20), "ab"),
    (Span(21, 39), "c"),
    (Span(30, 30), "c"),
    (Span(31, 39), ""),
    (Span(40, 20), ""),
    (Span(51, None), ""),
    (Span(None, 9), ""),
]
SCORES = {A: 10, B: 20, C: 30, D: 40, E: 50}


@pytest.mark.parametrize(("span", "expected"), SPANS)
@pytest.mark.parametrize("place", TIMED)
def test_a_span_holds_the_jobs_whose_time_is_within_its_bounds(
    client: redis.Redis, place: str, span: Span | None, expected: str
) -> None:
    place_jobs(client, place, SCORES)
    before = dump(client)
    named = [dict(zip("abcde", SCORES, strict=True))[letter] for letter in expected]
    if place == "dead":
        named.reverse()
    assert jobs.count("mail", place, span) == len(named)
    assert [job.id for job in jobs.browse("mail", place, span=span)] == named
    assert jobs.listed("mail", place, 100, span=span) == [(job_id, float(SCORES[job_id])) for job_id in named]
    assert {key: value for key, value in dump(client).items() if key != keys.VERSION} == before


@pytest.mark.parametrize("place", TIMED)
def test_pages_part_a_span_without_gap_or_repeat_and_end_with_it(client: redis.Redis, place: str) -> None:
    minted = crowd(client, place, 100)
    expected = minted[20:71][::-1] if place == "dead" else minted[20:71]
    span = Span(1020, 1070)
    pages = [[job.id for job in jobs.browse("mail", place, start, 10, span=span)] for start in range(0, 70, 10)]
    assert [len(page) for page in pages] == [10, 10, 10, 10, 10, 1, 0]
    assert [job_id for page in pages for job_id in page] == expected
    assert [job_id for job_id, _ in jobs.listed("mail", place, 7, span=span)] == expected[:7]


def test_pending_has_no_time_and_is_read_whole_in_the_order_in_which_it_runs(client: redis.Redis) -> None:
    place_jobs(client, "pending", {A: 0, B: -5, C: 5, D: 0})
    nothing = Span(1, 2)
    assert jobs.count("mail", "pending", nothing) == 4
    assert [job.id for job in jobs.browse("mail", "pending", span=nothing)] == [B, A, D, C]
    assert [job.id for job in jobs.browse("mail", "pending", 1, 2, span=nothing)] == [A, D]
    assert jobs.listed("mail", "pending", 3, span=nothing) == [(B, -5.0), (A, 0.0), (D, 0.0)]
    assert jobs.edges("mail", "pending") is None


def test_jobs_of_one_time_keep_an_order_from_page_to_page(client: redis.Redis) -> None:
    place_jobs(client, "dead", dict.fromkeys((A, B, C, D, E), 7))
    pages = [jobs.browse("mail", "dead", start, 2, span=Span(7, 7)) for start in (0, 2, 4)]
    assert [job.id for page in pages for job in page] == [E, D, C, B, A]
    assert [job_id for job_id, _ in jobs.listed("mail", "dead", 9)] == [E, D, C, B, A]


def test_a_time_beyond_all_time_is_in_every_span_without_a_bound(client: redis.Redis) -> None:
    place_jobs(client, "schedule", {A: float("-inf"), B: 20, C: float("inf")})
    assert [job.id for job in jobs.browse("mail", "schedule", span=Span(None, 20))] == [A, B]
    assert [job.id for job in jobs.browse("mail", "schedule", span=Span(20, None))] == [B, C]
    assert [job.time for job in jobs.browse("mail", "schedule")] == [None, 20, None]
    assert jobs.edges("mail", "schedule") is None


def test_a_list_leaves_the_large_fields_out_until_they_are_asked_for(client: redis.Redis) -> None:
    small = {name: str(at) for at, name in enumerate(ROW_FIELDS, 1) if name not in LARGE_FIELDS}
    place_jobs(client, "dead", {A: 10}, **{**small, "payload": "large", "checkpoint": "large", "result": "large"})
    [lean], [whole] = jobs.browse("mail", "dead"), jobs.browse("mail", "dead", payloads=True)
    assert (lean.payload, lean.checkpoint, lean.result) == (b"", None, None)
    assert (whole.payload, whole.checkpoint, whole.result) == (b"large", b"large", b"large")
    assert [str(getattr(lean, name)) for name in small] == list(small.values())
    assert jobs.page("mail", "dead") == [whole]
    assert jobs.rows("mail", "dead", [(A, 10.0)]) == [lean]
    assert jobs.rows("mail", "dead", [(A, 10.0)], payloads=True) == [whole]
    assert jobs.get("mail", A) == whole


def test_a_tally_counts_each_span_in_all_queues_at_once(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    place_jobs(client, "dead", SCORES)
    client.zadd(keys.of("default").dead, {A: 20, B: 60})
    spans = [Span(None, 19), Span(20, 40), Span(41, None), Span(100, 200)]
    for size in (browsing.TALLY_SIZE, 5, 1):  # in one round trip, and in several
        monkeypatch.setattr(browsing, "TALLY_SIZE", size)
        assert jobs.tally(["mail", "default", "empty"], "dead", spans) == [1, 4, 2, 0]
    assert jobs.tally(["mail"], "dead", []) == []
    assert jobs.tally([], "dead", spans) == [0, 0, 0, 0]
    place_jobs(client, "pending", {A: 0, B: -5})
    assert jobs.tally(["mail"], "pending", [Span(1, 2), Span()]) == [2, 2]


def test_a_broken_row_does_not_hide_the_others(client: redis.Redis) -> None:
    place_jobs(client, "dead", {A: 10, B: 20, C: 30})
    client.delete(MAIL.row(A), MAIL.row(B))
    client.set(MAIL.row(B), "junk")
    client.zadd(MAIL.dead, {b"\xff": 5})
    assert [(job.id, job.attempts) for job in jobs.browse("mail", "dead")] == [(C, 1), (B, 0), (A, 0), ("\\xff", 0)]


def test_rows_come_in_the_order_of_the_list_and_take_its_scores(client: redis.Redis) -> None:
    place_jobs(client, "dead", SCORES)
    asked = [(C, 30.0), (A, 99.0), (E, 50.0)]
    assert [(job.id, job.time, job.location) for job in jobs.rows("mail", "dead", asked)] == [
        (C, 30, Location.DEAD),
        (A, 99, Location.DEAD),
        (E, 50, Location.DEAD),
    ]
    assert jobs.rows("mail", "dead", []) == []


@pytest.mark.parametrize("place", TIMED)
def test_the_edges_of_a_place_are_its_first_and_its_last_time(client: redis.Redis, place: str) -> None:
    assert jobs.edges("mail", place) is None
    place_jobs(client, place, {B: 20})
    assert jobs.edges("mail", place) == (20, 20)
    place_jobs(client, place, SCORES)
    assert jobs.edges("mail", place) == (10, 50)


def test_a_job_that_dies_between_two_looks_brings_no_other_job_into_the_span(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_jobs(client, "dead", SCORES)
    page = looks.page

    def moved(*args: Any, **options: Any) -> Any:
        client.zadd(MAIL.dead, {ids.brand("JOB", 6): 60})
        return page(*args, **options)

    monkeypatch.setattr(looks, "page", moved)
    assert [job.id for job in jobs.browse("mail", "dead", 0, 3, span=Span(None, 40))] == [D, C]


# --- how much it costs ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", TIMED)
def test_a_page_at_any_depth_costs_the_same_number_of_commands_in_a_small_and_a_large_place(
    client: redis.Redis, place: str
) -> None:
    expected = {"cmdstat_zrange": 1, "cmdstat_hmget": 10}
    within = {**expected, "cmdstat_zcount": 1}
    for number in (100, 100_000):
        minted = crowd(client, place, number)
        deep, half = number - 10, Span(1000, 1000 + number // 2)
        assert commands_of(client, lambda: jobs.browse("mail", place, 0, 10)) == expected
        assert commands_of(client, lambda deep=deep: jobs.browse("mail", place, deep, 10)) == expected
        last = number // 2 - 9
        assert commands_of(client, lambda: jobs.browse("mail", place, last, 10, span=half)) == within  # noqa: B023
        [*_, found] = jobs.browse("mail", place, last, 10, span=half)
        assert found.id == (minted[0] if place == "dead" else minted[number // 2])
        assert commands_of(client, lambda: jobs.count("mail", place, half)) == {"cmdstat_zcount": 1}  # noqa: B023
        assert commands_of(client, lambda: jobs.listed("mail", place, 10, span=half)) == {"cmdstat_zrange": 1}  # noqa: B023
        assert commands_of(client, lambda: jobs.edges("mail", place)) == {"cmdstat_zrange": 2}


def test_a_census_costs_one_command_of_the_client_and_looks_at_no_more_than_it_is_told(client: redis.Redis) -> None:
    crowd(client, "dead", 3_000)
    looked = commands_of(client, lambda: jobs.census("mail", 50))
    assert looked == {"cmdstat_evalsha": 1, "cmdstat_zrange": 1, "cmdstat_hmget": 50}
    assert jobs.census("mail").size == 1_000


# --- census -----------------------------------------------------------------------------------------------------------


def test_a_census_counts_the_names_and_the_heads_of_the_errors_of_the_latest_dead(client: redis.Redis) -> None:
    place_jobs(client, "dead", {A: 10}, name="shop.old", last_error="OldError: x")
    place_jobs(client, "dead", {B: 20}, name="shop.pay", last_error="ValueError: no")
    place_jobs(client, "dead", {C: 30, D: 40}, name="shop.mail", last_error="KeyError: 'a: b'")
    place_jobs(client, "dead", {E: 50}, name="shop.pay", last_error="KeyError")
    found = jobs.census("mail", 4)
    assert found == Census(4, tasks={"shop.pay": 2, "shop.mail": 2}, errors={"KeyError": 3, "ValueError": 1})  # type: ignore[arg-type]
    assert list(found.errors) == ["KeyError", "ValueError"]


def test_the_head_of_an_error_in_a_census_is_that_of_the_job(client: redis.Redis) -> None:
    errors = ["", ":", "a", "a:b:c", "é" * 99 + "zz: x", "€" * 300, "a\nb: c", b"\xff: x", b"\xff" * 700, "x" * 600]
    for at, error in enumerate(errors):
        place_jobs(client, "dead", {ids.brand("JOB", at): at}, last_error=error)
    found = jobs.census("mail")
    assert sorted(found.errors.elements()) == sorted(job.error_head for job in jobs.browse("mail", "dead"))
    assert found.errors["€" * 100] == found.errors["a"] - 1 == 1
    assert max(map(len, found.errors)) == 100


def test_nobody_is_dead_in_an_empty_queue() -> None:
    assert jobs.census("mail") == Census(0, tasks={}, errors={})  # type: ignore[arg-type]


# --- what is refused --------------------------------------------------------------------------------------------------


CALLS: dict[str, Callable[..., Any]] = {
    "count": lambda queue="mail", place="dead", **options: jobs.count(queue, place, **options),
    "browse": lambda queue="mail", place="dead", **options: jobs.browse(queue, place, **options),
    "listed": lambda queue="mail", place="dead", size=5, **options: jobs.listed(queue, place, size, **options),
    "rows": lambda queue="mail", place="dead", listed=(), **options: jobs.rows(queue, place, listed, **options),
    "edges": lambda queue="mail", place="dead", **options: jobs.edges(queue, place, **options),
    "census": lambda queue="mail", **options: jobs.census(queue, **options),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_queue_without_a_proper_name_is_refused(client: redis.Redis, call: Callable[..., Any]) -> None:
    with pytest.raises(InvalidQueueName):
        call(queue="a:b")
    assert dump(client).keys() <= {keys.VERSION}


@pytest.mark.parametrize("name", [name for name in CALLS if name != "census"])
def test_a_place_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="'gone' is not a valid Location"):
        CALLS[name](place="gone")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("browse", {"size": 501}, "a page of queue 'mail'"),
        ("browse", {"size": 0}, "a page of queue 'mail'"),
        ("browse", {"start": -1}, "a page of queue 'mail'"),
        ("listed", {"size": 0}, "a list of queue 'mail' has 1 to 5,000"),
        ("listed", {"size": 5_001}, "a list of queue 'mail' has 1 to 5,000"),
        ("rows", {"listed": [(A, 1.0)] * 5_001}, "a list of queue 'mail' has 1 to 5,000"),
        ("census", {"size": 0}, "a census of queue 'mail' looks at 1 to 1,000"),
        ("census", {"size": 1_001}, "a census of queue 'mail' looks at 1 to 1,000"),
    ],
)
def test_a_look_at_too_many_or_none_is_refused(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        CALLS[name](**options)


def test_every_look_takes_the_server_of_its_alias(settings: Any, url: str) -> None:
    settings.ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:1/0"}, "second": {"LOCATION": url}}
    assert [bool(call(using="second")) for call in CALLS.values()] == [False, False, False, False, False, True]


@pytest.mark.parametrize("name", [name for name in CALLS if name != "rows"])
def test_a_place_of_a_wrong_type_is_an_error_of_ours(client: redis.Redis, name: str) -> None:
    client.set(MAIL.dead, "a string")
    with pytest.raises(EchoMQError, match="WRONGTYPE"):
        CALLS[name]()


@pytest.mark.parametrize("place", Location)
@pytest.mark.parametrize("row", ["missing", "no hash", "sound"])
def test_an_id_is_told_by_its_place_its_time_and_its_errors_whatever_its_row_is(
    client: redis.Redis, place: Location, row: str
) -> None:
    place_jobs(client, place, {A: 1000, B: 2000})
    client.rpush(MAIL.errors(A), '{"error": "a.b.E", "message": "E: no", "attempt": 1}')
    if row != "sound":
        client.delete(MAIL.row(A))
    if row == "no hash":
        client.rpush(MAIL.row(A), "what")
    jobs.counts("mail")  # a first call leaves the wire's version
    before = dump(client)
    found = jobs.stray("mail", A)
    assert found is not None
    assert (found.id, found.queue, found.location) == (A, "mail", place)
    assert found.time == (None if place is Location.PENDING else 1000)
    assert [record.message for record in found.errors] == ["E: no"]
    assert (found.state, found.payload, found.attempts) == ("", b"", 0)
    assert dump(client) == before


def test_an_id_that_lies_in_no_place_is_none_and_what_is_no_id_is_refused(client: redis.Redis) -> None:
    assert jobs.stray("mail", A) is None
    client.hset(MAIL.row(A), "state", "completed")
    assert jobs.stray("mail", A) is None
    with pytest.raises(InvalidId):
        jobs.stray("mail", "x")
