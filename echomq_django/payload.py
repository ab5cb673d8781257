"""What a job carries: bytes, str or JSON in; the same value back.

The queue itself never looks inside. Only what survives JSON unchanged is taken: a tuple that comes back as a
list is found out by the caller, not by the worker.
"""

import json
import math
from typing import Any

from .exceptions import PayloadError

KEPT_LIMIT = 1_000_000
"""Bytes of JSON that a result or a checkpoint may have."""

# json.dumps makes an encoder anew for each call that has options.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

_PLAIN = (str, int, bool, type(None))


def encode(value: Any) -> bytes:
    """Write a payload: bytes and str as they are, other values as JSON; PayloadError when it would change."""
    if type(value) is bytes:
        return value
    if type(value) is str:
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise _half(error) from None
    return to_json(value)


def to_json(value: Any) -> bytes:
    """Write any value as JSON; PayloadError when it would come back as something else."""
    try:
        _check(value)
        return _ENCODER.encode(value).encode()
    except PayloadError:
        raise
    except UnicodeEncodeError as error:
        raise _half(error) from None
    except RecursionError:
        raise PayloadError("it is nested too deeply for JSON, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise PayloadError(f"it cannot be written as JSON: {error}") from None


def _half(error: UnicodeEncodeError) -> PayloadError:
    return PayloadError(f"the text holds {error.object[error.start]!r}, which is half a character")


def to_keep(value: Any) -> bytes:
    """Write a value that the server keeps beside a job, a result or a checkpoint; PayloadError when it cannot be.

    One that the server refuses for its size would cost the connection, and all else that was sent with it.
    """
    text = to_json(value)
    if len(text) > KEPT_LIMIT:
        raise PayloadError(f"it has {len(text):,} bytes of JSON, more than {KEPT_LIMIT:,}: store it, and keep its key")
    return text


def decode(payload: bytes) -> Any:
    """Read a JSON payload; PayloadError when it is none."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"it is not JSON: {error or 'nested too deeply'}") from None


def _check(value: Any) -> None:
    """Refuse what JSON would take and give back as something else."""
    # Exact types, since a subclass (a lazy text, an enum, a SafeString) comes back as its base.
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is float:
        if not math.isfinite(value):
            raise PayloadError(f"{value} is not JSON: use None or a text")
    elif kind is list:
        for item in value:
            _check(item)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise PayloadError(f"the key {key!r} would come back as a text: use str keys")
            _check(item)
    else:
        raise PayloadError(
            f"a {kind.__module__}.{kind.__qualname__} would not come back as one: "
            "use None, bool, int, float, str, list and dict"
        )
