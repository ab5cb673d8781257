"""A plot of the drains as SVG, in colours that are right on white and on black."""

from collections.abc import Iterator
from html import escape

from .report import Table, number

WIDTH, LEFT, RIGHT, STEP, BAR = 760, 250, 70, 34, 11
TEXT, OURS, PEER, RAW = "#7d8590", "#2f81f7", "#8d96a0", "#c08a2b"
COLUMNS = ("1 process", "2 processes")


def svg(table: Table) -> str:
    """Draw a bar for each contestant and number of processes, the fastest first."""
    rows = sorted(table, key=lambda row: -max(table[row].get(column, 0.0) for column in COLUMNS))
    longest = max((value for row in rows for value in map(table[row].get, COLUMNS) if value), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = STEP * len(rows) + 44
    body = "\n".join(line for place, row in enumerate(rows) for line in _row(row, table[row], 40 + place * STEP, scale))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" \
aria-label="Jobs a second of each queue, with one and two worker processes" font-family="sans-serif" font-size="12">
<text x="{LEFT}" y="20" fill="{TEXT}">jobs a second; upper bar: 1 process, lower: 2</text>
{body}
</svg>
"""


def colour(row: str) -> str:
    """Tell ours, the raw loops and the peers apart."""
    return RAW if row.startswith("raw") else OURS if row.startswith("echomq") else PEER


def _row(row: str, figures: dict[str, float], top: int, scale: float) -> Iterator[str]:
    yield f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end" fill="{TEXT}">{escape(row)}</text>'
    for place, column in enumerate(COLUMNS):
        value, y = figures.get(column), top + place * (BAR + 1)
        if value is not None:
            wide = max(value * scale, 1)
            faint = ' fill-opacity="0.6"' if place else ""
            yield f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR}" fill="{colour(row)}"{faint}/>'
            yield f'<text x="{LEFT + wide + 5:.1f}" y="{y + 10}" fill="{TEXT}" font-size="11">{number(value)}</text>'
