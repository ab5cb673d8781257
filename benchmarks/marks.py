"""The clock of all contestants: what every handler calls, and how the harness reads it.

A thread that runs handlers has a slot of its own in a file that all processes map, so that a call costs well under a
microsecond, the same for everybody, and no lock. The first call of each thread waits at a gate until all worker
processes have a job: the time in which they start is not measured. Knows no queue: the peers import this too.
"""

import contextlib
import fcntl
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = struct.Struct("=qq")  # whether the gate is open, slots taken
SLOT = struct.Struct("=qqqq")  # pid, first call, calls, latest call; ns of the machine's monotonic clock
LATEST = struct.Struct("=qq")
SLOTS = 1024
SIZE = HEADER.size + SLOTS * SLOT.size
SAMPLE = struct.Struct("=q")

_here = threading.local()
_map: mmap.mmap | None = None
_samples = -1
_write = LATEST.pack_into
_now = time.perf_counter_ns


def hit(argument: dict[str, Any]) -> None:
    """Be the whole of a handler: note that a job has run, and do what its argument says."""
    try:
        slot = _here.slot
    except AttributeError:
        slot = _here.slot = _arrive()
    slot[1] += 1
    now = _now()
    _write(_map, slot[0], slot[1], now)
    if argument["sent"]:
        os.write(_samples, SAMPLE.pack(now - argument["sent"]))
    if argument["burn"]:
        burn(argument["burn"])


def argument(order: int, *, sent: int = 0, burn: int = 0) -> dict[str, int]:
    """Make the small argument of a job: when it was sent, ns, if that matters; and µs of CPU to burn."""
    return {"order": order, "sent": sent, "burn": burn}


def burn(micros: int) -> None:
    """Use this thread's share of a CPU for so long."""
    end = time.thread_time_ns() + micros * 1000
    while time.thread_time_ns() < end:
        pass


def _arrive() -> list[int]:
    """Take a slot, and wait until the gate opens: offset of the calls, and their number."""
    global _map, _samples
    path = os.environ["BENCH_MARKS"]
    with open(path, "r+b") as file:
        if _map is None:
            _samples = os.open(f"{path}.samples", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            _map = mmap.mmap(file.fileno(), SIZE)
        fcntl.lockf(file, fcntl.LOCK_EX)
        is_open, taken = HEADER.unpack_from(_map)
        offset = HEADER.size + taken * SLOT.size
        SLOT.pack_into(_map, offset, os.getpid(), 0, 0, 0)
        HEADER.pack_into(_map, 0, is_open, taken + 1)
    while not _map[0]:
        time.sleep(0.0005)
    SLOT.pack_into(_map, offset, os.getpid(), _now(), 0, 0)
    return [offset + 16, 0]


def _after_fork() -> None:
    global _here
    _here = threading.local()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Tally:
    """Hold how many jobs have run, in how many processes, and between when and when, ns."""

    calls: int
    first: int
    latest: int
    pids: frozenset[int]

    @property
    def rate(self) -> float:
        """Give the jobs per second between the first one's start and the last one's."""
        return (self.calls - 1) * 1e9 / (self.latest - self.first) if self.calls > 1 else 0.0


class Marks:
    """Be the harness's side of the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)

    def open_gate(self) -> None:
        """Let the handlers run."""
        self._map[0] = 1

    def tally(self) -> Tally:
        """Read all slots."""
        taken = HEADER.unpack_from(self._map)[1]
        slots = [SLOT.unpack_from(self._map, HEADER.size + number * SLOT.size) for number in range(taken)]
        begun = [slot for slot in slots if slot[2]]
        return Tally(
            calls=sum(slot[2] for slot in begun),
            first=min((slot[1] for slot in begun), default=0),
            latest=max((slot[3] for slot in begun), default=0),
            pids=frozenset(slot[0] for slot in slots),
        )

    def samples(self) -> list[int]:
        """Give the delays that were noted, ns, as they came."""
        with contextlib.suppress(FileNotFoundError):
            return [delay for (delay,) in SAMPLE.iter_unpack(Path(f"{self.path}.samples").read_bytes())]
        return []
