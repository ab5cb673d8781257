"""A shop's queues on an afternoon: what the walks through the admin meet, and what the screenshots show."""

from datetime import timedelta

import redis

from echomq_django import connection, envelope, jobs, keys, transitions
from echomq_django.job import Claim
from echomq_django.tasks.context import progress_text

RECEIPT = "shop.tasks.send_receipt"
INVOICE = "shop.tasks.print_invoice"
IMPORT = "shop.tasks.import_orders"
DEAD = 64
"""More than a page of the list shows."""
MINUTE = 60_000


class GatewayDown(Exception):
    """The payment gateway does not answer."""


class AddressUnknown(Exception):
    """A customer has no address."""


def enqueue(queue: str, name: str, *args: object, delay: float | None = None) -> str:
    return jobs.enqueue(queue, envelope.encode(name, args, {}), name=name, delay=delay, max_attempts=3).id


def claim(queue: str) -> Claim:
    [found] = jobs.claim(queue, lease=timedelta(minutes=5))
    return found


def die(queue: str, name: str, error: Exception, *args: object) -> str:
    """Let a job fail for good."""
    enqueue(queue, name, *args)
    held = claim(queue)
    try:
        raise error
    except Exception as raised:
        jobs.retry(held, raised, max_attempts=1)
    return held.id


def bury(client: redis.Redis, number: int = DEAD) -> list[str]:
    """Let jobs of "mail" die, one a minute, each fourth for a reason of its own; their ids, the oldest first."""
    dead = []
    for order in range(1000, 1000 + number):
        if order % 4:
            error: Exception = GatewayDown("the payment gateway did not answer within 3 seconds")
            dead.append(die("mail", RECEIPT, error, order))
        else:
            error = AddressUnknown(f"the customer of order {order} has no address")
            dead.append(die("mail", INVOICE, error, order))
    now = jobs.now_ms()
    client.zadd(keys.of("mail").dead, {job_id: now - (number - at) * MINUTE for at, job_id in enumerate(dead)})
    return dead


def work(client: redis.Redis) -> str:
    """Let jobs wait, run and have run, let one worker be alive and one be silent; the id of a running job."""
    running = enqueue("default", IMPORT, "orders.csv")
    notes = [("progress", progress_text(312, 500, "orders read")), ("log", "order 1311: no currency, took EUR")]
    connection.client().run(transitions.annotate(keys.of("default"), claim("default"), notes))
    for order in range(9):
        enqueue("mail", RECEIPT, 2000 + order)
        enqueue("mail", RECEIPT, 3000 + order, delay=600 * (order + 1))
    claim("mail")
    announce(client, "web-1:4711:a1b2c3d4", "mail,default", silent=1)
    announce(client, "web-2:815:00ff00ff", "mail", silent=3000)
    this = jobs.now_ms() // MINUTE
    for ago in range(60):
        counts = {"completed": 40 + 17 * ago % 23, "failed": 2 + ago % 5}
        client.hset(keys.of("mail").minute(this - ago), mapping=counts)
    return running


def announce(client: redis.Redis, worker: str, queues: str, *, silent: int) -> None:
    """Let a worker have been heard some seconds ago."""
    host, pid, _ = worker.split(":")
    started_at = jobs.now_ms() - 5_000_000
    facts: dict[str, str | int] = {
        "host": host, "pid": pid, "queues": queues, "concurrency": 4, "busy": 1, "started_at": started_at,
    }  # fmt: skip
    connection.client().run(transitions.announce(worker, ttl_ms=86_400_000, facts=facts))
    client.zadd(keys.WORKERS, {worker: jobs.now_ms() - silent * 1000})
