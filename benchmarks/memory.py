"""Memory: what a worker holds after very many jobs, beside what it held after the first."""

import time
from functools import partial

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER, TASK
from .machine import resident_mb
from .run import START, running

TITLE = "Memory of a worker, MB"
CHUNK = 50_000
PATIENCE = 120.0


def cases(options: Options) -> list[Case]:
    """List a handler's worker and a task's."""
    return [Case(each.name, partial(memory, each, options.memory_jobs)) for each in (HANDLER, TASK)]


def memory(contestant: Contestant, jobs: int) -> Figures:
    """Let one worker run many jobs, enqueued in chunks, and look at its resident memory."""
    figures: Figures = {}
    chunk = min(CHUNK, max(jobs // 2, 1))
    with running(contestant, figures) as run:
        run.marks.open_gate()
        run.start_workers(1)
        stored, first = 0, 0.0
        while stored < jobs:
            stored += int(run.drive("fill", min(chunk, jobs - stored), PATIENCE, patience=PATIENCE * 2)["stored"])
            reached = stored
            run.until(lambda tally, reached=reached: tally.calls >= reached, PATIENCE, START)
            time.sleep(0.1)
            first = first or resident_mb(run.workers[0].pid)
        figures[f"after the first {chunk:,}"] = first
        figures[f"after {jobs:,}"] = resident_mb(run.workers[0].pid)
        figures["_growth"] = resident_mb(run.workers[0].pid) / first
    return figures
