"""Drain: jobs that were enqueued beforehand, from the first one's start to the last one's, in 1 and 2 processes."""

from functools import partial

import redis

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER, OURS, RAW
from .run import running

TITLE = "Drain, jobs a second"
BURN_MICROS = 1_000


def cases(options: Options) -> list[Case]:
    """List everybody with 1 and 2 processes; our handler also with jobs that burn a millisecond of CPU."""
    everybody = (*OURS, *RAW, *options.peers)
    plain = [
        Case(each.name, partial(drain, each, processes, options.jobs, options.seconds))
        for each in everybody
        for processes in (1, 2)
    ]
    burning = [
        Case(f"{HANDLER.name}, 1 ms of CPU", partial(drain, HANDLER, processes, options.jobs // 10, 10.0, BURN_MICROS))
        for processes in (1, 2)
    ]
    return plain + burning


def drain(contestant: Contestant, processes: int, jobs: int, seconds: float, burn: int = 0) -> Figures:
    """Let a contestant's workers run jobs until all are done or the time is over."""
    figures: Figures = {}
    title = f"{processes} process{'es' if processes > 1 else ''}"
    with running(contestant, figures) as run:
        stored = run.drive("fill", jobs, float(seconds), burn)["stored"]
        run.client.config_resetstat()
        began = server_seconds(run.client)
        run.start_workers(processes)
        run.begin(processes)
        tally = run.until(lambda tally: tally.calls >= stored, seconds)
        figures[title] = tally.rate
        figures[f"_server µs a job, {title}"] = (server_seconds(run.client) - began) * 1e6 / tally.calls
        figures[f"_worker processes seen, {title}"] = len(tally.pids)
        script = run.client.info("commandstats").get("cmdstat_evalsha")
        if script:
            figures[f"_script µs a job, {title}"] = script["usec"] / tally.calls
    return figures


def server_seconds(client: "redis.Redis") -> float:
    """Give the CPU time that the server has used."""
    used = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])
