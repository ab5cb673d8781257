"""The connections of one event loop to one server: each is fenced when it is made, and lent to one call at a time."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from redis import connection as sync
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, ResponseError

from .address import where
from .call import Command
from .conf import AliasConfig
from .fence import checking
from .steps import adrive

MOST_CONNECTIONS = 10
"""How many connections a loop opens to a server at most; more calls than that at once wait for their turn."""

WAIT_FOR_TURN = 20.0
"""Seconds for which a call waits for its turn; redis-py's own pools wait as long."""

GRACE = 0.05
"""Seconds more for a loop to read what has come, when other code has kept it from looking for too long."""

_KINDS: dict[type, type[AbstractConnection]] = {
    sync.Connection: Connection,
    sync.SSLConnection: SSLConnection,
    sync.UnixDomainSocketConnection: UnixDomainSocketConnection,
}


class Pool:
    """Keep one loop's open connections to a server. Takes what `address.parameters` gives."""

    def __init__(self, config: AliasConfig, options: dict[str, Any]) -> None:
        self._config = config
        self._kind = _KINDS[options.pop("connection_class")]
        self._turns = asyncio.Semaphore(options.pop("max_connections", MOST_CONNECTIONS))
        self._wait = options.pop("timeout", WAIT_FOR_TURN)
        self._patience: float | None = options["socket_timeout"]
        del options["maint_notifications_config"]  # only redis-py's own pools would switch these on
        self._options = {**options, "retry": Retry(NoBackoff(), 0)}
        self._idle: list[AbstractConnection] = []
        self._closed = False

    async def take(self) -> AbstractConnection:
        """Lend a connection; wait for one when there are enough."""
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
        connection = self._kind(**self._options)

        async def ask(command: Command) -> Any:
            [reply] = await self.exchange(connection, (command,))
            return reply

        try:
            await connection.connect()
            # From now on exchange sets the limit. redis-py's own is around each write and read, at the cost of a
            # task for each write before Python 3.12, where a cancellation can get lost besides.
            connection.socket_timeout = None
            await adrive(checking(self._config.wire_version, where(self._config)), ask)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def exchange(self, connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one go and read a reply for each, before the time limit; an error reply as its exception."""
        async with asyncio.timeout(None) as limit:
            with _expiring(limit, self._patience):
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                return [await _reply(connection) for _ in commands]

    async def give_back(self, connection: AbstractConnection) -> None:
        """Take back a connection of which every reply has been read."""
        if self._closed:
            await self.drop(connection)
        else:
            self._idle.append(connection)
            self._turns.release()

    async def drop(self, connection: AbstractConnection) -> None:
        """Close a connection that must not be used again. Never waits: a cancelled call ends here."""
        self._turns.release()
        await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back. Never waits."""
        for connection in self._retired():
            await connection.disconnect(nowait=True)

    async def end(self) -> None:
        """Close as close does, and wait until it is done: the loop is about to be closed."""
        await asyncio.gather(*(connection.disconnect() for connection in self._retired()), return_exceptions=True)

    def _retired(self) -> list[AbstractConnection]:
        self._closed = True
        idle, self._idle = self._idle, []
        return idle


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


@contextmanager
def _expiring(limit: asyncio.Timeout, seconds: float | None) -> Iterator[None]:
    """Let a limit expire some seconds from now, and not before the loop has looked at its sockets then."""
    if seconds is None:
        yield
        return
    loop = asyncio.get_running_loop()
    late = loop.call_later(seconds, lambda: limit.reschedule(loop.time() + GRACE))
    try:
        yield
    finally:
        late.cancel()


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
