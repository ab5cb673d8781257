"""Return lost jobs and line up due ones, once or again and again."""

import json
import threading
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from echomq_django import conf, jobs
from echomq_django.exceptions import EchoMQError
from echomq_django.reaper import TURN, Reaper, Swept, sweep
from echomq_django.worker.process import log_to_stderr, signals

from .echomq_worker import interval, whole


class Command(BaseCommand):
    """Parse, sweep, print."""

    help = "Promote due jobs and take back those whose worker was lost. Safe beside workers and other reapers."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the options of a reaper."""
        how_often = parser.add_mutually_exclusive_group()
        how_often.add_argument("--once", action="store_true", help="sweep once and end; the default")
        how_often.add_argument("--interval", type=interval, help="sweep again after this many seconds, until stopped")
        parser.add_argument("--queues", help="queues to sweep, separated by commas; default: all that are known")
        parser.add_argument("--limit", type=whole, help="move at most this many jobs of each kind in a sweep")
        parser.add_argument("--dry-run", action="store_true", help="only count what would be moved")
        parser.add_argument("--format", choices=("text", "json"), default="text")
        parser.add_argument("--using", default=conf.DEFAULT_ALIAS, help="the server's name in ECHOMQ")

    def handle(self, **given: Any) -> None:
        """Sweep as asked; CommandError, and so exit code 1, when the server cannot be reached."""
        using = given["using"]
        log_to_stderr(given["verbosity"])
        try:
            named = given["queues"].split(",") if given["queues"] else None
            queues = jobs.queues(using=using) if named is None else named
            if given["dry_run"]:
                self._print([{"queue": queue, **asdict(jobs.lapsed(queue, using=using))} for queue in queues], given)
            elif given["interval"] is None:
                self._report([sweep(queue, limit=given["limit"], using=using) for queue in queues], given)
            else:
                self._again_and_again(named, given)
        except (EchoMQError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error

    def _again_and_again(self, named: list[str] | None, given: dict[str, Any]) -> None:
        stopped = threading.Event()
        using = given["using"]
        reaper = Reaper(
            lambda: jobs.queues(using=using) if named is None else named,
            interval=given["interval"],
            limit=given["limit"] or TURN,
            using=using,
        )
        with signals(lambda why: stopped.set()):
            reaper.run(stopped, lambda swept: self._report(swept, given))

    def _report(self, swept: list[Swept], given: dict[str, Any]) -> None:
        self._print([asdict(each) for each in swept], given)

    def _print(self, rows: list[dict[str, Any]], given: dict[str, Any]) -> None:
        if given["format"] == "json":
            self.stdout.write(json.dumps(rows))
            return
        for row in rows:
            facts = ", ".join(f"{name} {value}" for name, value in row.items() if name != "queue")
            self.stdout.write(f"{row['queue']}: {facts}")
        if not rows:
            self.stdout.write("There is no queue yet.")
