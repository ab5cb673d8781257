"""The loop on which coroutines run: one thread, beside those for jobs that are functions."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from .outcome import Outcome

Job = Coroutine[Any, Any, Outcome]
Report = Callable[[Outcome | BaseException], None]


class Loop:
    """Run coroutines on one event loop in a thread of its own, which starts with the first of them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="echomq-loop", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, coroutine: Job, report: Report) -> None:
        """Run a coroutine; `report` hears its outcome, or what it raised, on the loop's thread."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, coroutine, report)

    def close(self, timeout: float) -> None:
        """Cancel what still runs, let it clean up for `timeout` seconds, and end the thread."""
        with self._lock:
            if self._loop is None:
                return
        self._loop.call_soon_threadsafe(self._cancel, timeout)
        self._thread.join(timeout + 0.5)

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _begin(self, coroutine: Job, report: Report) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._finish(coroutine, report))
        # The loop itself holds tasks weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, coroutine: Job, report: Report) -> None:
        try:
            ended: Outcome | BaseException = await coroutine
        except BaseException as error:
            ended = error
        report(ended)

    def _cancel(self, timeout: float) -> None:
        assert self._loop is not None
        for task in self._tasks:
            task.cancel()
        self._loop.create_task(self._stop_when_empty(timeout))

    async def _stop_when_empty(self, timeout: float) -> None:
        assert self._loop is not None
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)
        self._loop.stop()
