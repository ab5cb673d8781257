"""The calls of one turn of the link, and what to do with the result of each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from echomq_django.call import Call

Then = Callable[[Any], None]


@dataclass(slots=True)
class Plan:
    """Collect calls that go to the server in one round trip."""

    calls: list[Call[Any]] = field(default_factory=list)
    then: list[Then] = field(default_factory=list)

    def add(self, call: Call[Any], then: Then) -> None:
        """Send this call, and hand its value, or the exception that came instead, to `then`."""
        self.calls.append(call)
        self.then.append(then)


def forget(result: Any) -> None:
    """Want nothing of a result."""
