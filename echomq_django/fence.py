"""What is asked of a server on every new connection: its version, and the wire version that its users agreed on."""

from collections.abc import Generator
from typing import Any

from redis.exceptions import ConnectionError, NoPermissionError, ResponseError

from . import keys
from .call import Command
from .exceptions import ServerTooOld, WireVersionMismatch


def checking(wire_version: str, where: str) -> Generator[Command, Any, None]:
    """Refuse a server that is too old, or that others use with another wire version.

    Yields one command after the other and is told the reply; an error reply as its exception.
    """
    # Every user may call HELLO, and its version is the one that counts: Valkey calls itself a Redis 7.2.
    version = server_version((yield "HELLO", "2"))
    if version < (7, 0):
        raise ServerTooOld(f"{where} is version {'.'.join(map(str, version))}. Use Redis 7.0 or later, or any Valkey.")
    # May be refused by a server that is full or a replica: what counts is what it then holds.
    yield "SET", keys.VERSION, wire_version, "NX"
    found = yield "GET", keys.VERSION
    if isinstance(found, NoPermissionError):
        return  # who may not see the fence may still be let work by whoever drew it
    if isinstance(found, ResponseError):
        # Busy, loading: unfenced it must not be used, and the next connection asks again.
        raise ConnectionError(f"it answered {str(found)!r}")
    if found is not None and found.decode(errors="replace") != wire_version:
        raise WireVersionMismatch(
            f"{where} is fenced for {found.decode(errors='replace')!r}, this program speaks {wire_version!r}. "
            "Set WIRE_VERSION to what the others use, or use another database."
        )


def server_version(hello: Any) -> tuple[int, ...]:
    """Read the version out of a reply of HELLO."""
    if not isinstance(hello, list):
        return (0,)  # Redis before 6.0 knows no HELLO
    facts = dict(zip(hello[::2], hello[1::2], strict=False))
    return tuple(int(part) for part in facts.get(b"version", b"0").split(b".")[:3] if part.isdigit())
