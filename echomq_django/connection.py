"""Clients: one pool per process and server, and single lines for whoever waits or beats.

A connection on which anything was raised is closed, or its next command would read this one's reply.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import redis
from django.core.signals import setting_changed
from redis.connection import Connection
from redis.exceptions import RedisError, ResponseError

from . import conf
from .address import parameters, where
from .call import Call, Command
from .conf import AliasConfig
from .exceptions import ServerUnavailable
from .fence import checking
from .sending import Exchange, Forget, Pause, Step, attempting, insisting, unavailable
from .steps import drive

T = TypeVar("T")

_resend_for: ContextVar[float | None] = ContextVar("echomq_resend_for", default=None)


@contextmanager
def resending_for(seconds: float) -> Iterator[None]:
    """Send this thread's calls again for so long and no longer: for whoever keeps a person waiting."""
    token = _resend_for.set(seconds)
    try:
        yield
    finally:
        _resend_for.reset(token)


class Client:
    """Carry calls to one server, over a pool of connections; safe to share between threads.

    A connection is fenced when it is made: the server's version, and the wire version that its users agreed on.
    `bounded=False` is for those who hold a connection each while they wait: `max_connections` says nothing of them.
    """

    def __init__(self, config: AliasConfig, *, socket_timeout: float | None = None, bounded: bool = True) -> None:
        self.config = config
        self._bounded = bounded
        self._socket_timeout = socket_timeout
        self._pool: redis.ConnectionPool | None = None
        self._lock = threading.Lock()

    def _connections(self) -> redis.ConnectionPool:
        with self._lock:
            if self._pool is None:
                options = parameters(self.config)
                if self._socket_timeout is not None:
                    options["socket_timeout"] = self._socket_timeout
                if not self._bounded and options.pop("max_connections", None) is not None:
                    options.pop("timeout", None)  # the pool's own: how long a thread waits for a connection
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
            drive(checking(self.config.wire_version, where(self.config)), partial(_ask, connection))
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
            raise self._unavailable(error, sent=False) from error
        try:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            return [_reply(connection) for _ in commands]
        except BaseException as error:
            connection.disconnect()
            if isinstance(error, (RedisError, OSError)):
                raise self._unavailable(error, sent=True) from error
            raise
        finally:
            pool.release(connection)

    def _unavailable(self, error: BaseException, *, sent: bool) -> ServerUnavailable:
        if self.config.embedded:
            self.close()  # so that the next call starts it again, wherever it then listens
        return unavailable(error, self.config, sent=sent)

    def _do(self, step: Step) -> Any:
        match step:
            case Exchange(commands):
                return self.exchange(commands)
            case Pause(seconds):
                return time.sleep(seconds)
            case Forget():
                return self.close()

    def attempt(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry out calls in one round trip, once: a value or an exception for each.

        ServerUnavailable when the connection fails. Only a script that the server did not know is sent again:
        it was not run.
        """
        return drive(attempting(calls, self.config), self._do)

    def run(self, call: Call[T]) -> T:
        """Carry out a call and give its value; sent again for a while when it may be. Raises EchoMQError."""
        return self.insist(call)[0]

    def insist(self, call: Call[T]) -> tuple[T, bool]:
        """Carry out a call as run does, and tell whether an earlier sending may have been carried out too."""
        return drive(insisting(call, self.config, _resend_for.get()), self._do)


def _ask(connection: Connection, command: Command) -> Any:
    connection.send_command(*command, check_health=False)
    return _reply(connection)


def _reply(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


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
