"""Steps: what to do next, decided apart from doing it, so that threads and event loops go by the same rules."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def drive(steps: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Do each step and tell what came of it, until there is a value; what was raised is raised in the steps."""
    try:
        step = next(steps)
        while True:
            try:
                came = do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(came)
    except StopIteration as end:
        value: T = end.value
        return value


async def adrive(steps: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]]) -> T:
    """Do as drive does, where doing is awaited."""
    try:
        step = next(steps)
        while True:
            try:
                came = await do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(came)
    except StopIteration as end:
        value: T = end.value
        return value
