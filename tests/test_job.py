"""Jobs, claims and error records as values."""

import dataclasses
import json
import sys
from typing import Any

import pytest

from echomq_django import ids
from echomq_django.exceptions import PayloadError
from echomq_django.job import Claim, ErrorRecord, Job, Location

A = ids.brand("JOB", 274557032793636864)

FULL = {
    b"state": b"dead", b"attempts": b"7", b"payload": b"\x00p\xff", b"name": b"a.b", b"group": b"TEN00000000001",
    b"priority": b"-5", b"max_attempts": b"3", b"spared": b"4", b"stalled": b"1", b"last_error": b"boom",
    b"owner": b"h:1:ab:9", b"started_at": b"1800000000000", b"died_at": b"1800000000001",
    b"deferred_at": b"1800000000002", b"progress": b"50%",
    b"result": b"\x00[1]\xff", b"finished_at": b"1800000000003", b"checkpoint": b"\x00{}\xff",
}  # fmt: skip

READ: dict[str, Any] = {
    "state": "dead", "attempts": 7, "payload": b"\x00p\xff", "name": "a.b", "group": "TEN00000000001", "priority": -5,
    "max_attempts": 3, "spared": 4, "stalled": 1, "last_error": "boom", "owner": "h:1:ab:9",
    "started_at": 1800000000000, "died_at": 1800000000001, "deferred_at": 1800000000002, "progress": "50%",
    "result": b"\x00[1]\xff", "finished_at": 1800000000003, "checkpoint": b"\x00{}\xff",
}  # fmt: skip

MISSING: dict[str, Any] = {
    "state": "", "attempts": 0, "payload": b"", "name": "", "group": "", "priority": 0, "max_attempts": None,
    "spared": 0, "stalled": 0, "last_error": "", "owner": "", "started_at": None, "died_at": None,
    "deferred_at": None, "progress": "", "result": None, "finished_at": None, "checkpoint": None,
}  # fmt: skip

NUMBERS = [
    "attempts", "priority", "max_attempts", "spared", "stalled", "started_at", "died_at", "deferred_at", "finished_at",
]  # fmt: skip
TEXTS = ["state", "name", "group", "last_error", "owner", "progress"]


def load(row: dict[bytes, bytes], location: Location | None = None, score: float | None = None) -> Job:
    return Job.load("q", A, row, location, score)


def read(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in READ}


def test_a_row_is_read_whole() -> None:
    job = load(FULL, Location.DEAD, 1800000000001.0)
    assert read(job) == READ
    assert (job.id, job.queue, job.location, job.time, job.errors) == (A, "q", Location.DEAD, 1800000000001, ())


def test_every_field_of_a_job_is_compared_here() -> None:
    others = {"id", "queue", "location", "time", "errors"}
    assert {field.name for field in dataclasses.fields(Job)} == others | set(READ)


def test_a_row_that_is_missing_reads_as_a_job_without_fields() -> None:
    assert read(load({})) == MISSING


@pytest.mark.parametrize("name", READ)
def test_each_field_may_be_missing(name: str) -> None:
    row = {field: value for field, value in FULL.items() if field != name.encode()}
    assert read(load(row)) == {**READ, name: MISSING[name]}


JUNK = [b"", b"x", b"-", b"--5", b"1.5", b"1e3", b"0x1", b" 1", b"1 ", b"1_0", b"1" * 16, b"\xd9\xa1", b"nan"]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none_reads_as_missing(name: str, junk: bytes) -> None:
    assert read(load({**FULL, name.encode(): junk})) == {**READ, name: MISSING[name]}


@pytest.mark.parametrize("name", TEXTS)
def test_bytes_that_are_no_text_are_shown_not_fatal(name: str) -> None:
    assert getattr(load({**FULL, name.encode(): b"a\xff\x00\xed\xa0\x80"}), name) == "a\\xff\x00\\xed\\xa0\\x80"


def test_unknown_fields_are_passed_over() -> None:
    assert read(load({**FULL, b"parent": b"x", b"\xff": b"y"})) == READ


@pytest.mark.parametrize(
    ("location", "time"),
    [(Location.PENDING, None), (Location.ACTIVE, 7), (Location.SCHEDULE, 7), (Location.DEAD, 7)],
)
def test_only_a_place_with_times_has_a_time(location: Location, time: int | None) -> None:
    assert load(FULL, location, 7.9).time == time


