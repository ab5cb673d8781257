"""The tutorial, done as a reader does it: its files written and its commands run, in order, in an empty folder.

A `python` block is the file in its caption; the settings are added to. In a `console` block each "$ " is a command and
the rest is its output, in which "…" stands for anything, and alone on a line for any lines. "% test: …" before a block
says what a test cannot see.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from echomq_django import embedded

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-orders.md"
PATIENCE = 60.0
ANY_LINES = "…"

_BLOCK = re.compile(
    r"(?:^% test: (?P<test>\w+)[^\n]*\n)?"
    r"^```(?:\{code-block\} )?(?P<kind>\w+)\n(?::caption: (?P<path>\S+)\n\n)?"
    r"(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    kind: str
    test: str
    path: str
    text: str


def blocks() -> Iterator[Block]:
    for found in _BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8")):
        yield Block(found["kind"], found["test"] or "", found["path"] or "", found["text"])


class Reader:
    """Be somebody who follows the tutorial in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.terminal: subprocess.Popen[str] | None = None
        self.lines: SimpleQueue[str] = SimpleQueue()
        ours = ("DJANGO_", "ECHOMQ_TEST_", "PYTEST_", "PYTHONWARNINGS")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        # The very Python that runs the tests, as an activated environment would put it there.
        (folder / "bin").mkdir()
        (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / "bin" / "python").chmod(0o755)
        self.env |= {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
        self.env["PYTHONPATH"] = str(ROOT)
        self.project = folder / "project"
        self.project.mkdir()

    def follow(self, block: Block) -> None:
        if block.kind == "python":
            self.write(block)
        elif block.test == "start":
            self.start(block.text)
        elif block.test == "stop":
            self.stop(block.text)
        else:
            for command, output in commands(block.text):
                self.run(command, output)

    def write(self, block: Block) -> None:
        path = self.project / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if path.name == "settings.py" else "w", encoding="utf-8") as file:
            file.write(block.text)

    def run(self, command: str, expected: list[str]) -> None:
        done = subprocess.run(
            command, shell=True, cwd=self.project, env=self.env, text=True, timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert same(expected, done.stdout.splitlines()), f"{command}\n{done.stdout}"

    def start(self, text: str) -> None:
        [(command, expected)] = commands(text)
        # Without a shell: one that is not a terminal's would die of the Ctrl-C.
        self.terminal = subprocess.Popen(
            shlex.split(command), cwd=self.project, env=self.env, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        Thread(target=self._read, args=(self.terminal,), daemon=True).start()
        self.see(expected)

    def stop(self, text: str) -> None:
        before, after = text.split("^C\n")
        self.see(before.splitlines())
        assert self.terminal is not None
        os.killpg(self.terminal.pid, signal.SIGINT)  # as a terminal does
        self.see(after.splitlines())
        assert self.terminal.wait(PATIENCE) == 0
        self.terminal = None

    def _read(self, terminal: subprocess.Popen[str]) -> None:
        assert terminal.stdout is not None
        with terminal.stdout as output:
            for line in output:
                self.lines.put(line.rstrip("\n"))

    def see(self, expected: list[str]) -> None:
        for pattern in expected:
            # Only an output that says so may have other lines, before and between these.
            while pattern != ANY_LINES:
                try:
                    line = self.lines.get(timeout=PATIENCE)
                except Empty:
                    pytest.fail(f"the worker has not said {pattern!r}")
                if same([pattern], [line]):
                    break
                assert ANY_LINES in expected, line

    def leave(self) -> None:
        if self.terminal is not None and self.terminal.poll() is None:
            os.killpg(self.terminal.pid, signal.SIGKILL)
            self.terminal.wait()
        embedded.stop(self.project / ".echomq")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Take a console block apart into commands, and the output of each."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *output = part.splitlines()
        yield command, output


def same(expected: list[str], lines: list[str]) -> bool:
    """Compare output with what the page shows; "…" stands for anything, and threads may finish in another order.

    Columns move when a number has a digit more, so that spaces count as one.
    """
    left = [" ".join(line.split()) for line in lines]
    for line in expected:
        if line == ANY_LINES:
            continue
        pattern = re.compile(".*".join(map(re.escape, " ".join(line.split()).split("…"))))
        found = next((at for at, one in enumerate(left) if pattern.fullmatch(one)), None)
        if found is None:
            return False
        del left[found]
    return not left or ANY_LINES in expected


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(tmp_path):
    reader = Reader(tmp_path)
    try:
        for block in blocks():
            if block.test != "skip":
                reader.follow(block)
    finally:
        reader.leave()


def test_every_block_of_the_tutorial_is_followed():
    text = TUTORIAL.read_text(encoding="utf-8")
    assert text.count("```") == 2 * sum(1 for _ in blocks())
    assert all(block.path for block in blocks() if block.kind == "python")
    assert {block.test for block in blocks()} == {"", "skip", "start", "stop"}
