"""Enqueue: one by one, each acknowledged before the next; and 500 at a time."""

from dataclasses import replace
from functools import partial

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER, RAW_BATCH, RAW_WIRE, TASK
from .run import running

TITLE = "Enqueue, jobs a second"
SINGLE, BULK = "one by one", "500 at once"
WIRE = replace(RAW_WIRE, name="raw: EVALSHA of our script")
BARE = replace(RAW_BATCH, name="raw: EVALSHA of a bare script")


def cases(options: Options) -> list[Case]:
    """List everybody; tasks and coroutines are enqueued alike, and have no bulk enqueue of their own."""
    singles = (BARE, WIRE, HANDLER, TASK, *options.peers)
    bulks = (BARE, WIRE, HANDLER, *(peer for peer in options.peers if peer.bulk))
    return [
        *(Case(each.name, partial(enqueue, each, "single", SINGLE, options.jobs, options.seconds)) for each in singles),
        *(Case(each.name, partial(enqueue, each, "bulk", BULK, options.jobs * 2, options.seconds)) for each in bulks),
    ]


def enqueue(contestant: Contestant, way: str, column: str, jobs: int, seconds: float) -> Figures:
    """Let a producer store jobs; no worker runs."""
    figures: Figures = {}
    with running(contestant, figures) as run:
        done = run.drive(way, jobs, float(seconds))
        figures[column] = done["jobs"] / done["seconds"]
    return figures
