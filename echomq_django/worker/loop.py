"""The loop on which coroutines run: one thread, beside those for jobs that are functions."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger("echomq_django.worker")

Job = Coroutine[Any, Any, None]


class Loop:
    """Run coroutines on one event loop in a thread of its own, which starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="echomq-loop", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._handed_over: deque[Job] = deque()
        self._will_look = False
        self._ending = False

    def run(self, coroutine: Job) -> None:
        """Have a coroutine run; it says itself how it ended. RuntimeError when the loop has ended."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread.start()
            self._handed_over.append(coroutine)
            # To wake the loop is a system call: once for all that come before it looks.
            if not self._will_look:
                self._loop.call_soon_threadsafe(self._look)
                self._will_look = True

    def close(self, timeout: float) -> None:
        """Cancel what still runs, let it clean up for `timeout` seconds, and end the thread."""
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                return
        self._loop.call_soon_threadsafe(self._end, timeout)
        self._thread.join(timeout + 0.5)

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            while not self._ending:
                self._run_until_it_stops(self._loop)
            # The connections of this loop are closed here, among others.
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _run_until_it_stops(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            # Of a task that a job's coroutine has started: asyncio lets only these two through, to whoever runs the
            # loop. Whoever awaits that task gets them as well, and the other jobs go on.
            logger.warning("a coroutine raised %r; the loop goes on", error)

    def _look(self) -> None:
        with self._lock:
            self._will_look = False
        while self._handed_over:
            self._start(self._handed_over.popleft())

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        # The loop itself holds tasks weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, timeout: float) -> None:
        assert self._loop is not None
        # Those that the jobs have started and left behind, too.
        running = asyncio.all_tasks(self._loop)
        for task in running:
            task.cancel()
        self._start(self._stop_after(running, timeout))

    async def _stop_after(self, running: set[asyncio.Task[Any]], timeout: float) -> None:
        assert self._loop is not None
        if running:
            await asyncio.wait(running, timeout=timeout)
        self._ending = True
        self._loop.stop()
