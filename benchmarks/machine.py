"""What the machine is, and how much of it somebody else used meanwhile."""

import os
import platform
import resource
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1


def describe() -> str:
    """Name the machine without its name."""
    return f"{CORES} shared cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


class Watch:
    """Measure what part of the machine processes used that are not ours; ours must have ended by then."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy(), _own()

    def foreign(self) -> float:
        """Give the part, 0 to 1, since this was made."""
        whole = (time.monotonic() - self._began) * CORES
        return min(max((_busy() - self._busy) - (_own() - self._own), 0.0) / whole, 1.0) if whole else 0.0


def cpu_seconds(pid: int) -> float:
    """Give the CPU time that a running process has used, its threads' included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_mb(pid: int) -> float:
    """Give a process's resident memory, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _busy() -> float:
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def _own() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
