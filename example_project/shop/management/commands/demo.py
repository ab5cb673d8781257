import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from echomq_django.exceptions import EchoMQError
from shop import receipts
from shop.demo import check, queue, results, screen, worker
from shop.orders import read_orders

PLAN = """\
This will
  1. delete the receipts of the last demo, and every job of the queue "orders" on {server}
  2. read {file}: {orders} orders, some of them bad
  3. enqueue one job per order
  4. start a worker of 2 processes with 4 threads each (its log: {log})
  5. wait until nothing is left to do, and check the receipts and the dead against the file
"""
NEXT = """
Next: make serve    the shop, and the admin with the queue, in a browser
      make worker   a worker that stays, and waits for jobs"""


class Command(BaseCommand):
    help = "Send the orders file through the queue, show what became of each order, and check that it is right."
    requires_migrations_checks = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--timeout", type=float, default=80, help="seconds after which to give up (80)")

    def handle(self, *, timeout: float, **options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a plain kill takes the worker along too
        console, orders = Console(highlight=False), read_orders(settings.ORDERS_FILE)
        names = {"server": queue.server(), "file": settings.ORDERS_FILE.name, "log": settings.WORKER_LOG.name}
        self.stdout.write(PLAN.format(orders=len(orders), **names))
        try:
            found = self.work(console, orders, timeout)
        except KeyboardInterrupt:
            raise CommandError("Stopped, and the worker too. The next demo starts clean.", returncode=130) from None
        except EchoMQError as error:
            raise CommandError(str(error)) from error
        console.print(screen.summary(found), screen.reasons(found), sep="\n\n")
        if wrong := check.differences(check.expect(orders), found):
            told = "\n  - ".join(["This is not what the orders file asks for:", *wrong])
            raise CommandError(f"{told}\nThe worker's log is {settings.WORKER_LOG}")
        self.stdout.write(NEXT)

    def work(self, console: Console, orders: list[dict[str, str]], timeout: float) -> results.Results:
        deadline = time.monotonic() + timeout
        queue.empty()
        receipts.clear()
        queue.fill(orders)
        with worker.running(settings.WORKER_LOG) as process:
            screen.watch(console, len(orders), lambda: process.poll() is None and time.monotonic() < deadline)
            worker_exit = process.poll()
        return results.collect(worker_exit)
