"""How a call is carried out: what is sent, what is sent again, and what its error replies mean. Touches no socket.

redis-py would send a command again whose reply was lost. That is switched off: a Call says whether it may be
sent twice, and these steps, which every client takes, go by that.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)

from . import scripts
from .address import where
from .call import Call, Command
from .conf import AliasConfig
from .exceptions import EchoMQError, QueueFull, ServerUnavailable

T = TypeVar("T")

RESEND_FOR = 3.0
"""Seconds for which a call that may be sent again is; a web request should not hang longer."""

# What a server says that is alive but does not serve now. None of these was carried out.
AWAY = (ConnectionError, ReadOnlyError, ClusterDownError, TryAgainError, MasterDownError)
AWAY_WORDS = (
    "BUSY", "LOADING", "READONLY", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MISCONF", "UNBLOCKED",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send commands in one go and tell a reply for each."""

    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Forget:
    """Use no connection again that is open now."""


Step: TypeAlias = Exchange | Pause | Forget
Steps: TypeAlias = Generator[Step, Any, T]


def attempting(calls: Sequence[Call[Any]], config: AliasConfig) -> Steps[list[Any]]:
    """Carry out calls in one round trip, once: a value or an exception for each.

    Only a script that the server did not know is sent again: it was not run.
    """
    replies = yield Exchange([command for call in calls for command in call.commands])
    results = []
    at = 0
    for call in calls:
        own = []
        for command, reply in zip(call.commands, replies[at:], strict=False):
            own.append((yield from _loading(command)) if isinstance(reply, NoScriptError) else reply)
        at += len(call.commands)
        failed = next((reply for reply in own if isinstance(reply, Exception) and not _borne(call, reply)), None)
        results.append(call.parse(own) if failed is None else translate(failed, call, config))
        if isinstance(failed, ReadOnlyError):
            # After a failover the name may stand for another server by now: ask again.
            yield Forget()
    return results


def _loading(command: Command) -> Steps[Any]:
    """Load a script that the server has forgotten and run it: side by side, for a flush may come between."""
    script = scripts.BY_SHA[command[1]]
    reply: Any = None
    for _ in range(100):
        try:
            _, reply = yield Exchange((("SCRIPT", "LOAD", script.source), command))
        except ServerUnavailable as error:
            return error  # the other replies of its round trip have come, and count
        if not isinstance(reply, NoScriptError):
            break
    return reply


def insisting(call: Call[T], config: AliasConfig, resend_for: float | None = None) -> Steps[tuple[T, bool]]:
    """Carry out a call, again for a while when it may be; its value, and whether an earlier sending may count too."""
    deadline = time.monotonic() + (RESEND_FOR if resend_for is None else resend_for)
    pause = 0.01
    sent = False
    while True:
        try:
            [result] = yield from attempting([call], config)
        except ServerUnavailable as error:
            sent = sent or error.unknown
            if (sent and not call.resend) or time.monotonic() + pause > deadline:
                raise ServerUnavailable(_advice(call, error, sent), unknown=sent) from error
        else:
            if not isinstance(result, Exception):
                return result, sent
            if not isinstance(result, ServerUnavailable) or time.monotonic() + pause > deadline:
                raise result
        yield Pause(pause)
        pause = min(pause * 2, 0.2)


def _borne(call: Call[Any], reply: Exception) -> bool:
    return call.bears_wrong_types and str(reply).startswith("WRONGTYPE")


def _advice(call: Call[Any], error: ServerUnavailable, sent: bool) -> str:
    if not sent:
        return f"{call.what}: {error}. Nothing was sent; try again when the server is back."
    return f"{call.what}: {error}. It may have been carried out; look before you repeat it."


def unavailable(error: BaseException, config: AliasConfig, *, sent: bool) -> ServerUnavailable:
    """Turn what broke a connection into our exception: `unknown` when something `sent` may have been carried out."""
    reason = str(error) or "no answer in time"
    message = f"{where(config)} does not answer ({type(error).__name__}: {reason})"
    return ServerUnavailable(message, unknown=sent and not isinstance(error, BusyLoadingError))


def translate(error: Exception, call: Call[Any], config: AliasConfig) -> EchoMQError:
    """Turn an error reply into our exception, which says what was being done, and where."""
    if isinstance(error, EchoMQError):
        return error
    # redis-py has classes for some of these and leaves their first word out of the text.
    first_word = str(error).partition(" ")[0]
    if isinstance(error, OutOfMemoryError) or first_word == "OOM":
        return QueueFull(
            f"{call.what}: {where(config)} is at its maxmemory. Nothing was stored; let workers drain it, or raise it."
        )
    if isinstance(error, AWAY) or first_word in AWAY_WORDS:
        return ServerUnavailable(f"{call.what}: {where(config)} does not serve now ({error})")
    return EchoMQError(f"{call.what}: {where(config)} answered {str(error)!r}")
