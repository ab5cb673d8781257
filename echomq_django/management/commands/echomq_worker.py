"""Run jobs until told to stop."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from echomq_django import conf, keys
from echomq_django.exceptions import EchoMQError
from echomq_django.worker import reload
from echomq_django.worker.options import Options
from echomq_django.worker.process import Process, end, exempt_the_project, log_to_stderr, signals
from echomq_django.worker.running import can_run, served_queues
from echomq_django.worker.supervisor import Supervisor


def whole(text: str) -> int:
    """Read an option that is a number from 1."""
    if not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def seconds(text: str) -> float:
    """Read an option that is a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def interval(text: str) -> float:
    """Read an option that is a time between two turns."""
    value = seconds(text)
    if value < 0.01:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0.01 seconds")
    return value


class Command(BaseCommand):
    """Parse the options, check the queues, and be a worker or the supervisor of several."""

    help = "Run the jobs of some queues."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the options of a worker."""
        flag = argparse.BooleanOptionalAction
        parser.add_argument("--queues", help="queues to serve, separated by commas; default: all in ECHOMQ and TASKS")
        parser.add_argument("--using", default=conf.DEFAULT_ALIAS, help="the server's name in ECHOMQ")
        parser.add_argument("--concurrency", type=whole, default=4, help="jobs at once in one process (4)")
        parser.add_argument("--processes", type=whole, default=1, help="worker processes (1)")
        parser.add_argument("--burst", action="store_true", help="end when nothing is pending, active or due soon")
        parser.add_argument("--max-jobs", type=whole, help="end a process after this many jobs")
        parser.add_argument("--max-idle-time", type=seconds, help="end after this many seconds without a job")
        parser.add_argument("--max-memory", type=whole, help="end a process that holds more than this many MB")
        parser.add_argument("--shutdown-timeout", type=seconds, default=30.0, help="seconds for running jobs (30)")
        parser.add_argument("--no-reap", action="store_true", help="leave lost jobs to others")
        parser.add_argument("--heartbeat-file", type=Path, help="touched whenever the server was reached")
        parser.add_argument("--worker-id", default="", help="a name to show instead of the host's")
        parser.add_argument("--autoreload", action=flag, help="restart when code changes; default: DEBUG")

    def handle(self, **given: Any) -> None:
        """Run until stopped."""
        options = self._options(given)
        log_to_stderr(options.verbosity)
        autoreload = settings.DEBUG and not options.burst if given["autoreload"] is None else given["autoreload"]
        if autoreload and not reload.is_child():
            sys.exit(reload.restart_for_ever())
        processes = given["processes"]
        exempt_the_project()
        try:
            worker = Supervisor(options, processes) if processes > 1 else Process(options)
            with signals(worker.stop, again=worker.abort):
                watcher = reload.Watcher(worker.stop)
                if autoreload:
                    watcher.start()
                code = worker.run()
        except EchoMQError as error:
            raise CommandError(str(error)) from error
        end(reload.RELOAD if watcher.has_changed else code, abandoned=worker.abandoned)

    def _options(self, given: dict[str, Any]) -> Options:
        try:
            config = conf.alias(given["using"])
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        names = given["queues"].split(",") if given["queues"] else served_queues(config)
        if not names:
            raise CommandError(f"neither ECHOMQ[{config.alias!r}] nor TASKS names a queue: name some with --queues.")
        for name in names:
            try:
                keys.check_queue(name)
            except EchoMQError as error:
                raise CommandError(str(error)) from error
            if not can_run(config, name):
                raise CommandError(
                    f"queue {name!r} has no HANDLER, and no EchoMQBackend in TASKS has it among its QUEUES: "
                    f"set ECHOMQ[{config.alias!r}]['QUEUES'][{name!r}]['HANDLER'] to the dotted path of a callable "
                    "that takes a job, or give the queue to a backend (Django 5.2: pip install echomq-django[tasks])."
                )
        taken = {name: given[name] for name in Options.__slots__ if name in given}
        return Options(**{**taken, "queues": tuple(dict.fromkeys(names)), "reap": not given["no_reap"]})
