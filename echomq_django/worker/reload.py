"""Restart the worker when code changes, for development.

Django's own reloader would end the process from under its jobs. Here the child finishes what runs, as it does at
SIGTERM, and ends with a code for which its parent starts it again.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from django.utils import autoreload

logger = logging.getLogger("echomq_django.worker")

RELOAD = 3
"""The exit code with which Django's reloader asks for a restart."""

LOOK_EVERY = 0.5
"""Seconds between two looks at the files."""


def is_child() -> bool:
    """Say whether this process is the one that works, and not the one that restarts it."""
    return os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true"


def restart_for_ever() -> int:
    """Start this very command as a child, again each time that it asks for it; its last exit code."""
    environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
    child: subprocess.Popen[bytes] | None = None
    stopped = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        # A Ctrl-C has reached the child already: it is in our process group.
        if child is not None and number == signal.SIGTERM:
            child.send_signal(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, pass_on)
    while not stopped:
        child = subprocess.Popen(autoreload.get_child_arguments(), env=environment)
        if stopped:
            child.terminate()  # the signal came while there was no child to pass it on to
        code = child.wait()
        if stopped or code in (0, 2) or code < 0:
            return 0 if code == RELOAD else code if code >= 0 else 128 - code
        if code != RELOAD:
            logger.error("the worker ended with code %d; it starts again when code changes", code)
            _wait_for_change(lambda: stopped)
    return 0


def _wait_for_change(enough: Callable[[], bool]) -> None:
    """Wait until a file that this process watches has changed: the child ended of what was wrong in one."""
    reloader = autoreload.StatReloader()
    former = dict(reloader.snapshot_files())
    while not enough() and dict(reloader.snapshot_files()) == former:
        time.sleep(LOOK_EVERY)


class Watcher:
    """Watch the code in a thread, and call `changed` once when some of it has changed."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self.has_changed = False
        self._changed = changed

    def start(self) -> None:
        """Begin to watch."""
        autoreload.file_changed.connect(self._notice)
        reloader = autoreload.get_reloader()
        main = threading.main_thread()
        threading.Thread(target=reloader.run, args=(main,), name="echomq-reload", daemon=True).start()

    def _notice(self, sender: Any, file_path: Path, **kwargs: Any) -> bool:
        if not self.has_changed:
            self.has_changed = True
            self._changed(f"{Path(file_path).name} has changed")
        return True  # so that Django does not end the process
