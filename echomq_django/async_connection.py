"""Clients for coroutines: one per process, server and event loop. What they send again is decided for all in sending.

A connection on which anything was raised is closed, a cancellation included: the reply is still under way, and
the next command would read it.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from django.core.signals import setting_changed
from redis.exceptions import RedisError

from . import conf
from .address import parameters
from .async_pool import Pool
from .call import Call, Command
from .conf import AliasConfig
from .exceptions import ServerUnavailable
from .sending import Exchange, Forget, Pause, Step, attempting, insisting, unavailable
from .steps import adrive

T = TypeVar("T")


class AsyncClient:
    """Carry calls to one server, from the coroutines of one event loop."""

    def __init__(self, config: AliasConfig) -> None:
        self.config = config
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._life: AsyncGenerator[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def _connections(self) -> Pool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    # An embedded server that does not run is started, which takes a while.
                    embedded = self.config.embedded
                    options = await asyncio.to_thread(parameters, self.config) if embedded else parameters(self.config)
                    self._pool = Pool(self.config, options)
                    if self._life is None:
                        self._life = self._until_the_loop_ends()
                        await anext(self._life)
        return self._pool

    async def _until_the_loop_ends(self) -> AsyncGenerator[None]:
        # asyncio.run() ends every generator that was begun before it closes its loop: the last moment at which
        # connections can be closed in good order.
        try:
            yield
        finally:
            if self._pool is not None:
                await self._pool.end()

    async def close(self) -> None:
        """Forget every connection; the next call looks the server up again. Calls under way come to their end."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def close_soon(self) -> None:
        """Close, from a callback of the loop."""
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
            replies = await pool.exchange(connection, commands)
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
        return (await self.insist(call))[0]

    async def insist(self, call: Call[T]) -> tuple[T, bool]:
        """Carry out a call as run does, and tell whether an earlier sending may have been carried out too."""
        return await adrive(insisting(call, self.config), self._do)


_clients: dict[tuple[asyncio.AbstractEventLoop, str], AsyncClient] = {}
_clients_lock = threading.Lock()
_of_parents: list[Any] = []


def client(using: str = conf.DEFAULT_ALIAS) -> AsyncClient:
    """Give the running loop's client for a server."""
    loop = asyncio.get_running_loop()
    found = _clients.get((loop, using))
    if found is None:
        with _clients_lock:
            for ended in [each for each in _clients if each[0].is_closed()]:
                del _clients[ended]
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
    # As for the other clients; but these are kept, unused: when they are collected they want the parent's loop.
    global _clients, _clients_lock
    _of_parents.append(_clients)
    _clients = {}
    _clients_lock = threading.Lock()


setting_changed.connect(_forget)
os.register_at_fork(after_in_child=_after_fork)
