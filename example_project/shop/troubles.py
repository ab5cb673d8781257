"""What goes wrong in a real shop, called up by an order's note. Only the demo needs this file."""

import os
import signal
import time

CRASH = "crash"
FLAKY = "flaky gateway"
SLOW = "slow:"

SLOW_SECONDS = 7  # longer than the lease of the queue: only the heartbeat keeps the job


class GatewayDown(Exception):
    """The payment gateway did not answer. It will, next time."""


def before_the_receipt(note: str, attempt: int) -> None:
    """Be slow, or fail, when the note says so."""
    if note.startswith(SLOW):
        time.sleep(SLOW_SECONDS)
    if note == FLAKY and attempt == 1:
        raise GatewayDown("the payment gateway did not answer within 3 seconds")


def after_the_receipt(note: str, *, first_run: bool) -> None:
    """Kill this process when the note says so: at the worst moment, all written and nothing settled."""
    # Not "attempt 1": a run that was lost with its worker costs no attempt, so the next is 1 again.
    if note == CRASH and first_run:
        os.kill(os.getpid(), signal.SIGKILL)
