"""Latency: from before the enqueue is called to the start of the handler, in idle workers and under load."""

import statistics
import time
from dataclasses import replace
from functools import partial

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER, RAW_FUSED, TASK
from .run import Failed, Run, running

TITLE = "Latency, ms"
GAP = 0.02
"""Seconds between two jobs: by then the worker waits again."""
BURN_MICROS, LOAD_PER_SECOND = 1_000, 500
"""Half of one CPU."""
SETTLE = 1.5

BARE = replace(RAW_FUSED, name="raw: BLPOP and a claim")
CROWD = replace(HANDLER, work=("python", "-m", "benchmarks.many_workers", "10", "raw"))


def cases(options: Options) -> list[Case]:
    """List everybody with one idle worker; ours and the raw loop also with more, and with a busy one."""
    pings = options.pings
    return [
        *(Case(each.name, partial(idle, each, 1, 1, pings)) for each in (BARE, HANDLER, TASK, *options.peers)),
        *(Case(each.name, partial(idle, each, 10, 10, pings)) for each in (BARE, HANDLER)),
        *(Case(each.name, partial(idle, each, 10, 100, pings)) for each in (CROWD,)),
        *(Case(each.name, partial(loaded, each, pings)) for each in (BARE, HANDLER)),
    ]


def idle(contestant: Contestant, processes: int, workers: int, pings: int) -> Figures:
    """Send jobs now and then to workers that have nothing else to do."""
    figures: Figures = {}
    with running(contestant, figures) as run:
        run.marks.open_gate()
        run.start_workers(processes)
        _warm(run)
        run.drive("ping", pings, GAP)
        figures |= _quantiles(run, pings, f"{workers} idle worker{'s' if workers > 1 else ''}")
    return figures


def loaded(contestant: Contestant, pings: int) -> Figures:
    """Send jobs to a worker that is busy half of the time with others."""
    figures: Figures = {}
    with running(contestant, figures) as run:
        run.marks.open_gate()
        run.start_workers(1)
        _warm(run)
        load = run.start_drive("load", LOAD_PER_SECOND, pings * GAP * 1.5 + 1.0, BURN_MICROS)
        run.drive("ping", pings, GAP)
        run.driven(load)
        figures |= _quantiles(run, pings, "half loaded")
    return figures


def _warm(run: Run) -> None:
    """Wait until a worker has run a first job, and all have gone to wait."""
    run.drive("fill", 20, 5.0)
    deadline = time.monotonic() + 30
    while run.marks.tally().calls < 20:
        run.check()
        if time.monotonic() > deadline:
            raise Failed(f"no first job in 30 s: {run.tail('work.log')}")
        time.sleep(0.05)
    time.sleep(SETTLE)


def _quantiles(run: Run, pings: int, where: str) -> Figures:
    deadline = time.monotonic() + 10
    while len(run.marks.samples()) < pings and time.monotonic() < deadline:
        time.sleep(0.05)
    delays = sorted(delay / 1e6 for delay in run.marks.samples())
    if len(delays) < pings:
        raise Failed(f"only {len(delays)} of {pings} jobs came: {run.tail('work.log')}")
    return {f"p50, {where}": statistics.median(delays), f"p99, {where}": delays[int(len(delays) * 0.99)]}
