"""Payloads: the same value back, or an error in the caller."""

import datetime
import decimal
import enum
import json
import math
import pathlib
import string
import uuid
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from echomq_django import payload
from echomq_django.exceptions import EchoMQError, PayloadError

SAME = [
    None, True, False, 0, 1, -1, 2**53 + 1, 9007199254740993, 15947634569000323, 2**63, 2**70, -(2**70), 10**4000,
    0.1 + 0.2, 1e-7, 5e-324, 1.7976931348623157e308, -0.0, math.pi, 1.0, 1e22,
    [], {}, [[]], [{}], {"a": []}, {"a": {}}, [[[]], {"b": [{}]}], [None, True, 1, 1.0, "1"],
    ["", "\x00", "\u2028\u2029", "é", "\U0001f600", "</script>", '"\\', "\x7f\x1f"],
    {"": 1, "z": 1, "a": 2, "\x00": 3, "1": 4, "é": 5, "e\u0301": 6, "True": 7},
    {"price": "0.1000000000000000055511151231257827021181583404541015625"},
]  # fmt: skip

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):
    pass


class Whole(int):
    pass


OTHER = [
    (1, 2), {1}, frozenset(), b"x", bytearray(b"x"), memoryview(b"x"), object(), object, len, range(3), iter([]),
    math.nan, math.inf, -math.inf, 1j, decimal.Decimal("1.0"), uuid.UUID(int=1), pathlib.Path("a"), Colour.RED,
    Number.ONE, Word.YES, Whole(1), Text("a"), OrderedDict(a=1), Point(1, 2), string.Template("x"),
    datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.date(2026, 1, 1),
    datetime.timedelta(1), gettext_lazy("text"), mark_safe("text"),
    {1: "a"}, {True: "a"}, {None: "a"}, {1.5: "a"}, {(1,): "a"}, {b"a": 1}, {Text("a"): 1}, {Word.YES: 1},
    "\ud800", 10**5000,
]  # fmt: skip


def same(found: Any, value: Any) -> bool:
    """Compare as types, too: 1 == 1.0 == True, and the order of keys."""
    return repr(found) == repr(value)


@pytest.mark.parametrize("value", SAME, ids=lambda value: ascii(value)[:40])
def test_what_json_carries_comes_back_as_it_was(value: Any) -> None:
    assert same(payload.decode(payload.encode(value)), value)
    for nested in ([value], {"k": value}, [{"k": [value]}]):
        assert same(payload.decode(payload.encode(nested)), nested)


@pytest.mark.parametrize("value", OTHER, ids=lambda value: type(value).__name__)
def test_anything_else_is_refused_at_any_depth(value: Any) -> None:
    top = [] if value == "\ud800" or type(value) is bytes else [value]
    for nested in (*top, [value], {"k": value}, [{"k": [1, value]}]):
        with pytest.raises(PayloadError) as caught:
            payload.encode(nested)
        assert str(caught.value)


def test_a_payload_error_is_a_type_error_and_a_value_error() -> None:
    assert issubclass(PayloadError, TypeError)
    assert issubclass(PayloadError, ValueError)
    assert issubclass(PayloadError, EchoMQError)


@pytest.mark.parametrize("value", [b"", b"\x00\xff", b"{}", bytes(range(256))])
def test_bytes_are_stored_as_they_are(value: bytes) -> None:
    assert payload.encode(value) == value


@pytest.mark.parametrize("value", ["", "plain", '{"a":1}', "é\x00\U0001f600"])
def test_a_text_is_stored_as_its_utf_8(value: str) -> None:
    assert payload.encode(value) == value.encode()


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", ["\ud800"], {"\ud800": 1}])
def test_half_a_character_is_named(value: Any) -> None:
    with pytest.raises(PayloadError, match="half a character"):
        payload.encode(value)


def test_json_is_written_short_and_readable() -> None:
    assert payload.encode({"b": [1, "é"], "a": None}) == '{"b":[1,"é"],"a":null}'.encode()


def test_deep_nesting_is_carried_or_refused_and_never_crashes() -> None:
    refused = set()
    for depth in (100, 300, 999, 1_001, 5_000, 100_000):
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        try:
            found = payload.decode(payload.encode(value))
        except PayloadError:
            refused.add(depth)
            continue
        while value:
            [value], [found] = value, found
        assert found == []
    assert {5_000, 100_000} <= refused <= {999, 1_001, 5_000, 100_000}


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    tree: dict[str, Any] = {}
    tree["k"] = [tree]
    for value in (loop, tree):
        with pytest.raises(PayloadError, match="contains itself"):
            payload.encode(value)


@pytest.mark.parametrize(
    "junk", [b"", b"\x80\x04junk", b"{", b"nope", b"\xff\xff", b'{"a":1', b"[" * 100_000, b"1" * 5_000, b"\x00"]
)
def test_what_is_no_json_is_a_payload_error(junk: bytes) -> None:
    with pytest.raises(PayloadError, match="not JSON"):
        payload.decode(junk)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ).filter(lambda value: type(value) is not str)
)
def test_every_value_of_json_survives(value: Any) -> None:
    assert same(payload.decode(payload.encode(value)), value)
    assert same(json.loads(payload.encode(value)), value)
