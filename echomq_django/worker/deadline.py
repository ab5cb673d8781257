"""A time limit for code that runs in a thread."""

import ctypes
import threading
from types import TracebackType
from typing import Self

from echomq_django.exceptions import TaskTimeout

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Deadline:
    """Raise TaskTimeout in this thread when a block takes longer than `seconds`.

    It is a soft limit: the exception comes between two steps of Python, so a call that stays in C (a query, a
    download without a timeout of its own, a regular expression) is left to its end first. It comes without words, since
    it may come anywhere, at the end of the block too.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._over = self._fired = False

    def __enter__(self) -> Self:
        self._thread = ctypes.c_ulong(threading.get_ident())
        self._timer = threading.Timer(self._seconds, self._fire)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over = True
        self._timer.cancel()
        if self._fired and not isinstance(error, TaskTimeout):
            # It came too late: without this it would strike whatever this thread does next.
            _raise_in(self._thread, None)

    def _fire(self) -> None:
        with self._lock:
            if not self._over:
                self._fired = True
                _raise_in(self._thread, ctypes.py_object(TaskTimeout))
