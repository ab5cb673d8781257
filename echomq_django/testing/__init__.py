"""For the tests of projects that use this package: backends without a server, and a queue that a test works off."""

from .backends import DummyBackend, ImmediateBackend, Note
from .draining import run_until_empty

__all__ = ["DummyBackend", "ImmediateBackend", "Note", "run_until_empty"]
