"""Clients for coroutines: one pool per process, server and event loop. The rules are those of every client.

A connection on which anything was raised is closed, a cancellation included: the reply is still under way, and
the next command would read it.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from django.core.signals import setting_changed
from redis import connection as sync
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, ResponseError

from . import conf
from .address import parameters, where
from .call import Call, Command
from .conf import AliasConfig
from .exceptions import ServerUnavailable
from .fence import checking
from .sending import Exchange, Forget, Pause, Step, attempting, settling, unavailable
from .steps import adrive

T = TypeVar("T")

MOST_CONNECTIONS = 50
"""How many connections a loop opens to a server at most; more calls than that at once wait for their turn."""

WAIT_FOR_TURN = 20.0
"""Seconds for which a call waits for its turn; redis-py's own pools wait as long."""

_KINDS: dict[type, type[AbstractConnection]] = {
    sync.Connection: Connection,
    sync.SSLConnection: SSLConnection,
    sync.UnixDomainSocketConnection: UnixDomainSocketConnection,
}


class Pool:
    """Keep one loop's open connections to a server, and lend each to one call at a time."""

    def __init__(self, config: AliasConfig, options: dict[str, Any]) -> None:
        self._config = config
        self._kind = _KINDS[options.pop("connection_class")]
        self._turns = asyncio.Semaphore(options.pop("max_connections", MOST_CONNECTIONS))
        self._wait = options.pop("timeout", WAIT_FOR_TURN)
        # One time limit around a whole exchange: redis-py's own around each write and read cost more than the
        # rest of it, and before Python 3.12 can swallow a cancellation.
        self.patience = options.pop("socket_timeout")
        options["retry"] = Retry(NoBackoff(), 0)
        del options["maint_notifications_config"]  # only redis-py's pools switch them on
        self._options = options
        self._idle: list[AbstractConnection] = []
        self._closed = False
        self._life = self._until_closed()

    async def open(self) -> None:
        """Begin: nothing is connected before the first call needs it."""
        await anext(self._life)

    async def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        await self._life.aclose()

    async def _until_closed(self) -> AsyncGenerator[None]:
        # asyncio.run() ends every generator that was begun before it closes its loop: the last moment at which
        # connections can be closed in good order.
        try:
            yield
        finally:
            self._closed = True
            idle, self._idle = self._idle, []
            await asyncio.shield(
                asyncio.gather(*(connection.disconnect() for connection in idle), return_exceptions=True)
            )

    async def take(self) -> AbstractConnection:
        """Lend a connection that is open and fenced; wait for one when there are enough."""
        if self._turns.locked():
            try:
                async with asyncio.timeout(self._wait):
                    await self._turns.acquire()
            except TimeoutError:
                raise ConnectionError(f"no connection became free within {self._wait:g} s") from None
        else:
            await self._turns.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if await _usable(connection):
                    return connection
            return await self._opened()
        except BaseException:
            self._turns.release()
            raise

    async def _opened(self) -> AbstractConnection:
        connection = self._kind(socket_timeout=None, **self._options)
        try:
            async with asyncio.timeout(self.patience):
                await connection.connect()
                steps = checking(self._config.wire_version, where(self._config))
                await adrive(steps, partial(_ask, connection))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def give_back(self, connection: AbstractConnection) -> None:
        """Take back a connection whose every reply has been read."""
        if self._closed:
            await self.drop(connection)
        else:
            self._idle.append(connection)
            self._turns.release()

    async def drop(self, connection: AbstractConnection) -> None:
        """Close a connection that must not be used again; does not wait, for this may be a cancelled call's end."""
        self._turns.release()
        await connection.disconnect(nowait=True)


async def _usable(connection: AbstractConnection) -> bool:
    """Say whether an idle connection is open and has nothing to read; close it otherwise."""
    # The one with the longer name is that of redis-py before 8.
    can_read = getattr(connection, "can_read", None) or connection.can_read_destructive
    usable = False
    try:
        with suppress(RedisError, OSError):
            usable = not await can_read()
    finally:
        if not usable:
            await connection.disconnect(nowait=True)
    return usable


