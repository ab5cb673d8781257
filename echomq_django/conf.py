"""The ECHOMQ setting, as frozen values. Read when first needed, forgotten when settings change.

``problems()`` is what is wrong with it, for checks; ``alias()`` raises the first of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from . import keys, retries
from .exceptions import InvalidQueueName

DEFAULT_ALIAS = "default"
EMBEDDED = "embedded://"
SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix", "embedded")
WIRE_VERSION = "echomq:3.0.0"
TASK_RESULT_TTL = 3600.0
"""RESULT_TTL of a queue whose jobs are tasks."""


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Hold the settings of one queue. Times are seconds."""

    lease: float = 30.0
    max_attempts: int = 5
    max_crashes: int = 3
    backoff: str = retries.EXPONENTIAL
    backoff_base: float = 1.0
    backoff_cap: float = 3600.0
    result_ttl: float | None = None
    keep_completed: int = 1000
    dead_ttl: float = 30 * 86400.0
    dead_max: int = 100_000
    handler: str = ""

    @property
    def lease_ms(self) -> int:
        """Give the lease in ms."""
        return int(self.lease * 1000)

    @property
    def result_ttl_ms(self) -> int:
        """Give how long a completed job is kept, ms; a raw handler's only when RESULT_TTL says so."""
        if self.result_ttl is None:
            return 0 if self.handler else round(TASK_RESULT_TTL * 1000)
        return round(self.result_ttl * 1000)

    def longest_backoff_ms(self, attempt: int) -> int:
        """Give the longest delay after a failed attempt, ms."""
        seconds = retries.backoff(attempt, base=self.backoff_base, cap=self.backoff_cap, kind=self.backoff)
        return round(seconds * 1000)

    def backoff_ms(self, attempt: int) -> int:
        """Draw the delay after a failed attempt, ms."""
        return round(retries.jittered(self.longest_backoff_ms(attempt)))


_DEFAULTS = QueueConfig()


@dataclass(frozen=True, slots=True)
class AliasConfig:
    """Hold the settings of one server."""

    alias: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)
    wire_version: str = WIRE_VERSION
    queues: Mapping[str, QueueConfig] = field(default_factory=dict)
    redact: str = ""

    def queue(self, name: str) -> QueueConfig:
        """Give a queue's settings: the defaults when it has none."""
        return self.queues.get(name, _DEFAULTS)

    @property
    def embedded(self) -> Path | None:
        """Give the folder of the embedded server's state; None for every other location."""
        if not self.location.startswith(EMBEDDED):
            return None
        named = self.location.removeprefix(EMBEDDED)
        return Path(named) if named else Path(getattr(settings, "BASE_DIR", Path.cwd())) / ".echomq"


@dataclass(frozen=True, slots=True)
class Problem:
    """Hold one thing that is wrong with the setting: a check's id, what it is, and what to do."""

    id: str
    message: str
    hint: str


@lru_cache(maxsize=1)
def _read() -> tuple[dict[str, AliasConfig], list[Problem]]:
    """Read the setting once: every alias that can be used, and everything that is wrong."""
    found: list[Problem] = []
    aliases: dict[str, AliasConfig] = {}
    raw = getattr(settings, "ECHOMQ", None)
    if raw is None:
        if settings.DEBUG:
            raw = {DEFAULT_ALIAS: {"LOCATION": EMBEDDED}}
        else:
            return {}, [
                Problem(
                    "echomq.E001",
                    "ECHOMQ is not set.",
                    'Set ECHOMQ = {"default": {"LOCATION": "redis://127.0.0.1:6379/0"}}.',
                )
            ]
    if not isinstance(raw, Mapping) or DEFAULT_ALIAS not in raw:
        return {}, [
            Problem(
                "echomq.E002",
                'ECHOMQ is not a dictionary with a "default" server.',
                'Shape it as CACHES: {"default": {"LOCATION": …}}.',
            )
        ]
    for alias_name, entry in raw.items():
        problems = list(_entry_problems(str(alias_name), entry))
        found += problems
        if not problems:
            aliases[alias_name] = _alias(alias_name, entry)
    return aliases, found


_ENTRY_KEYS = ("LOCATION", "OPTIONS", "WIRE_VERSION", "QUEUES", "REDACT")
_QUEUE_KEYS = {item.name.upper(): item for item in fields(QueueConfig)}


def _unknown(where: str, given: Any, known: Iterator[str] | tuple[str, ...], check: str) -> Iterator[Problem]:
    known = tuple(known)
    for name in given:
        if name not in known:
            yield Problem(check, f"{where} has the unknown key {name!r}.", f"Known are {', '.join(known)}.")


