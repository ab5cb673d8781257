"""envelope: what any program may write to enqueue a task, and what is refused."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from echomq_django import envelope
from echomq_django.envelope import Envelope
from echomq_django.exceptions import PayloadError


def test_the_least_that_another_program_has_to_write_is_the_task() -> None:
    assert envelope.decode(b'{"task": "shop.tasks.send"}') == Envelope("shop.tasks.send", [], {})


def test_what_is_written_is_what_the_documents_show() -> None:
    body = envelope.encode("shop.tasks.send", (17,), {"copy": True})
    assert json.loads(body) == {"v": 1, "task": "shop.tasks.send", "args": [17], "kwargs": {"copy": True}}


def test_what_differs_from_the_declared_task_is_written_and_read_again() -> None:
    at = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    body = envelope.encode("a.b", (), {}, backend="other", run_after=at, timeout=2.5)
    assert envelope.decode(body) == Envelope("a.b", [], {}, backend="other", run_after=at, timeout=2.5)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [[], {"a": []}],
        2**53 + 1,
        -(2**63),
        10**100,
        1e-7,
        0.1 + 0.2,
        "",
        "\x00",
        "\u2028",
        "naïve 🙂",
        None,
        True,
    ],
)
def test_arguments_come_back_equal_and_of_the_same_type(value: Any) -> None:
    told = envelope.decode(envelope.encode("a.b", (value,), {"key": value}))
    assert told.args == [value]
    assert told.kwargs == {"key": value}
    assert type(told.args[0]) is type(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ((1,), "tuple"),
        ({1}, "set"),
        ({1: 2}, "key"),
        (float("nan"), "nan"),
        (b"x", "bytes"),
        ("\ud800", "half"),
        (object(), "object"),
    ],
)
def test_an_argument_that_would_change_is_refused(value: Any, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        envelope.encode("a.b", (value,), {})
    with pytest.raises(PayloadError, match=why):
        envelope.encode("a.b", (), {"key": value})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xff", "not JSON"),
        (b"[]", "not a task"),
        (b"null", "not a task"),
        (b"{}", "task is None"),
        (b'{"task": 7}', "task is 7"),
        (b'{"task": "undotted"}', "task is 'undotted'"),
        (b'{"task": "a.b", "args": {}}', "args"),
        (b'{"task": "a.b", "kwargs": []}', "kwargs"),
        (b'{"task": "a.b", "v": 2}', "version is 2"),
        (b'{"task": "a.b", "v": true}', "version is True"),
        (b"[" * 5000 + b"]" * 5000, "not JSON|not a task"),  # how deep JSON may be is up to the Python
    ],
)
def test_what_is_no_envelope_is_told_why(body: bytes, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        envelope.decode(body)


@pytest.mark.parametrize(
    "extra", ['"timeout": "x"', '"timeout": true', '"run_after": "soon"', '"backend": 7', '"new": 1']
)
def test_what_a_newer_or_a_careless_producer_adds_is_no_error(extra: str) -> None:
    assert envelope.decode(f'{{"task": "a.b", {extra}}}'.encode()) == Envelope("a.b")
