"""When to try again. Pure: numbers in, numbers out."""

import random
from collections.abc import Callable

EXPONENTIAL = "exponential"
FIXED = "fixed"
KINDS = (EXPONENTIAL, FIXED)

# A job whose task no worker knows is looked at again this often, in seconds, and is dead after a day.
DEFER_FLOOR, DEFER_CAP = 5.0, 60.0
DEFER_LIMIT = 86_400.0

ATTEMPTS_MAX = 10**9
"""The most attempts that a job can be given."""


def is_number_of_attempts(value: object) -> bool:
    """Say whether a value can be the maximum of a job's attempts."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= ATTEMPTS_MAX


def backoff(attempt: int, *, base: float, cap: float, kind: str = EXPONENTIAL) -> float:
    """Give the longest delay, in seconds, after the failure of an attempt (the first is 1)."""
    if kind == FIXED:
        return min(base, cap)
    # The cap comes first: 2 ** 5000 is no float.
    doublings = min(max(attempt, 1) - 1, 63)
    return min(base * 2.0**doublings, cap)


def jittered(delay: float, draw: Callable[[], float] = random.random) -> float:
    """Draw a delay between nothing and the longest ("full jitter"), so that failures do not come back in step.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    return delay * draw()


def deferral(age: float) -> float:
    """Give the seconds until a job is looked at again whose task is not known since `age` seconds."""
    return min(max(age, DEFER_FLOOR), DEFER_CAP)
