"""What goes wrong in a real shop, called up by an order's note. Only the demo needs this file."""

import os
import signal
import time

from echomq_django.tasks import EchoMQContext

CRASH = "crash"
FLAKY = "flaky gateway"
SLOW = "slow:"

SLOW_SECONDS = 7  # longer than the lease of the queue: only the heartbeat keeps the job


class GatewayDown(Exception):
    """The payment gateway did not answer. It will, next time."""


def before_the_receipt(note: str, context: EchoMQContext) -> None:
    """Be slow, or fail, when the note says so."""
    if note.startswith(SLOW):
        for second in range(SLOW_SECONDS):
            context.progress(second, SLOW_SECONDS, note.removeprefix(SLOW).strip())
            time.sleep(1)
    if note == FLAKY and context.attempt == 1:
        raise GatewayDown("the payment gateway did not answer within 3 seconds")


def after_the_receipt(note: str, *, first_run: bool) -> None:
    """Kill this process when the note says so: at the worst moment, all written and nothing settled."""
    # Not "attempt 1": a run that was lost with its worker costs no attempt, so the next is 1 again.
    if note == CRASH and first_run:
        os.kill(os.getpid(), signal.SIGKILL)
