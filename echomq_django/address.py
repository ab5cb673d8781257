"""Where a server is: its name for a message, and what redis-py's connections to it take."""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from . import embedded
from .conf import AliasConfig

CONNECT_TIMEOUT = 1.0
SOCKET_TIMEOUT = 2.0

# These would change what replies look like, or when commands are sent again: ours to decide.
_OURS = (
    "decode_responses", "encoding", "encoding_errors", "protocol", "retry", "retry_on_timeout", "retry_on_error",
    "maint_notifications_config", "redis_connect_func", "parser_class", "connection_class", "legacy_responses",
)  # fmt: skip


def where(config: AliasConfig) -> str:
    """Name the server for a message: never its user, password or query."""
    if config.embedded:
        return f"the embedded server of {config.alias!r}"
    parts = urlsplit(config.location)
    if "@" in parts.path + parts.query + parts.fragment:
        # A password that is not percent-encoded has ended the host too early: what looks like one is not.
        return f"the server {config.alias!r}"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} ({config.alias!r})"


def parameters(config: AliasConfig) -> dict[str, Any]:
    """Turn a location and its options into what redis-py's connections take."""
    location = config.location
    if config.embedded:
        location = embedded.connect(config.embedded)
    scheme, _, rest = location.partition("://")
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme)
    try:
        told = parse_url(f"{scheme}://{rest}")
    except ValueError:
        # Its text, and so its cause, may quote the password.
        raise ImproperlyConfigured(
            f"ECHOMQ[{config.alias!r}]['LOCATION'] is not a URL: write {scheme}://user:password@host:port/db, with "
            "special characters of the password percent-encoded, or give the password in OPTIONS."
        ) from None
    options: dict[str, Any] = {name: value for name, value in {**told, **config.options}.items() if name not in _OURS}
    options.setdefault("socket_connect_timeout", CONNECT_TIMEOUT)
    options.setdefault("socket_timeout", SOCKET_TIMEOUT)
    return {
        **options,
        "connection_class": told.get("connection_class", Connection),
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
