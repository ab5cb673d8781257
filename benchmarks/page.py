"""The figures' part of docs/explanation/performance.md, and its plot, written from a results file."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import plot, report, targets
from .contestant import ROOT
from .peers.catalogue import ALL

PAGE = ROOT / "docs" / "explanation" / "performance.md"
PLOT = ROOT / "docs" / "images" / "performance.svg"
BEGIN, END = "<!-- figures: written by python -m benchmarks --report --page -->", "<!-- end of the figures -->"


def write(results: Mapping[str, Any], titles: Mapping[str, str]) -> None:
    """Put the figures between the page's marks, and draw the plot."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    figures = "\n".join(_figures(results, titles))
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n{END}{after}", encoding="utf-8")
    PLOT.write_text(plot.svg(report.medians(results, "drain")), encoding="utf-8")


def _figures(results: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    about = results["about"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    yield f"Measured on {about['date']}: {about['machine']}; {about['server']} on the same machine; {versions}."
    yield f"Medians of {about['options']['repeat']} interleaved rounds. {' '.join(report.crowding(results)).strip()}"
    for name in results["measurements"]:
        yield from ("", f"### {titles[name]}", "")
        if name == "drain":
            yield from (
                "![Jobs a second of each queue, with one and two worker processes](../images/performance.svg)",
                "",
            )
        yield from _table(*report.cells(report.medians(results, name)))
        yield from _failed(results, name)
    yield from ("", "### What shall be reached", "", "```text", *targets.lines(results), "```")
    yield from ("", "### The peers", "", *_peers(results))


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _failed(results: Mapping[str, Any], name: str) -> Iterator[str]:
    for (measurement, row), why in report.failures(results).items():
        if measurement == name:
            yield from ("", f"{row} gave no figure in a run: {why.partition(':')[0]}.")


def _peers(results: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [peer.name, results["peers"][peer.name].partition(":")[0], peer.delivery, peer.results, peer.runs, peer.note]
        for peer in ALL
        if peer.name in results["peers"]
    ]
    yield from _table(["peer", "versions", "delivery", "results", "how it runs", "beside"], rows)
