"""Read a page as a browser does: what is markup, and what is text."""

from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Hold the elements of a page, and its text."""

    def __init__(self, response: Any) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.html = response.content.decode()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    @property
    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a" and attrs.get("href")]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Give what the last form of the page would send, without its token."""
        inputs = [attrs for tag, attrs in self.tags if tag == "input" and attrs.get("type") == "hidden"]
        return [
            (str(each["name"]), each.get("value") or "") for each in inputs if each["name"] != "csrfmiddlewaretoken"
        ]

    @property
    def shape(self) -> list[str]:
        """Give the names of the elements and of their attributes: what no text may change."""
        return [tag + "".join(f" {name}" for name in sorted(attrs)) for tag, attrs in self.tags]


def sent(page: Page) -> dict[str, list[str]]:
    """Give the fields of a page as the test client takes them."""
    found: dict[str, list[str]] = {}
    for name, value in page.fields:
        found.setdefault(name, []).append(value)
    return found
