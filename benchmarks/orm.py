"""ORM: a job with one get and one update, beside a bare loop that does the same without a queue."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import ours
from .machine import Watch
from .run import Failed, running

TITLE = "A job with one get and one update, jobs a second"
ITEMS = 100
WORKER = ours("handler", "raw", "--concurrency", "1", BENCH_HANDLER="benchmarks.handlers.get_and_update")
LOOP = replace(WORKER, name="raw: a loop without a queue", work=("python", "-m", "benchmarks.orm_loop"))


def cases(options: Options) -> list[Case]:
    """List both databases, with the queue and without; the queue with one thread and with four."""
    four = ours("handler", "raw", "--concurrency", "4", BENCH_HANDLER="benchmarks.handlers.get_and_update")
    contestants = (
        LOOP,
        replace(WORKER, name="echomq-django, 1 thread"),
        replace(four, name="echomq-django, 4 threads"),
    )
    return [
        Case(each.name, partial(orm, each, kind, min(options.jobs, 5_000), options.seconds))
        for kind in options.databases
        for each in contestants
    ]


def orm(contestant: Contestant, kind: str, jobs: int, seconds: float) -> Figures:
    """Let a worker run jobs that use a database of their own."""
    figures: Figures = {}
    watch = Watch()
    with database(kind) as url:
        contestant = replace(contestant, env={**contestant.env, "BENCH_DATABASE": url, "BENCH_ITEMS": str(ITEMS)})
        with running(contestant, figures) as run:
            run.drive("setup", 0)
            stored = run.drive("fill", jobs, float(seconds))["stored"]
            run.start_workers(1)
            run.begin(1)
            figures[kind] = run.until(lambda tally: tally.calls >= stored, seconds).rate
    figures["foreign"] = watch.foreign()  # PostgreSQL's processes are ours too, and have ended only now
    return figures


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Give the address of an empty database; Failed where there is none to be had."""
    with tempfile.TemporaryDirectory(prefix="bench-db-", ignore_cleanup_errors=True) as name:
        if kind == "sqlite":
            yield f"sqlite:{name}/items.sqlite3"
            return
        with postgresql(Path(name)):
            yield f"postgresql:{name}"


@contextmanager
def postgresql(folder: Path) -> Iterator[None]:
    """Run a PostgreSQL of our own, on a socket in a folder; as the user postgres when we are root, as it demands."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "/").parent]
    if not (found[-1] / "initdb").exists():
        raise Failed("PostgreSQL is not installed: apt install postgresql")
    data = folder / "data"
    folder.chmod(0o777)
    prefix = ["runuser", "-u", "postgres", "--"] if Path.home() == Path("/root") else []
    _run([*prefix, str(found[-1] / "initdb"), "-A", "trust", "-U", "postgres", "-D", str(data)])
    # Our own child, not pg_ctl's: what it used is then counted as ours.
    command = [*prefix, str(found[-1] / "postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses="]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd="/", stdout=log, stderr=log)
    try:
        _until_ready(server, [str(found[-1] / "pg_isready"), "-q", "-h", str(folder)])
        yield
    finally:
        if server.poll() is None:
            _run([*prefix, str(found[-1] / "pg_ctl"), "-s", "-w", "-m", "fast", "-D", str(data), "stop"])
        server.wait(20)


def _until_ready(server: "subprocess.Popen[bytes]", ask: list[str]) -> None:
    deadline = time.monotonic() + 30
    while subprocess.run(ask, check=False).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise Failed("PostgreSQL did not start")
        time.sleep(0.05)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", check=False)
    if done.returncode:
        raise Failed(f"{Path(command[-1]).name}: {done.stderr.strip()[-300:]}")
