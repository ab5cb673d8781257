"""Cost: what one job takes of the server: commands, time and bytes."""

import time
from functools import partial
from typing import Any

import redis

from .case import Case, Figures, Options
from .contestant import Contestant
from .field import HANDLER, TASK
from .run import running

TITLE = "What a job takes of the server"
JOBS = 5_000


def cases(options: Options) -> list[Case]:
    """List a handler's jobs and a task's."""
    return [Case(each.name, partial(cost, each, min(options.jobs, JOBS))) for each in (HANDLER, TASK)]


def cost(contestant: Contestant, jobs: int) -> Figures:
    """Store jobs one by one, and run them."""
    figures: Figures = {}
    with running(contestant, figures) as run:
        client = run.client
        run.drive("single", 0, 1.0)  # loads the script, registers the queue
        memory = client.info("memory")["used_memory_dataset"]
        client.config_resetstat()
        jobs = int(run.drive("single", jobs, 60.0)["stored"])
        figures |= _spent(client, jobs, "enqueue")
        figures["bytes, pending"] = (client.info("memory")["used_memory_dataset"] - memory) / jobs
        rows = [client.memory_usage(key) for key in client.scan_iter("*:job:*", count=1000)]
        figures["bytes, its row"] = sum(size or 0 for size in rows) / len(rows)
        client.config_resetstat()
        run.start_workers(1)
        run.begin(1)
        run.until(lambda tally: tally.calls >= jobs + 1, 60.0)
        time.sleep(0.2)  # the last are settled
        figures |= _spent(client, jobs + 1, "run")
    return figures


def _spent(client: "redis.Redis", jobs: int, what: str) -> Figures:
    stats: dict[str, Any] = client.info("commandstats")
    network = client.info("stats")
    sent = {name: each["calls"] for name, each in stats.items() if name.startswith("cmdstat_evalsha")}
    inner = {name: each["calls"] for name, each in stats.items() if name.startswith("cmdstat_") and name not in sent}
    return {
        f"scripts, {what}": sum(sent.values()) / jobs,
        f"commands within, {what}": sum(inner.values()) / jobs,
        f"script µs, {what}": stats["cmdstat_evalsha"]["usec"] / jobs,
        f"bytes in, {what}": network["total_net_input_bytes"] / jobs,
        f"bytes out, {what}": network["total_net_output_bytes"] / jobs,
    }
