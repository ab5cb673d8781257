"""Growth: what a job takes of the server's time when very many others wait, are scheduled, or are dead.

The crowd is made with the server's own commands, since a million enqueues are not what is measured.
"""

from functools import partial

import redis

from echomq_django import ids, keys

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER
from .run import START, Run, running

TITLE = "Script µs a job, in a crowd"
QUEUE = keys.of("raw")
FUTURE = 4_000_000_000_000
CHUNK = 2_000
MEASURED = 3_000
SLICES = 3


def cases(options: Options) -> list[Case]:
    """List every place in every size."""
    return [
        Case(f"{size:,} {place}", partial(growth, HANDLER, place, size, min(options.jobs, MEASURED)))
        for place in ("pending", "scheduled", "dead")
        for size in options.sizes
    ]


def growth(contestant: Contestant, place: str, size: int, jobs: int) -> Figures:
    """Enqueue some jobs beside a crowd, and let a worker run as many; the scripts' time by the server's own count.

    That count runs on while others have the server's CPU, so the least of several slices is taken.
    """
    figures: Figures = {}
    with running(contestant, figures) as run:
        crowd(run.client, place, size)
        run.marks.open_gate()
        slices = [_slice(run, jobs) for _ in range(SLICES)]
        figures["enqueue"], figures["claim and complete"] = map(min, zip(*slices, strict=True))
        figures["server MB"] = run.client.info("memory")["used_memory"] / 2**20
    return figures


def _slice(run: Run, jobs: int) -> tuple[float, float]:
    run.client.config_resetstat()
    stored = run.drive("single", jobs, 20.0)["stored"]
    enqueue = _script_micros(run.client) / stored
    run.client.config_resetstat()
    before = run.marks.tally().calls
    run.start_workers(1)
    run.until(lambda tally: tally.calls >= before + stored, 60.0, START)
    claim = _script_micros(run.client) / max(run.marks.tally().calls - before, 1)
    run.stop()
    return enqueue, claim


def crowd(client: "redis.Redis", place: str, size: int) -> None:
    """Put jobs into a place, with rows as an enqueue writes them."""
    zset, state, score = {
        "pending": (QUEUE.pending, "pending", 0),
        "scheduled": (QUEUE.schedule, "scheduled", FUTURE),
        "dead": (QUEUE.dead, "dead", 1_700_000_000_000),
    }[place]
    row = {"state": state, "attempts": 0, "payload": '{"order": 1, "sent": 0, "burn": 0}'}
    for first in range(0, size, CHUNK):
        pipe = client.pipeline(transaction=False)
        numbers = range(first, min(first + CHUNK, size))
        names = [ids.brand("JOB", (number + 1) << 22) for number in numbers]
        pipe.zadd(zset, {name: score + (number if score else 0) for name, number in zip(names, numbers, strict=True)})
        for name in names:
            pipe.hset(QUEUE.row(name), mapping=row)
        pipe.execute()


def _script_micros(client: "redis.Redis") -> float:
    return float(client.info("commandstats")["cmdstat_evalsha"]["usec"])
