"""What the server holds, to be compared before and after what a test does."""

from typing import Any

import redis

from tests import server


def dump(client: redis.Redis) -> dict[Any, tuple[Any, ...]]:
    """Read the whole keyspace but for receipts: they end by themselves within seconds, and a page may take some."""
    return {key: value for key, value in server.dump(client).items() if ":receipt:" not in str(key)}
