"""Branded ids: three capital letters and a snowflake in base62, 14 characters in all.

A snowflake is ``(unix_ms - EPOCH) << 22 | node << 12 | sequence``: 41 bits of time, 10 of node, 12 of
sequence. Inside one namespace the byte order of ids is the order in which they were minted.
"""

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from .exceptions import InvalidId

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
EPOCH = 1_704_067_200_000
MAX = 2**63 - 1
LENGTH = 14
JOB = "JOB"

# Every Elixir node that is not distributed mints as node 68: sharing it would be sharing ids.
SHARED_NODE = 68
SEQUENCE = 1 << 12
NODES = 1 << 10

_NAMESPACE = re.compile(r"[A-Z]{3}")
_BRANDED = re.compile(r"[A-Z]{3}[0-9A-Za-z]{11}")
_DIGIT = {character: value for value, character in enumerate(ALPHABET)}
_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]


class Branded(NamedTuple):
    """Hold what an id says: its namespace and its snowflake."""

    namespace: str
    snowflake: int

    @property
    def milliseconds(self) -> int:
        """Give the unix time, in ms, at which the id was minted."""
        return (self.snowflake >> 22) + EPOCH

    @property
    def node(self) -> int:
        """Give the number of the process that minted the id, 0 to 1023."""
        return self.snowflake >> 12 & NODES - 1

    @property
    def sequence(self) -> int:
        """Give the id's place among those of its millisecond and node, 0 to 4095."""
        return self.snowflake & SEQUENCE - 1


def brand(namespace: str, snowflake: int) -> str:
    """Write a snowflake, or a primary key, as a branded id; InvalidId when it does not fit."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidId(f"{namespace!r} is not a namespace: use three capital letters, such as 'TEN'.")
    if not 0 <= snowflake <= MAX:
        raise InvalidId(f"{snowflake} does not fit an id: use a number from 0 to {MAX}.")
    return namespace + _base62(snowflake)


def _base62(number: int) -> str:
    # Two digits at a time, and written out: it is most of what minting costs.
    number, sixth = divmod(number, 3844)
    number, fifth = divmod(number, 3844)
    number, fourth = divmod(number, 3844)
    number, third = divmod(number, 3844)
    first, second = divmod(number, 3844)
    return f"{ALPHABET[first]}{_PAIRS[second]}{_PAIRS[third]}{_PAIRS[fourth]}{_PAIRS[fifth]}{_PAIRS[sixth]}"


def parse(text: str) -> Branded:
    """Read a branded id; InvalidId when it is none."""
    # fullmatch, not a "$": that would let a trailing newline through.
    if isinstance(text, str) and _BRANDED.fullmatch(text):
        snowflake = 0
        for character in text[3:]:
            snowflake = snowflake * 62 + _DIGIT[character]
        if snowflake <= MAX:
            return Branded(text[:3], snowflake)
    raise InvalidId(f"{text!r} is not an id: use three capital letters and 11 base62 characters.")


def check_job(text: str) -> str:
    """Give a job's id back; InvalidId when it is not one. Called before any key is built from it."""
    if parse(text).namespace != JOB:
        raise InvalidId(f"{text!r} is not the id of a job: those begin with {JOB!r}.")
    return text


def random_node() -> int:
    """Draw a node for this process: 0 to 1023, never the one that Elixir's processes share."""
    return secrets.choice([node for node in range(NODES) if node != SHARED_NODE])


class Mint:
    """Mint ids that only grow, whatever the clock does; safe to share between threads.

    Each new millisecond starts at a random place in the sequence, so that two processes which drew the
    same node seldom meet. More ids than a millisecond holds are borrowed from the ones to come.
    """

    def __init__(self, node: int | None = None, clock: Callable[[], float] = time.time) -> None:
        self.node = random_node() if node is None else node
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def snowflake(self) -> int:
        """Give the next snowflake of this mint."""
        now = int(self._clock() * 1000) - EPOCH
        with self._lock:
            if now > self._last >> 12:
                self._last = now << 12 | secrets.randbelow(SEQUENCE // 2)
            else:
                self._last += 1
            last = self._last
        return last >> 12 << 22 | self.node << 12 | last & SEQUENCE - 1


_mint = Mint()


def mint(namespace: str = JOB) -> str:
    """Mint a new id, unique to this process and, but for a collision of nodes, to all."""
    snowflake = _mint.snowflake()
    # Of our own there is nothing to check.
    return JOB + _base62(snowflake) if namespace == JOB else brand(namespace, snowflake)


def worker_name(name: str = "") -> str:
    """Name this process: a name or the host's, pid, and eight random hexadecimal digits, since pids come back."""
    label = re.sub(r"[^A-Za-z0-9._-]", "-", name or socket.gethostname())[:40]
    return f"{label}:{os.getpid()}:{secrets.token_hex(4)}"


def _reseed() -> None:
    global _mint
    _mint = Mint()


# A child would go on minting its parent's ids.
os.register_at_fork(after_in_child=_reseed)
