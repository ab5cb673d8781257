"""What `manage.py check` says of the ECHOMQ setting and, with --deploy, of its servers.

Of the database, with --database, permissions.py speaks.

Errors (E) keep the queue from working; warnings (W) cost jobs on a bad day. None shows a password.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from . import address, conf, connection
from .conf import AliasConfig
from .exceptions import EchoMQError, ServerTooOld, WireVersionMismatch

TAG = "echomq"

# A URL that is none, an option that redis-py does not know, and one of a wrong type.
_UNUSABLE = (ImproperlyConfigured, TypeError, ValueError)


@register(TAG)
def check_settings(**_: Any) -> list[CheckMessage]:
    """Check the setting; no server is asked."""
    found: list[CheckMessage] = [Error(each.message, hint=each.hint, id=each.id) for each in conf.problems()]
    for config in map(conf.alias, conf.aliases()):
        if config.embedded is None:
            found += _unusable(config) or _shared(config)
        found += _unredacted(config)
    return found


@register(TAG, deploy=True)
def check_servers(**_: Any) -> list[CheckMessage]:
    """Ask each server whether it is one to which jobs can be entrusted."""
    return [warning for name in conf.aliases() for warning in _server(conf.alias(name))]


def _unredacted(config: AliasConfig) -> Iterator[CheckMessage]:
    """Import what hides arguments: a path that leads nowhere would be found out by whoever looks at a job."""
    if not config.redact:
        return
    try:
        found = import_string(config.redact)
        reason = "" if callable(found) else f"it is a {type(found).__name__}, and cannot be called"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        yield Error(
            f"ECHOMQ[{config.alias!r}]['REDACT'] is {config.redact!r}, which is not to be had. {reason}",
            hint="Correct the path; until then no arguments are shown.",
            id="echomq.E016",
        )


def _unusable(config: AliasConfig) -> list[CheckMessage]:
    """Build a connection, without connecting: redis-py refuses what it does not know only then."""
    try:
        options = address.parameters(config)
        kind = options.pop("connection_class")
        if options.pop("max_connections", None) is not None:
            options.pop("timeout", None)  # the pool's own: how long a thread waits for a connection
        kind(**options)
    except _UNUSABLE as error:
        return [
            Error(
                f"ECHOMQ[{config.alias!r}]: redis-py does not take the LOCATION with these OPTIONS. {error}",
                hint="Use options of redis-py's connections, and percent-encode what is special in a user or password.",
                id="echomq.E011",
            )
        ]
    return []


def _shared(config: AliasConfig) -> Iterator[CheckMessage]:
    """Look for caches in the queue's own database: `cache.clear()` is FLUSHDB."""
    ours = _database(config)
    for name, cache in settings.CACHES.items():
        given = cache.get("LOCATION") or ()
        places = given.replace(";", ",").split(",") if isinstance(given, str) else given
        chosen = {key: value for key, value in (cache.get("OPTIONS") or {}).items() if key == "db"}
        if any(_database(AliasConfig(name, str(place).strip(), chosen)) == ours for place in places):
            yield Warning(
                f"CACHES[{name!r}] uses the database of ECHOMQ[{config.alias!r}]: cache.clear() deletes every job.",
                hint="Give one of them another database number, such as /1, or another server.",
                id="echomq.W008",
            )


def _database(config: AliasConfig) -> tuple[Any, ...] | None:
    """Name the database behind a location; None when it is not one of a Redis."""
    if config.location.startswith(conf.EMBEDDED):
        return None
    try:
        options = address.parameters(config)
        number = int(options.get("db") or 0)
    except _UNUSABLE:
        return None
    if "path" in options:
        return options["path"], number
    host = options.get("host") or "localhost"
    return "localhost" if host in ("127.0.0.1", "::1") else host, int(options.get("port") or 6379), number