@pytest.mark.parametrize("score", [float("inf"), float("-inf")])
def test_a_score_beyond_all_time_has_no_time(score: float) -> None:
    assert load(FULL, Location.SCHEDULE, score).time is None


def test_the_attempts_that_count_are_those_that_were_not_spared() -> None:
    assert load(FULL).attempt == 3


def test_an_id_tells_when_the_job_was_enqueued() -> None:
    assert load(FULL).enqueued_at == 1769526697641


def test_the_places_are_named_as_their_keys() -> None:
    assert [str(place) for place in Location] == ["pending", "active", "schedule", "dead"]


def test_values_do_not_change() -> None:
    claim = Claim(queue="q", id=A, token=1, owner="o", payload=b"1")
    for value, name in ((load(FULL), "state"), (claim, "token"), (ErrorRecord.load(b"{}"), "error")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 1)


def claimed(**fields: Any) -> Claim:
    return Claim(**{"queue": "q", "id": A, "token": 7, "owner": "o", "payload": b'{"a":[1]}', **fields})


def test_the_attempt_of_a_claim_does_not_count_what_was_spared() -> None:
    assert (claimed().attempt, claimed(spared=6).attempt) == (7, 1)


def test_the_data_of_a_claim_is_its_payload_read_as_json() -> None:
    assert claimed().data == {"a": [1]}


def test_a_payload_that_is_no_json_has_no_data() -> None:
    with pytest.raises(PayloadError):
        _ = claimed(payload=b"\x80junk").data


def test_a_claim_is_proved_by_its_id_token_and_owner() -> None:
    assert claimed().proof == (A, 7, "o")


RECORD = ErrorRecord(
    error="builtins.ValueError", message="no \x00 \u2028", traceback="Traceback…", attempt=3, worker="h:1:ab",
    started_at=5, finished_at=6,
)  # fmt: skip
NONE = ErrorRecord(error="", message="", traceback="", attempt=0, worker="", started_at=0, finished_at=0)


def test_an_error_record_comes_back_as_it_was_dumped() -> None:
    assert ErrorRecord.load(RECORD.dump().encode()) == RECORD


def test_a_half_character_is_dumped_and_comes_back_as_what_can_be_shown() -> None:
    record = dataclasses.replace(RECORD, message="no \ud800")
    assert record.dump().isascii()
    assert ErrorRecord.load(record.dump().encode()).message == "no \\ud800"


def test_a_dumped_record_is_plain_ascii_whatever_the_message_holds() -> None:
    assert RECORD.dump().isascii()
    assert json.loads(RECORD.dump())["message"] == RECORD.message


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ErrorRecord)])
def test_a_record_may_lack_anything(name: str) -> None:
    found = json.loads(RECORD.dump())
    del found[name]
    empty = 0 if isinstance(getattr(RECORD, name), int) else ""
    assert ErrorRecord.load(json.dumps(found).encode()) == dataclasses.replace(RECORD, **{name: empty})


@pytest.mark.parametrize("junk", [None, [], {}, "1", 1.5])
@pytest.mark.parametrize("name", ["attempt", "started_at", "finished_at"])
def test_a_number_that_is_none_counts_as_nought(name: str, junk: Any) -> None:
    assert ErrorRecord.load(json.dumps({name: junk}).encode()) == NONE


@pytest.mark.parametrize(("junk", "text"), [(None, ""), ([], ""), (0, ""), ([1], "[1]"), (5, "5"), (True, "True")])
def test_a_text_that_is_none_is_shown_as_one(junk: Any, text: str) -> None:
    assert ErrorRecord.load(json.dumps({"message": junk}).encode()) == dataclasses.replace(NONE, message=text)


def test_a_record_that_is_nested_too_deeply_is_shown_as_unreadable() -> None:
    assert ErrorRecord.load(b"[" * 100_000).error == "unreadable"


@pytest.mark.parametrize("junk", [b"", b"x", b"[1]", b"null", b"5", b'"text"', b"\xff\x00", b'{"a"', b"1" * 5_000])
def test_a_record_that_is_none_is_shown_as_unreadable(junk: bytes) -> None:
    found = ErrorRecord.load(junk)
    assert found == dataclasses.replace(NONE, error="unreadable", message=junk.decode(errors="backslashreplace"))
    assert sys.getsizeof(found.message) < 10_000 + len(junk) * 4
