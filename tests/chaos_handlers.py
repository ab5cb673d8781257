"""The handler of the chaos tests: it writes down what it does, in a ledger that no crash can falsify.

A payload is `{"first": steps, "do": steps}`; the first ones are for the job's first claim only. A step is a list: the
name of a function below, and its arguments.
"""

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

from echomq_django import jobs

FOLDER = Path(os.environ["CHAOS_FOLDER"])
_ledger = os.open(FOLDER / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_kept: list[bytearray] = []


def handle(job: Any) -> None:
    note(job, "start")
    for step, *arguments in steps(job):
        STEPS[step](job, *arguments)
    note(job, "end")


def note(job: Any, mark: str) -> None:
    line = f"{job.id} {job.attempt} {job.token} {os.getpid()} {mark}\n"
    os.write(_ledger, line.encode())  # one write, so that lines of several processes do not mix


def steps(job: Any) -> list[list[Any]]:
    first = job.data.get("first", []) if job.token == 1 else []
    return [*first, *job.data.get("do", [])]


def sleep(job: Any, seconds: float) -> None:
    time.sleep(seconds)


def wait(job: Any, gate: str) -> None:
    """Wait for a file that the test makes, or for ever."""
    while not (FOLDER / gate).exists():
        time.sleep(0.02)


def fail(job: Any) -> None:
    raise RuntimeError("told to fail")


def kill(job: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze(job: Any, seconds: int) -> None:
    """Sleep in C without letting go of the interpreter's lock, so that no other thread runs."""
    ctypes.PyDLL(None).sleep(seconds)


def eat(job: Any, megabytes: int) -> None:
    _kept.append(bytearray(os.urandom(1)) * (megabytes << 20))


def enqueue(job: Any, number: int) -> None:
    for _ in range(number):
        jobs.enqueue(job.queue, {})


STEPS = {each.__name__: each for each in (sleep, wait, fail, kill, freeze, eat, enqueue)}