def _server(config: AliasConfig) -> Iterator[CheckMessage]:
    if config.embedded is not None:
        yield Warning(
            f"ECHOMQ[{config.alias!r}] is embedded://, a server of this machine's project for development.",
            hint="Run a Valkey or Redis for production and name it in LOCATION.",
            id="echomq.W010",
        )
        return
    client = connection.Client(config)
    try:
        info, wanted = client.exchange((("INFO",), ("CONFIG", "GET", "save")))
    except EchoMQError as error:
        yield _refused(config, error)
    except _UNUSABLE:
        return  # check_settings says it
    else:
        # INFO has most of what CONFIG would say, and more servers allow it.
        facts = {**_config(wanted), **_info(info)}
        for missing, warn in _FACTS:
            yield from warn(config, facts) if missing in facts else ()
        if not {missing for missing, _ in _FACTS} <= facts.keys():
            yield _unasked(config)
    finally:
        client.close()


def _refused(config: AliasConfig, error: EchoMQError) -> CheckMessage:
    if isinstance(error, ServerTooOld):
        return Warning(str(error), hint="The scripts need what Redis 7.0 brought.", id="echomq.W002")
    if isinstance(error, WireVersionMismatch):
        hint = "Programs that speak different versions must not share a queue."
        return Warning(str(error), hint=hint, id="echomq.W003")
    return Warning(
        f"ECHOMQ[{config.alias!r}]: {error}.",
        hint="Start the server, or correct LOCATION, user and password; until then nothing can be enqueued.",
        id="echomq.W001",
    )


def _info(reply: Any) -> dict[str, str]:
    if not isinstance(reply, bytes):
        return {}  # forbidden by an ACL
    lines = [line.partition(":") for line in reply.decode(errors="replace").splitlines()]
    return {name: value for name, colon, value in lines if colon}


def _config(reply: Any) -> dict[str, str]:
    if not isinstance(reply, list):
        return {}  # forbidden, as on most rented servers
    words = [word.decode(errors="replace") for word in reply]
    return dict(zip(words[::2], words[1::2], strict=False))


def _evicts(config: AliasConfig, facts: Mapping[str, str]) -> Iterator[CheckMessage]:
    if facts["maxmemory_policy"] != "noeviction":
        yield Warning(
            f"{address.where(config)} evicts keys when it is full "
            f"(maxmemory-policy {facts['maxmemory_policy']}): jobs may vanish.",
            hint="Set maxmemory-policy noeviction: a full queue then refuses new jobs and drains.",
            id="echomq.W004",
        )


def _forgets(config: AliasConfig, facts: Mapping[str, str]) -> Iterator[CheckMessage]:
    if facts["aof_enabled"] == "0":
        saves = facts.get("save")
        lost = "all jobs" if saves == "" else "the jobs since its last snapshot"
        yield Warning(
            f"{address.where(config)} keeps no append-only file: a restart loses {lost}.",
            hint="Set appendonly yes; with appendfsync everysec at most one second is lost.",
            id="echomq.W005",
        )


def _fails_to_save(config: AliasConfig, facts: Mapping[str, str]) -> Iterator[CheckMessage]:
    states = ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status")
    if failed := [name for name in states if facts.get(name, "ok") != "ok"]:
        yield Warning(
            f"{address.where(config)} could not write to its disk ({', '.join(failed)}).",
            hint="Look at the server's log and its disk: it may refuse writes (MISCONF), and a restart loses jobs.",
            id="echomq.W006",
        )


def _follows(config: AliasConfig, facts: Mapping[str, str]) -> Iterator[CheckMessage]:
    if facts["role"] != "master":
        yield Warning(
            f"{address.where(config)} is a replica: it takes no jobs.",
            hint="Name the primary in LOCATION.",
            id="echomq.W007",
        )


def _unasked(config: AliasConfig) -> CheckMessage:
    return Warning(
        f"{address.where(config)} does not tell this user how it keeps its data: INFO is forbidden.",
        hint="See for yourself that it has maxmemory-policy noeviction and appendonly yes, or allow INFO.",
        id="echomq.W009",
    )


# A line of INFO, and what is to be said about it.
_FACTS: tuple[tuple[str, Callable[[AliasConfig, Mapping[str, str]], Iterator[CheckMessage]]], ...] = (
    ("maxmemory_policy", _evicts),
    ("aof_enabled", _forgets),
    ("rdb_last_bgsave_status", _fails_to_save),
    ("role", _follows),
)
