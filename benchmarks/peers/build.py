"""A virtual environment for each peer, from the package index; what was resolved is read back."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.contestant import ROOT

from .catalogue import Peer

FOLDER = ROOT / ".venv-bench" / "peers"
PATIENCE = 600
ASK = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


class NotBuilt(Exception):
    """Say why a peer cannot be had."""


def build(peer: Peer) -> Path:
    """Install a peer where it is not; give its Python. Raises NotBuilt."""
    home = FOLDER / peer.package
    python, made = home / "bin" / "python", home / "made"
    wished = "\n".join(peer.requirements)
    if made.exists() and made.read_text() == wished:
        return python
    shutil.rmtree(home, ignore_errors=True)
    _run(
        [sys.executable, "-m", "venv", "--without-pip", str(home)]
        if _uv()
        else [sys.executable, "-m", "venv", str(home)]
    )
    installer = [*_uv(), "pip", "install", "--python", str(python)] if _uv() else [str(python), "-m", "pip", "install"]
    _run([*installer, "--quiet", *peer.requirements])
    made.write_text(wished)
    return python


def versions(peer: Peer, python: Path) -> dict[str, str]:
    """Give the versions of what the peer's requirements name."""
    names = [requirement.partition("[")[0].partition(">")[0] for requirement in peer.requirements]
    return json.loads(_run([str(python), "-c", ASK, *names]))  # type: ignore[no-any-return]


def _uv() -> list[str]:
    if find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    return [found] if (found := shutil.which("uv")) else []


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuilt(str(error)) from error
    if done.returncode:
        raise NotBuilt(" | ".join(done.stderr.strip().splitlines()[-4:])[-500:])
    return done.stdout
