"""Idle: what a worker without work costs, its CPU and the commands that it sends."""

import threading
import time
from functools import partial

import redis

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER
from .machine import cpu_seconds, resident_mb
from .run import running

TITLE = "An idle worker"
SETTLE = 4.0


def cases(options: Options) -> list[Case]:
    """List ours and the peers."""
    return [Case(each.name, partial(idle, each, options.idle_seconds)) for each in (HANDLER, *options.peers)]


def idle(contestant: Contestant, seconds: float) -> Figures:
    """Watch one worker process, and those that it started, do nothing."""
    figures: Figures = {}
    with running(contestant, figures) as run:
        run.marks.open_gate()
        run.start_workers(1)
        time.sleep(SETTLE)
        run.check()
        pids = family(run.workers[0].pid)
        with Listener(run.url) as listener:
            used, began = sum(map(cpu_seconds, pids)), time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            figures["CPU, %"] = (sum(map(cpu_seconds, pids)) - used) / took * 100
        figures["commands a second"] = listener.commands / took
        figures["memory, MB"] = sum(map(resident_mb, pids))
    return figures


def family(pid: int) -> list[int]:
    """Give a process and its descendants."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [pid, *(each for child in children.read().split() for each in family(int(child)))]


class Listener:
    """Count the commands that clients send; what scripts do within the server is not counted."""

    def __init__(self, url: str) -> None:
        self.commands = 0
        self._client = redis.Redis.from_url(url)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._ready.set()
            for heard in monitor.listen():
                if heard["command"] == "ECHO over":
                    return
                self.commands += heard["client_type"] != "lua"

    def __enter__(self) -> "Listener":
        self._thread.start()
        self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.echo("over")
        self._thread.join(5)
        self._client.close()
