"""Load every script into a private server: what it refuses is a syntax error, with its line."""

import sys
from pathlib import Path

import redis

from echomq_django import embedded

SCRIPTS = sorted(Path("echomq_django/scripts").glob("*.lua"))


def main() -> int:
    server = embedded.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            return max([_load(client, path) for path in SCRIPTS], default=0)
    finally:
        server.stop()


def _load(client: redis.Redis, path: Path) -> int:
    try:
        client.script_load(path.read_text())
    except redis.ResponseError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
