"""The command: run the measurements, in turn and again, print the tables, and the ratios last."""

import argparse
import datetime
import json
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import django
import redis

from echomq_django import embedded

from . import cost, drain, enqueue, growth, idle, latency, machine, memory, orm, page, report, targets
from .case import Options
from .peers.gather import gather
from .run import Failed

MEASUREMENTS: dict[str, ModuleType] = {
    "drain": drain, "enqueue": enqueue, "latency": latency, "idle": idle, "cost": cost,
    "growth": growth, "orm": orm, "memory": memory,
}  # fmt: skip
ONCE = ("idle", "cost", "growth", "memory")
"""What varies little, and takes long: measured in one round."""


def main(arguments: list[str]) -> None:
    """Do as told on the command line."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was started is ended
    given = parse(arguments)
    results = load(given.out) if given.report else measure(given)
    for name, what in results["peers"].items():
        print(f"{name}: {what}")
    for name in results["measurements"]:
        print(*report.lines(results, name, MEASUREMENTS[name].TITLE), sep="\n")
    print(*report.crowding(results), sep="\n")
    print(*targets.lines(results), sep="\n")
    if given.page:
        page.write(results, {name: module.TITLE for name, module in MEASUREMENTS.items()})


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("measurements", nargs="*", choices=[*MEASUREMENTS, []], help="default: all")
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs of a drain (30000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="the most that a drain or an enqueue takes (5)")
    parser.add_argument("--pings", type=int, default=200, help="jobs whose latency is taken (200)")
    parser.add_argument("--idle-seconds", type=float, default=30.0, help="how long an idle worker is watched (30)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="crowds of growth")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"], help="those of the ORM's jobs")
    parser.add_argument("--memory-jobs", type=int, default=1_000_000, help="jobs after which memory is taken (1000000)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds (3)")
    parser.add_argument("--only", default="", help="only rows that hold one of these words, separated by commas")
    parser.add_argument("--peers", default="", help='names of peers, separated by spaces, or "all"')
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks.json"), help="where the figures are kept")
    parser.add_argument("--page", action="store_true", help="write docs/explanation/performance.md and its plot")
    parser.add_argument("--report", action="store_true", help="measure nothing: print what --out holds")
    return parser.parse_args(arguments)


def load(path: Path) -> dict[str, Any]:
    """Read the figures of an earlier run."""
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run every case of a round, then the next round; keep the figures after each run."""
    names = given.measurements or list(MEASUREMENTS)
    peers, told = gather(given.peers)
    for name, what in told.items():
        print(f"{name}: {what}", file=sys.stderr, flush=True)
    results = {"about": about(given), "measurements": names, "peers": told, "runs": []}
    options = Options(
        jobs=given.jobs, seconds=given.seconds, pings=given.pings, idle_seconds=given.idle_seconds,
        sizes=tuple(given.sizes), memory_jobs=given.memory_jobs, databases=tuple(given.databases), peers=peers,
    )  # fmt: skip
    words = [word for word in given.only.split(",") if word]
    for name in names:
        cases = [case for case in MEASUREMENTS[name].cases(options) if not words or any(w in case.row for w in words)]
        for turn in range(1 if name in ONCE else given.repeat):
            for case in cases:
                run: dict[str, Any] = {"measurement": name, "row": case.row, "round": turn}
                try:
                    run["figures"] = case.run()
                except Failed as error:
                    run["failed"] = str(error)
                results["runs"].append(run)
                print(progress(run), file=sys.stderr, flush=True)
                given.out.parent.mkdir(parents=True, exist_ok=True)
                given.out.write_text(json.dumps(results, indent=1))
    return results


def progress(run: dict[str, Any]) -> str:
    """Write one run on a line."""
    head = f"{run['measurement']} {run['round'] + 1}: {run['row']}: "
    if "failed" in run:
        return head + f"failed: {run['failed']}"
    figures = run["figures"]
    told = ", ".join(
        f"{column} {report.number(value)}" for column, value in figures.items() if column in report.shown({"": figures})
    )
    crowded = figures["foreign"] > report.CROWDED
    return head + told + (f" (other processes used {figures['foreign']:.0%} of the machine)" if crowded else "")


def about(given: argparse.Namespace) -> dict[str, Any]:
    """Say when, where and with what the figures were taken."""
    binary = embedded.find_binary()
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine.describe(),
        "server": f"{binary.name.title()} {'.'.join(map(str, binary.version))}",
        "versions": {"django": django.__version__, "redis": redis.__version__, "hiredis": _hiredis()},
        "options": {"jobs": given.jobs, "seconds": given.seconds, "pings": given.pings, "repeat": given.repeat},
    }


def _hiredis() -> str:
    try:
        return version("hiredis")
    except PackageNotFoundError:
        return "none"


if __name__ == "__main__":
    main(sys.argv[1:])
