"""The worker process that the demo starts, and its end in every case."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

# No autoreload, which DEBUG would turn on: a burst ends by itself.
COMMAND = ["echomq_worker", "--queues=orders", "--processes=2", "--concurrency=4", "--burst", "--no-autoreload"]
SECONDS_TO_STOP = 10


@contextmanager
def running(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the worker with its output in a log file; when the block is left, it has ended."""
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, settings.BASE_DIR / "manage.py", *COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A group of its own: Ctrl-C in the terminal must reach it once, from us, or the second
            # signal would tell it to drop its jobs.
            start_new_session=True,
        )
    try:
        yield worker
    finally:
        _end(worker)


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        worker.terminate()
    try:
        clean = worker.wait(SECONDS_TO_STOP) == 0
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # it hangs, or we are told a second time
        clean = False
    if not clean:
        # Its children may be left, even if it is gone itself: their group has its number.
        try:
            os.killpg(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        worker.wait()
