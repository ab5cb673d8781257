"""Print how many jobs are where."""

import json
import time
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from echomq_django import conf, jobs
from echomq_django.exceptions import EchoMQError

from .echomq_worker import interval

COLUMNS = ("pending", "active", "schedule", "dead", "quarantine", "completed", "failed")


class Command(BaseCommand):
    """Count, print, and do it again when asked."""

    help = "Count the jobs of each queue by place, and list the workers."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the options of a look."""
        parser.add_argument("--queues", help="queues to count, separated by commas; default: all that are known")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        parser.add_argument("--watch", type=interval, help="print again after this many seconds, until Ctrl-C")
        parser.add_argument("--using", default=conf.DEFAULT_ALIAS, help="the server's name in ECHOMQ")

    def handle(self, **given: Any) -> None:
        """Look as often as asked."""
        try:
            while True:
                stats = self._look(given["queues"], given["using"])
                self.stdout.write(json.dumps(stats) if given["format"] == "json" else self._table(stats))
                if given["watch"] is None:
                    return
                time.sleep(given["watch"])
        except KeyboardInterrupt:
            return
        except (EchoMQError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error

    def _look(self, names: str | None, using: str) -> dict[str, Any]:
        queues = names.split(",") if names else jobs.queues(using=using)
        return {
            "queues": [
                {
                    "queue": queue,
                    **asdict(jobs.counts(queue, using=using)),
                    "oldest_pending_seconds": jobs.oldest_pending_age(queue, using=using),
                }
                for queue in queues
            ],
            "workers": [{**asdict(worker), "alive": worker.alive} for worker in jobs.workers(using=using)],
        }

    def _table(self, stats: dict[str, Any]) -> str:
        lines = [f"{'queue':<20}" + "".join(f"{name:>11}" for name in COLUMNS) + f"{'oldest':>11}"]
        for row in stats["queues"]:
            age = row["oldest_pending_seconds"]
            oldest = "-" if age is None else f"{age:.0f} s"
            name = row["queue"] + (" (paused)" if row["paused"] else "")
            lines.append(f"{name:<20}" + "".join(f"{row[column]:>11}" for column in COLUMNS) + f"{oldest:>11}")
        for worker in stats["workers"]:
            facts = worker["facts"]
            lines.append(
                f"worker {worker['id']}: {facts.get('busy', '?')} of {facts.get('concurrency', '?')} busy, "
                f"queues {facts.get('queues', '?')}, heard {worker['silent_ms'] / 1000:.0f} s ago"
                + ("" if worker["alive"] else ": probably dead")
            )
        return "\n".join(lines if stats["workers"] else [*lines, "no workers"])
