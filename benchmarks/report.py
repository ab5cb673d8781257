"""The figures of all runs: medians by row and column, and the tables of the terminal."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

Table = dict[str, dict[str, float]]
"""Medians, by row and column."""
CROWDED = 0.10
"""From this part of the machine on, what others use is said."""


def medians(results: Mapping[str, Any], measurement: str) -> Table:
    """Give the medians of a measurement's runs."""
    gathered: dict[str, dict[str, list[float]]] = {}
    for run in results["runs"]:
        if run["measurement"] == measurement:
            row = gathered.setdefault(run["row"], {})
            for column, value in run.get("figures", {}).items():
                row.setdefault(column, []).append(value)
    return {
        row: {column: statistics.median(values) for column, values in columns.items()}
        for row, columns in gathered.items()
    }


def failures(results: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Give why runs failed, by measurement and row."""
    return {(run["measurement"], run["row"]): run["failed"] for run in results["runs"] if "failed" in run}


def shown(table: Table) -> list[str]:
    """List a table's columns, without those that only the file holds."""
    columns = dict.fromkeys(column for row in table.values() for column in row)
    return [column for column in columns if column != "foreign" and not column.startswith("_")]


def number(value: float | None) -> str:
    """Write a figure as one reads it."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def lines(results: Mapping[str, Any], measurement: str, title: str) -> Iterator[str]:
    """Write a measurement's table for a terminal."""
    yield ""
    yield title
    yield from grid(*cells(medians(results, measurement)))
    for (where, row), why in failures(results).items():
        if where == measurement:
            yield f"{row}: failed: {why}"


MANY = 6
"""With more columns than this a table is turned on its side."""


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Write a table as its head and its rows."""
    columns = shown(table)
    if len(columns) > MANY:
        return ["", *table], [[each, *(number(row.get(each)) for row in table.values())] for each in columns]
    return ["", *columns], [[row, *(number(figures.get(each)) for each in columns)] for row, figures in table.items()]


def grid(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Set a table in columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for first, *others in (head, *rows):
        yield "  ".join(
            [first.ljust(widths[0]), *(cell.rjust(wide) for cell, wide in zip(others, widths[1:], strict=True))]
        )


def crowding(results: Mapping[str, Any]) -> Iterator[str]:
    """Say how much of the machine others used."""
    parts = [run["figures"]["foreign"] for run in results["runs"] if "figures" in run]
    if not parts:
        return
    crowded = sum(part > CROWDED for part in parts)
    yield ""
    yield (
        f"Other processes used {statistics.median(parts):.0%} of the machine (median of {len(parts)} runs, "
        f"at most {max(parts):.0%}); more than {CROWDED:.0%} in {crowded} runs."
    )
