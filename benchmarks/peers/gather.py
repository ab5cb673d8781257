"""The peers that were asked for, as contestants; and of each what was installed, or why it cannot be had."""

from benchmarks.contestant import Contestant

from .build import NotBuilt, build, versions
from .catalogue import ALL, Peer


def gather(asked: str) -> tuple[tuple[Contestant, ...], dict[str, str]]:
    """Build the peers of these names; an unknown name is a ValueError."""
    names = asked.split()
    known = {peer.package for peer in ALL}
    if unknown := [name for name in names if name not in (*known, "all")]:
        raise ValueError(f"no peer is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    found: list[Contestant] = []
    told: dict[str, str] = {}
    for peer in ALL:
        if peer.package in names or "all" in names:
            try:
                python = build(peer)
                told[peer.name] = ", ".join(f"{name} {number}" for name, number in versions(peer, python).items())
                found.append(_contestant(peer, str(python)))
            except NotBuilt as error:
                told[peer.name] = f"cannot be built here: {error}"
    return tuple(found), told


def _contestant(peer: Peer, python: str) -> Contestant:
    return Contestant(
        peer.name,
        f"benchmarks.peers.{peer.module}",
        peer.work,
        peer.kind,
        python,
        {"DJANGO_SETTINGS_MODULE": peer.settings} if peer.settings else {},
        bulk=peer.bulk,
        setup=peer.setup,
    )
