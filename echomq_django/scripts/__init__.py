"""The Lua scripts, one per move, and their loader.

A script's header is its signature: ``KEYS[n] name`` and ``ARGV[n] name`` lines name the parameters, which
Python passes by keyword. The SHA1 is computed once, when this module is imported.
"""

import hashlib
import re
from collections.abc import Sequence
from importlib import resources

_PARAMETER = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\.\.)?\] (\w+)(?: \(([\w, ]+)\))?")
_NEEDS = re.compile(r"^-- Needs: ([\w, ]+)$", re.MULTILINE)

Value = str | bytes | int | float


def _read(name: str) -> str:
    return (resources.files(__name__) / f"{name}.lua").read_text(encoding="utf-8")


_SHARED = {name: _read(name) for name in ("prelude", "flow")}


class Script:
    """Hold one script: its source as the server gets it, its SHA1, and the names of its parameters."""

    def __init__(self, name: str) -> None:
        text = _read(name)
        first_line, body = text.split("\n", 1)
        self.name = name
        self.header = "\n".join(line for line in _comments(body))
        # A shebang line has to stay the first one; it carries the script's flags.
        needs = _NEEDS.findall(self.header)
        shared = [_SHARED[name] for name in needs[0].split(", ")] if needs else []
        self.source = "\n".join((first_line, *shared, body))
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        found = _PARAMETER.findall(self.header)
        self.keys = tuple(name for kind, _, _, name, _ in found if kind == "KEYS")
        self.args = tuple(name for kind, _, many, name, _ in found if kind == "ARGV" and not many)
        repeated = [(name, shape) for kind, _, many, name, shape in found if many]
        self.group = repeated[0][0] if repeated else None
        self.width = len(repeated[0][1].split(",")) if repeated else 0
        self._names = frozenset((*self.keys, *self.args, *(name for name, _ in repeated)))

    def __repr__(self) -> str:
        return f"<Script {self.name} {self.sha[:8]}>"

    def command(self, **values: Value | Sequence[Value]) -> tuple[Value, ...]:
        """Write the EVALSHA command; TypeError, before anything is sent, on a wrong or missing name."""
        if values.keys() != self._names:
            missing, unknown = self._names - values.keys(), values.keys() - self._names
            raise TypeError(f"{self.name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
        named = [values[name] for name in (*self.keys, *self.args)]
        tail = values[self.group] if self.group else ()
        if isinstance(tail, (str, bytes, int, float)) or (self.width and len(tail) % self.width):
            raise TypeError(f"{self.name}: {self.group} takes a flat list in groups of {self.width}")
        return ("EVALSHA", self.sha, len(self.keys), *named, *tail)  # type: ignore[arg-type]


def _comments(body: str) -> list[str]:
    lines = []
    for line in body.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line)
    return lines


# By hand, so that a name can be searched for and its definition found.
enqueue = Script("enqueue")
claim = Script("claim")
complete = Script("complete")
retry = Script("retry")
extend = Script("extend")
annotate = Script("annotate")
release = Script("release")
defer = Script("defer")
promote = Script("promote")
reap = Script("reap")
requeue = Script("requeue")
revise = Script("revise")
remove = Script("remove")
advance = Script("advance")
expire = Script("expire")
recover = Script("recover")
announce = Script("announce")
lapsed = Script("lapsed")
census = Script("census")
pause = Script("pause")
resume = Script("resume")

ALL = (
    enqueue, claim, complete, retry, extend, annotate, release, defer, promote, reap, requeue, revise, remove,
    advance, expire, recover, announce, lapsed, census, pause, resume,
)  # fmt: skip
BY_SHA = {script.sha: script for script in ALL}
