"""Those who are always measured: our own worker, and the raw loops that show what the server can do."""

from .contestant import Contestant

SETTINGS = {"DJANGO_SETTINGS_MODULE": "benchmarks.settings"}


def ours(kind: str, queue: str, *options: str, **env: str) -> Contestant:
    """Give our worker as it is installed, with its defaults."""
    command = ("python", "-m", "django", "echomq_worker", "--queues", queue, "--verbosity", "0", *options)
    return Contestant(f"echomq-django {kind}", "benchmarks.ours", command, kind, env=SETTINGS | env)


def raw(name: str, module: str, *options: str) -> Contestant:
    """Give a bare loop."""
    return Contestant(name, f"benchmarks.{module}", ("python", "-m", f"benchmarks.{module}", *options))


HANDLER = ours("handler", "raw")
TASK = ours("task", "default")
COROUTINE = ours("coroutine", "default")
OURS = (HANDLER, TASK, COROUTINE)

RAW_BATCH = raw("raw: 32 in one script", "raw_bare", "32", "fused")
RAW_WIRE = raw("raw: our scripts, 32", "raw_wire", "32")
RAW_FUSED = raw("raw: one a round trip, fused", "raw_bare", "1", "fused")
RAW_APART = raw("raw: one a round trip, claim + complete", "raw_bare", "1", "apart")
RAW = (RAW_BATCH, RAW_WIRE, RAW_FUSED, RAW_APART)