def _entry_problems(alias_name: str, entry: Any) -> Iterator[Problem]:
    where = f"ECHOMQ[{alias_name!r}]"
    if not isinstance(entry, Mapping):
        yield Problem("echomq.E002", f"{where} is not a dictionary.", 'Use {"LOCATION": …}.')
        return
    yield from _unknown(where, entry, _ENTRY_KEYS, "echomq.E003")
    location = entry.get("LOCATION")
    scheme, mark, _ = str(location).partition("://")
    # The location is never shown: it may hold a password.
    if not isinstance(location, str) or not mark or scheme not in SCHEMES:
        yield Problem(
            "echomq.E004",
            f"{where}['LOCATION'] is not a server that this version can talk to.",
            f"Use a text that begins with one of {', '.join(name + '://' for name in SCHEMES)}.",
        )
    if not isinstance(entry.get("OPTIONS", {}), Mapping):
        yield Problem("echomq.E005", f"{where}['OPTIONS'] is not a dictionary.", "Name options of redis-py.")
    version = entry.get("WIRE_VERSION", WIRE_VERSION)
    if not isinstance(version, str) or not version.startswith("echomq:"):
        yield Problem(
            "echomq.E006",
            f"{where}['WIRE_VERSION'] is {version!r}.",
            f"Use the value that the other programs on this server use; the default is {WIRE_VERSION!r}.",
        )
    redact = entry.get("REDACT", "")
    if not _is_path(redact):
        yield Problem(
            "echomq.E016",
            f"{where}['REDACT'] is {redact!r}.",
            "Use the dotted path of a callable that takes a name, args and kwargs, and gives the latter two back.",
        )
    queues = entry.get("QUEUES", {})
    if not isinstance(queues, Mapping):
        yield Problem("echomq.E007", f"{where}['QUEUES'] is not a dictionary.", 'Use {"mail": {…}}.')
        return
    for queue, given in queues.items():
        yield from _queue_problems(f"{where}['QUEUES'][{queue!r}]", queue, given)


def _queue_problems(where: str, queue: Any, given: Any) -> Iterator[Problem]:
    try:
        keys.check_queue(queue)
    except InvalidQueueName as error:
        yield Problem("echomq.E008", f"{where}: {error}", "Rename the queue.")
    if not isinstance(given, Mapping):
        yield Problem("echomq.E007", f"{where} is not a dictionary.", "Use {} for the defaults.")
        return
    yield from _unknown(where, given, tuple(_QUEUE_KEYS), "echomq.E009")
    for name, value in given.items():
        if name in _QUEUE_KEYS:
            try:
                _value(name, value)
            except ValueError as error:
                yield Problem("echomq.E010", f"{where}[{name!r}] is {value!r}.", f"Use {error}.")


_TIMES = {"LEASE": 0.1, "BACKOFF_BASE": 0.0, "BACKOFF_CAP": 0.0, "RESULT_TTL": 0.0, "DEAD_TTL": 1.0}
# Each crash has its delay in every call of reap, hence the low limit.
_NUMBERS = {
    "MAX_ATTEMPTS": (1, retries.ATTEMPTS_MAX),
    "MAX_CRASHES": (1, 100),
    "KEEP_COMPLETED": (0, 100_000),
    "DEAD_MAX": (0, 10**9),
}


def _value(name: str, value: Any) -> Any:
    """Read one queue setting; ValueError says what it should be."""
    if name in _TIMES:
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        limit = 10 * 365 * 86400
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not _TIMES[name] <= seconds <= limit:
            raise ValueError(f"seconds, from {_TIMES[name]:g} to {limit}, or a timedelta")
        return float(seconds)
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number, from {least} to {most}")
        return value
    if name == "BACKOFF":
        if value not in retries.KINDS:
            raise ValueError(f"one of {', '.join(retries.KINDS)}")
        return value
    if not _is_path(value):
        raise ValueError("the dotted path of a callable that takes a job")
    return value


def _is_path(value: Any) -> bool:
    """Say whether a value can be a dotted path, or the text of no length, which is none."""
    return isinstance(value, str) and (not value or "." in value)


def _alias(alias_name: str, entry: Mapping[str, Any]) -> AliasConfig:
    return AliasConfig(
        alias=alias_name,
        location=entry["LOCATION"],
        options=dict(entry.get("OPTIONS", {})),
        wire_version=entry.get("WIRE_VERSION", WIRE_VERSION),
        queues={
            queue: QueueConfig(**{name.lower(): _value(name, value) for name, value in given.items()})
            for queue, given in entry.get("QUEUES", {}).items()
        },
        redact=entry.get("REDACT", ""),
    )


def problems() -> list[Problem]:
    """List everything that is wrong with the setting."""
    return _read()[1]


def alias(using: str = DEFAULT_ALIAS) -> AliasConfig:
    """Give the settings of one server; ImproperlyConfigured says what is wrong and what to do."""
    aliases, found = _read()
    try:
        return aliases[using]
    except KeyError:
        if found:
            raise ImproperlyConfigured(f"{found[0].message} {found[0].hint} ({found[0].id})") from None
        raise ImproperlyConfigured(
            f"ECHOMQ has no server {using!r}; there are {', '.join(map(repr, aliases))}."
        ) from None


def aliases() -> list[str]:
    """List the servers that can be used."""
    return list(_read()[0])


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("ECHOMQ", "DEBUG", "BASE_DIR"):
        _read.cache_clear()


setting_changed.connect(_forget)
