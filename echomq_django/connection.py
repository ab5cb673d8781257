"""Clients: one pool per process and server, and single lines for whoever waits or beats.

redis-py would send a command again whose reply was lost. That is switched off: a Call says whether it may be
sent twice. A connection on which anything was raised is closed, or its next command would read this one's reply.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from . import conf, embedded, scripts
from .call import Call, Command
from .conf import AliasConfig
from .exceptions import EchoMQError, QueueFull, ServerUnavailable
from .fence import check_server

T = TypeVar("T")
logger = logging.getLogger("echomq_django")

CONNECT_TIMEOUT = 1.0
SOCKET_TIMEOUT = 2.0
RESEND_FOR = 3.0
"""Seconds for which a call that may be sent again is; a web request should not hang longer."""

# What a server says that is alive but does not serve now. None of these was carried out.
AWAY = (ConnectionError, ReadOnlyError, ClusterDownError, TryAgainError, MasterDownError)
AWAY_WORDS = (
    "BUSY", "LOADING", "READONLY", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MISCONF", "UNBLOCKED",
)  # fmt: skip

# These would change what replies look like, or when commands are sent again: ours to decide.
_OURS = (
    "decode_responses", "encoding", "encoding_errors", "protocol", "retry", "retry_on_timeout", "retry_on_error",
    "maint_notifications_config", "redis_connect_func", "parser_class", "connection_class", "legacy_responses",
)  # fmt: skip


def where(config: AliasConfig) -> str:
    """Name the server for a message: never its user, password or query."""
    if config.embedded:
        return f"the embedded server of {config.alias!r}"
    parts = urlsplit(config.location)
    if "@" in parts.path + parts.query + parts.fragment:
        # A password that is not percent-encoded has ended the host too early: what looks like one is not.
        return f"the server {config.alias!r}"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} ({config.alias!r})"


def parameters(config: AliasConfig) -> dict[str, Any]:
    """Turn a location and its options into what redis-py's connections take."""
    location = config.location
    if config.embedded:
        location = embedded.connect(config.embedded)
    scheme, _, rest = location.partition("://")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    try:
        options = {**parse_url(f"{scheme}://{rest}"), **config.options}
    except ValueError:
        # Its text, and so its cause, may quote the password.
        raise ImproperlyConfigured(
            f"ECHOMQ[{config.alias!r}]['LOCATION'] is not a URL: write {scheme}://user:password@host:port/db, with "
            "special characters of the password percent-encoded, or give the password in OPTIONS."
        ) from None
    connection_class = options.get("connection_class", Connection)
    for name in _OURS:
        options.pop(name, None)
    options.setdefault("socket_connect_timeout", CONNECT_TIMEOUT)
    options.setdefault("socket_timeout", SOCKET_TIMEOUT)
    return {
        **options,
        "connection_class": connection_class,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


class Client:
    """Carry calls to one server, over a pool of connections; safe to share between threads.

    A connection is fenced when it is made: the server's version, and the wire version that its users agreed on.
    """

    def __init__(self, config: AliasConfig, *, socket_timeout: float | None = None) -> None:
        self.config = config
        self._socket_timeout = socket_timeout
        self._pool: redis.ConnectionPool | None = None
        self._lock = threading.Lock()

    def _connections(self) -> redis.ConnectionPool:
        with self._lock:
            if self._pool is None:
                options = parameters(self.config)
                if self._socket_timeout is not None:
                    options["socket_timeout"] = self._socket_timeout
                # A pool with a bound of its own makes threads wait; the default one would fail them.
                bounded = "max_connections" in options
                kind = redis.BlockingConnectionPool if bounded else redis.ConnectionPool
                if not bounded:
                    options["max_connections"] = 2**31
                self._pool = kind(redis_connect_func=self._connected, **options)
            return self._pool

    def _connected(self, connection: Connection) -> None:
        try:
            connection.on_connect()
            check_server(connection, self.config.wire_version, where(self.config))
        except BaseException:
            # redis-py would keep a connection that was refused by anything but its own errors.
            connection.disconnect()
            raise

    def close(self) -> None:
        """Forget every connection; the next call looks the server up again. Calls under way come to their end."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.disconnect(inuse_connections=False)

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one go and read a reply for each; an error reply is given as its exception.

        ServerUnavailable when the connection fails: `unknown` says whether the commands were sent.
        """
        try:
            pool = self._connections()
            connection = pool.get_connection()
        except (RedisError, OSError) as error:
            raise self._unavailable(error, unknown=False) from error
        try:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            return [_reply(connection) for _ in commands]
        except BaseException as error:
            connection.disconnect()
            if isinstance(error, (RedisError, OSError)):
                raise self._unavailable(error, unknown=not isinstance(error, BusyLoadingError)) from error
            raise
        finally:
            pool.release(connection)

    def _unavailable(self, error: BaseException, *, unknown: bool) -> ServerUnavailable:
        if self.config.embedded:
            self.close()  # so that the next call starts it again, wherever it then listens
        message = f"{where(self.config)} does not answer ({type(error).__name__}: {error})"
        return ServerUnavailable(message, unknown=unknown)

    def attempt(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry out calls in one round trip, once: a value or an exception for each.

        ServerUnavailable when the connection fails. Only a script that the server did not know is sent again:
        it was not run.
        """
        replies = self.exchange([command for call in calls for command in call.commands])
        results = []
        at = 0
        for call in calls:
            own = [
                self._loaded(command) if isinstance(reply, NoScriptError) else reply
                for command, reply in zip(call.commands, replies[at:], strict=False)
            ]
            at += len(call.commands)
            failed = next((reply for reply in own if isinstance(reply, Exception) and not _borne(call, reply)), None)
            results.append(call.parse(own) if failed is None else translate(failed, call, self.config))
            if isinstance(failed, ReadOnlyError):
                # After a failover the name may stand for another server by now: ask again.
                self.close()
        return results

    def _loaded(self, command: Command) -> Any:
        """Load a script that the server has forgotten and run it: side by side, for a flush may come between."""
        script = scripts.BY_SHA[command[1]]
        reply: Any = None
        for _ in range(100):
            try:
                _, reply = self.exchange((("SCRIPT", "LOAD", script.source), command))
            except ServerUnavailable as error:
                return error  # the other replies of its round trip have come, and count
            if not isinstance(reply, NoScriptError):
                break
        return reply

    def run(self, call: Call[T]) -> T:
        """Carry out a call and give its value; sent again for a while when it may be. Raises EchoMQError."""
        return self.settle(call)[0]

    def settle(self, call: Call[T]) -> tuple[T, bool]:
        """Carry out a call as run does, and tell whether an earlier sending may have been carried out too."""
        deadline = time.monotonic() + RESEND_FOR
        pause = 0.01
        sent = False
        while True:
            try:
                result: Any = self.attempt([call])[0]
            except ServerUnavailable as error:
                sent = sent or error.unknown
                if (sent and not call.resend) or time.monotonic() + pause > deadline:
                    raise ServerUnavailable(_advice(call, error, sent), unknown=sent) from error
            else:
                if not isinstance(result, Exception):
                    return result, sent
                if not isinstance(result, ServerUnavailable) or time.monotonic() + pause > deadline:
                    raise result
            time.sleep(pause)
            pause = min(pause * 2, 0.2)


def _borne(call: Call[Any], reply: Exception) -> bool:
    return call.bears_wrong_types and str(reply).startswith("WRONGTYPE")


def _reply(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _advice(call: Call[Any], error: ServerUnavailable, sent: bool) -> str:
    if not sent:
        return f"{call.what}: {error}. Nothing was sent; try again when the server is back."
    return f"{call.what}: {error}. It may have been carried out; look before you repeat it."


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


_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def client(using: str = conf.DEFAULT_ALIAS) -> Client:
    """Give this process's client for a server."""
    found = _clients.get(using)
    if found is None:
        with _clients_lock:
            found = _clients.setdefault(using, Client(conf.alias(using)))
    return found


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("ECHOMQ", "DEBUG", "BASE_DIR"):
        with _clients_lock:
            stale = list(_clients.values())
            _clients.clear()
        for each in stale:
            each.close()


def _after_fork() -> None:
    # A child that used its parent's sockets would read its parent's replies; the lock may be held for ever.
    global _clients, _clients_lock
    _clients = {}
    _clients_lock = threading.Lock()


setting_changed.connect(_forget)
os.register_at_fork(after_in_child=_after_fork)
