"""Every move, as a Call that some client will run. Knows keys and words, no server.

One function per script: it names the script's keys and turns the words of its reply into values.
"""

from .claims import Claimed, annotate, claim, complete, defer, extend, recover, release, retry
from .limits import ERRORS_KEPT, LOGS_KEPT, MAX_BATCH, PROMOTIONS, RECEIPT_TTL_MS
from .moves import Reaped, advance, enqueue, expire, promote, reap, remove, requeue, revise
from .queues import announce, farewell, pause, register, resume, wake

__all__ = [
    "ERRORS_KEPT",
    "LOGS_KEPT",
    "MAX_BATCH",
    "PROMOTIONS",
    "RECEIPT_TTL_MS",
    "Claimed",
    "Reaped",
    "advance",
    "annotate",
    "announce",
    "claim",
    "complete",
    "defer",
    "enqueue",
    "expire",
    "extend",
    "farewell",
    "pause",
    "promote",
    "reap",
    "recover",
    "register",
    "release",
    "remove",
    "requeue",
    "resume",
    "retry",
    "revise",
    "wake",
]
