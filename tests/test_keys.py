"""Keys: where they lie, and that nobody else spells them."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import echomq_django
from echomq_django import ids, keys
from echomq_django.exceptions import EchoMQError, InvalidQueueName

PACKAGE = Path(echomq_django.__file__).parent

SLOTS = {
    "123456789": 12739,
    "{emq}:version": 9051,
    "emq:{q1}:pending": 7450,
    "q1": 7450,
    "orders": 105,
    "emq:{payments}:active": 8507,
    "fills": 4165,
    "emq:{quotes}:job:JOB0KHTOWnGLuC": 3378,
    "emq:{cm}:pending": 9074,
    "user:{123}:profile": 5970,
    "user:123:profile": 8490,
    "{user:123}:profile": 12893,
    "emq:{}:pending": 7387,
    "foo{}bar": 14292,
    "a{b}{c}": 3300,
    "foo{{bar}}zap": 4015,
    "": 0,
}


@pytest.mark.parametrize(("key", "slot"), SLOTS.items())
def test_a_key_lies_in_the_slot_of_its_hash_tag(key: str, slot: int) -> None:
    assert keys.slot(key) == slot


@pytest.mark.parametrize(("key", "same"), [("a}b{c}d{e}", "c"), ("{b}", "b"), ("x{b}{", "b"), ("x{b", "{x{b}")])
def test_a_hash_tag_is_what_the_first_pair_of_braces_holds(key: str, same: str) -> None:
    assert keys.slot(key) == keys.slot(same)


@pytest.mark.parametrize("queue", ["q1", "orders", "a.b-c_D9", "emq2", "x" * 128])
def test_all_keys_of_a_queue_lie_in_one_slot_and_begin_alike(queue: str) -> None:
    found = keys.of(queue)
    names = [value for name, value in dataclasses.asdict(found).items() if name != "queue"]
    for name in (found.row, found.errors, found.logs, found.result, found.result_errors, found.result_logs):
        names.append(name("JOB0KHTOWnGLuC"))
    names += [found.lane_root + ids.brand("TEN", 5) + ":pending"]
    assert {keys.slot(name) for name in names} == {keys.slot(queue)}
    assert all(name.startswith(f"emq:{{{queue}}}:") for name in names)
    assert len(set(names)) == len(names)


def test_the_keys_are_those_that_echomq_writes() -> None:
    assert dataclasses.asdict(keys.of("q")) == {
        "queue": "q",
        "pending": "emq:{q}:pending",
        "active": "emq:{q}:active",
        "schedule": "emq:{q}:schedule",
        "dead": "emq:{q}:dead",
        "quarantine": "emq:{q}:quarantine",
        "meta": "emq:{q}:meta",
        "wake": "emq:{q}:wake",
        "job_root": "emq:{q}:job:",
        "receipt_root": "emq:{q}:receipt:",
        "lane_root": "emq:{q}:g:",
        "ring": "emq:{q}:ring",
        "paused": "emq:{q}:paused",
        "glimit": "emq:{q}:glimit",
        "gactive": "emq:{q}:gactive",
        "outbox": "emq:{q}:flow:outbox",
        "completed": "emq:{q}:metrics:completed",
        "failed": "emq:{q}:metrics:failed",
        "minute_root": "emq:{q}:minute:",
        "result_root": "emq:{q}:result:",
        "recent": "emq:{q}:recent",
        "events": "emq:{q}:events",
    }
    assert keys.of("q").row("JOB0KHTOWnGLuC") == "emq:{q}:job:JOB0KHTOWnGLuC"
    assert keys.of("q").errors("JOB0KHTOWnGLuC") == "emq:{q}:job:JOB0KHTOWnGLuC:errors"
    assert keys.of("q").logs("JOB0KHTOWnGLuC") == "emq:{q}:job:JOB0KHTOWnGLuC:logs"
    assert keys.of("q").result("JOB0KHTOWnGLuC") == "emq:{q}:result:JOB0KHTOWnGLuC"
    assert keys.of("q").result_errors("JOB0KHTOWnGLuC") == "emq:{q}:result:JOB0KHTOWnGLuC:errors"
    assert keys.of("q").result_logs("JOB0KHTOWnGLuC") == "emq:{q}:result:JOB0KHTOWnGLuC:logs"
    assert keys.of("q").minute(29_412_345) == "emq:{q}:minute:29412345"
    assert keys.VERSION == "{emq}:version"


def test_the_keys_of_no_queue_lie_in_one_slot() -> None:
    shared = {keys.VERSION, keys.WORKERS, keys.QUEUES, keys.worker("h:1:ab")}
    assert len(shared) == 4
    assert {keys.slot(key) for key in shared} == {keys.slot("emq")}


@pytest.mark.parametrize("queue", ["a", "A", "0", ".", "_", "-", "a.b", "emq.", "Emq", "x" * 128])
def test_a_queues_name_is_given_back(queue: str) -> None:
    assert keys.check_queue(queue) == queue


@pytest.mark.parametrize(
    "queue",
    ["", "emq", "x" * 129, "a\n", "\n", "a b", "a:b", "a}b", "{a}", "*", "é", "a/b", "a\x00", "ａ", None, b"a", 5],
)
def test_what_is_no_queues_name_is_refused_by_name(queue: Any) -> None:
    for door in (keys.check_queue, keys.of):
        with pytest.raises(InvalidQueueName) as caught:
            door(queue)
        assert repr(queue) in str(caught.value)


def test_a_wrong_name_can_be_caught_as_a_value_error_and_as_one_of_ours() -> None:
    assert issubclass(InvalidQueueName, ValueError)
    assert issubclass(InvalidQueueName, EchoMQError)


def test_only_one_file_spells_a_key() -> None:
    # "echomq:" is the wire version, not a key.
    spelled = re.compile(r"(?<![a-z])emq:|\{emq\}")
    guilty = set()
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.lua")):
        text = path.read_text()
        if path.suffix == ".lua":
            text = re.sub(r"--.*", "", text)
        if spelled.search(text):
            guilty.add(str(path.relative_to(PACKAGE)))
    assert guilty == {"keys.py"}
