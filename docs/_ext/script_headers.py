"""Write the reference of the transitions from the headers of the Lua scripts, so that it cannot fall behind.

A line `<!-- every script -->` in a page is replaced by one section for each script.
"""

import re
from dataclasses import dataclass
from typing import Any

from echomq_django import scripts
from echomq_django.scripts import Script

MARK = "<!-- every script -->"

_MOVE = re.compile(r"(\w+): (\S.*) -> (\S.*)")
_PARAMETER = re.compile(r"(KEYS|ARGV)\[(\d+(?:\.\.)?)\] (\w+)(?: \(([\w, ]+)\))?\s+(.*)")


@dataclass(frozen=True)
class Header:
    verb: str
    start: str
    end: str
    text: str
    parameters: tuple[tuple[str, ...], ...]
    """Kind, number, name, the group's shape, meaning."""
    returns: str


def read(script: Script) -> Header:
    """Take a script's header apart; ValueError when it does not keep to the grammar."""
    lines = [line.removeprefix("--").strip() for line in script.header.splitlines()]
    move = _MOVE.fullmatch(lines[0])
    if move is None:
        raise ValueError(f"{script.name}.lua does not begin with a move: {lines[0]!r}")
    text: list[str] = []
    parameters: list[tuple[str, ...]] = []
    returns: list[str] = []
    for line in lines[1:]:
        parameter = _PARAMETER.fullmatch(line)
        if parameter:
            parameters.append(tuple(part or "" for part in parameter.groups()))
        elif returns or line.startswith("Returns "):
            returns.append(line)
        elif not line.startswith("Needs:"):
            text.append(line)
    if not returns or len(parameters) != len(script.keys) + len(script.args) + bool(script.group):
        raise ValueError(f"{script.name}.lua: its header lacks its reply or a parameter")
    return Header(*move.groups(), " ".join(text).strip(), tuple(parameters), " ".join(returns))


def section(script: Script) -> str:
    """Write the section of one script as Markdown."""
    header = read(script)
    rows = [
        f"| `{kind}[{number}]` | `{name}` | {_cell(meaning, shape)} |"
        for kind, number, name, shape, meaning in header.parameters
    ]
    return "\n".join(
        [
            f"## {header.verb}",
            "",
            f"{header.start} → {header.end}",
            "",
            _prose(header.text),
            "",
            "| parameter | name | what it is |",
            "|---|---|---|",
            *rows,
            "",
            _prose(header.returns),
            "",
        ]
    )


def summary() -> str:
    """Write one row for each script, as Markdown."""
    headers = [read(script) for script in scripts.ALL]
    rows = [f"| [{each.verb}](#{each.verb}) | {_escaped(each.start)} | {_escaped(each.end)} |" for each in headers]
    return "\n".join(["| script | from | to |", "|---|---|---|", *rows, ""])


def _escaped(text: str) -> str:
    return text.replace("|", "or")


def _prose(text: str) -> str:
    """Read "words" of a reply as code."""
    return re.sub(r'"([\w+]+)"', r"`\1`", text.replace("<", "\\<"))


def _cell(meaning: str, shape: str) -> str:
    meaning = _prose(re.sub(r"\s{2,}", ": ", meaning)).replace("|", "or")
    return f"{meaning}; repeated: {shape}" if shape else meaning


def fill_in(app: Any, page: str, source: list[str]) -> None:
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, "\n".join([summary(), *map(section, scripts.ALL)]))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True}