class AsyncClient:
    """Carry calls to one server, from the coroutines of one event loop."""

    def __init__(self, config: AliasConfig) -> None:
        self.config = config
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    async def _connections(self) -> Pool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    # An embedded server is started when it does not run, which takes a while.
                    embedded = self.config.embedded
                    options = await asyncio.to_thread(parameters, self.config) if embedded else parameters(self.config)
                    pool = Pool(self.config, options)
                    await pool.open()
                    self._pool = pool
        return self._pool

    async def close(self) -> None:
        """Forget every connection; the next call looks the server up again. Calls under way come to their end."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def close_soon(self) -> None:
        """Close from a callback of the loop."""
        self._closing = asyncio.get_running_loop().create_task(self.close())

    async def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one go and read a reply for each; an error reply is given as its exception.

        ServerUnavailable when the connection fails: `unknown` says whether the commands were sent.
        """
        try:
            pool = await self._connections()
            connection = await pool.take()
        except (RedisError, OSError) as error:
            raise await self._unavailable(error, sent=False) from error
        try:
            async with asyncio.timeout(pool.patience):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                replies = [await _reply(connection) for _ in commands]
        except BaseException as error:
            await pool.drop(connection)
            if isinstance(error, (RedisError, OSError)):
                raise await self._unavailable(error, sent=True) from error
            raise
        await pool.give_back(connection)
        return replies

    async def _unavailable(self, error: BaseException, *, sent: bool) -> ServerUnavailable:
        if self.config.embedded:
            await self.close()  # so that the next call starts it again, wherever it then listens
        return unavailable(error, self.config, sent=sent)

    async def _do(self, step: Step) -> Any:
        match step:
            case Exchange(commands):
                return await self.exchange(commands)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Forget():
                return await self.close()

    async def attempt(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry out calls in one round trip, once: a value or an exception for each."""
        return await adrive(attempting(calls, self.config), self._do)

    async def run(self, call: Call[T]) -> T:
        """Carry out a call and give its value; sent again for a while when it may be. Raises EchoMQError."""
        return (await self.settle(call))[0]

    async def settle(self, call: Call[T]) -> tuple[T, bool]:
        """Carry out a call as run does, and tell whether an earlier sending may have been carried out too."""
        return await adrive(settling(call, self.config), self._do)


async def _ask(connection: AbstractConnection, command: Command) -> Any:
    await connection.send_command(*command, check_health=False)
    return await _reply(connection)


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


_clients: dict[tuple[asyncio.AbstractEventLoop, str], AsyncClient] = {}
_clients_lock = threading.Lock()
_parents: list[Any] = []


def client(using: str = conf.DEFAULT_ALIAS) -> AsyncClient:
    """Give the running loop's client for a server."""
    loop = asyncio.get_running_loop()
    found = _clients.get((loop, using))
    if found is None:
        with _clients_lock:
            for each in [each for each in _clients if each[0].is_closed()]:
                del _clients[each]
            found = _clients.setdefault((loop, using), AsyncClient(conf.alias(using)))
    return found


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("ECHOMQ", "DEBUG", "BASE_DIR"):
        with _clients_lock:
            stale = list(_clients.items())
            _clients.clear()
        for (loop, _alias), each in stale:
            with suppress(RuntimeError):  # the loop is closed, and so are its connections
                loop.call_soon_threadsafe(each.close_soon)


def _after_fork() -> None:
    # As for the other clients. These are kept, unused: to be collected they would want their loop, the parent's.
    global _clients, _clients_lock
    _parents.append(_clients)
    _clients = {}
    _clients_lock = threading.Lock()


setting_changed.connect(_forget)
os.register_at_fork(after_in_child=_after_fork)
