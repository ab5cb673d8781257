"""What the demo shows: a plan, a progress bar, a table."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from echomq_django import jobs
from shop.demo import queue
from shop.demo.results import Results, listed

SECONDS_BETWEEN_LOOKS = 0.1


def watch(console: Console, total: int, working: Callable[[], bool]) -> None:
    """Draw how many jobs are through, until the worker has ended."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[places]}", style="dim"), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=total, places="")
            last_look = False
            while not last_look:
                last_look = not working()  # asked before the look, so that the last one is after the end
                now = jobs.counts(queue.QUEUE)
                progress.update(
                    bar,
                    completed=total - queue.unsettled(now),
                    places=f"active {now.active} · schedule {now.schedule} · dead {now.dead}",
                )
                time.sleep(0 if last_look else SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        console.print("Stopping, as soon as the jobs that run have ended. Ctrl-C again stops at once.")
        raise


def summary(results: Results) -> Table:
    """Lay out what happened."""
    table = Table(title="What happened to the orders", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right")
    table.add_column()
    table.add_row("receipts written", str(len(results.receipts)), "a row and a file each")
    table.add_row("retried", str(len(results.retried)), _why("failed, then written", results.retried))
    table.add_row(
        "recovered after the crash",
        str(len(results.recovered)),
        _why("their worker was killed, they ran again", results.recovered),
    )
    table.add_row("dead", str(len(results.dead)), "failed at every attempt")
    return table


def reasons(results: Results) -> Table:
    """Lay out why the dead jobs died."""
    table = Table(title="Dead orders", title_justify="left")
    table.add_column("order", style="bold")
    table.add_column("last error", overflow="fold")
    for job in results.dead:
        table.add_row(job.number, Text(job.reason))  # as text: an error may hold rich's [markup]
    return table


def _why(reason: str, numbers: frozenset[str]) -> str:
    return f"{reason}: {listed(numbers)}" if numbers else ""
