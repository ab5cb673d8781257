"""A call: commands to send together, and how to read their replies. Knows no server."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Command = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Hold commands to send together, and how to read their replies.

    `resend` says that the call does no harm when it is carried out twice, so that a client whose reply was lost
    may send it again.
    """

    what: str
    commands: tuple[Command, ...]
    parse: Callable[[Sequence[Any]], T]
    resend: bool = False
    bears_wrong_types: bool = False
    """Whether `parse` takes a WRONGTYPE error for a reply: a page is not lost for one broken row."""


def first_reply(replies: Sequence[Any]) -> Any:
    """Give the only reply as it is."""
    return replies[0]


def words(replies: Sequence[Any]) -> list[str]:
    """Read a reply that is a list of words."""
    return [each.decode() for each in replies[0]]


def word(replies: Sequence[Any]) -> str:
    """Read a reply that is one word."""
    reply: bytes = replies[0]
    return reply.decode()


def unix_ms(reply: Sequence[bytes]) -> int:
    """Read a reply of TIME."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def pairs(flat: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    """Read a flat list of names and values."""
    return zip(flat[::2], flat[1::2], strict=True)


def shown(name: bytes) -> str:
    """Read a name as people are shown it: anything can be written by hand, and must not hide the others."""
    return name.decode(errors="backslashreplace")


def items(reply: Any) -> Sequence[bytes]:
    """Read a list; one of a wrong type has no items."""
    return [] if isinstance(reply, Exception) else reply


def mapping(reply: Any) -> dict[bytes, bytes]:
    """Read a hash; one of a wrong type has no fields."""
    return {} if isinstance(reply, Exception) else dict(pairs(reply))
