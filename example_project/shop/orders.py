"""The orders file and what makes an order a good one. Pure: no database, no queue."""

import csv
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

# What the shop sells in -> digits after the decimal point. No currency with three of them (dinars):
# parse_amount reads "1,234" as one thousand two hundred and thirty-four.
CURRENCIES = {
    "AED": 2, "CHF": 2, "CNY": 2, "EUR": 2, "GBP": 2, "ILS": 2, "INR": 2,
    "JPY": 0, "KRW": 0, "PLN": 2, "TRY": 2, "UAH": 2, "USD": 2,
}  # fmt: skip

LARGEST_AMOUNT = Decimal("9999999999.99")  # what fits into Receipt.amount


class BadOrder(ValueError):
    """An order that no retry will mend. The message says which one, and what is wrong with it."""


@dataclass(frozen=True)
class Order:
    number: str
    placed_at: datetime
    customer: str
    email: str
    amount: Decimal
    currency: str
    items: tuple[str, ...]
    note: str


def read_orders(path: Path) -> list[dict[str, str]]:
    """Read every row as it stands, good or bad: judging them is the task's work."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [_as_strings(row) for row in csv.DictReader(file, restkey="surplus", restval="")]


def _as_strings(row: Mapping[str, str | list[str]]) -> dict[str, str]:
    # A row with more cells than the header has its last ones in a list under "surplus".
    return {column: cell if isinstance(cell, str) else ",".join(cell) for column, cell in row.items()}


# Whole: digits, or groups of them behind one kind of mark; India groups by two after the first
# three. No group mark after a leading zero, so that 0.999 is not 999.
_AMOUNT = re.compile(
    r"-?(?:[1-9]\d{0,2}(?P<mark>[ ',.])(?:\d{2,3}(?P=mark))*\d{3}|\d+)"
    r"(?:(?!(?P=mark))[.,](?P<cents>\d{1,2}))?",
    re.ASCII,
)
_MARKS = {"٫": ".", "٬": ",", "．": ".", "，": ",", "’": "'", "−": "-"}


def parse_amount(text: str) -> Decimal:
    """Read 1234.5, "1,234.50", "1.234,50", "1 234,50", "1'234.50", "1,23,456.00" or "١٬٢٣٤٫٥٠"."""
    plain = "".join(_plain(character) for character in text).strip()
    if not plain:
        raise ValueError("amount is empty; enter what the customer paid, for example 1,234.50")
    match = _AMOUNT.fullmatch(plain)
    if match is None:
        raise ValueError(f"amount {text!r} is not a number; write it like 1,234.50 or 1.234,50")
    cents = match["cents"] or ""
    whole = plain[: len(plain) - len(cents)]
    return Decimal(re.sub(r"[ ',.]", "", whole) + (f".{cents}" if cents else ""))


def _plain(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if unicodedata.category(character) == "Zs":  # no-break, narrow and ideographic spaces
        return " "
    return _MARKS.get(character, character)


def validate(order: Mapping[str, str]) -> Order:
    """Return the order with its cells read, or raise BadOrder with the first thing wrong with it."""
    number = order.get("number", "").strip()
    # The number becomes a file name.
    if not re.fullmatch(r"[A-Za-z0-9-]{1,20}", number):
        raise BadOrder(f"order {number!r}: number must be 1 to 20 letters, digits or dashes")
    try:
        if order.get("surplus"):
            raise ValueError("the row has more cells than the header; is a comma not quoted?")
        currency = _currency(order["currency"])
        return Order(
            number=number,
            placed_at=_placed_at(order["placed_at"]),
            customer=_filled("customer", order["customer"]),
            email=_email(order["email"]),
            amount=_amount(order["amount"], currency),
            currency=currency,
            items=_items(order["items"]),
            note=order["note"].strip(),
        )
    except KeyError as error:
        raise BadOrder(f"order {number}: there is no column {error}") from error
    except ValueError as error:
        raise BadOrder(f"order {number}: {error}") from error


def _filled(column: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"{column} is empty")
    return text.strip()


def _placed_at(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"placed_at {text!r} is not a date and time ({error})") from error


def _email(text: str) -> str:
    try:
        validate_email(text.strip())
    except ValidationError as error:
        raise ValueError(f"email {text!r} is not an e-mail address; ask the customer") from error
    return text.strip()


def _currency(text: str) -> str:
    currency = text.strip().upper()
    if currency not in CURRENCIES:
        raise ValueError(f"currency {text!r} is unknown; the shop takes {_listed(CURRENCIES)}")
    return currency


def _amount(text: str, currency: str) -> Decimal:
    amount = parse_amount(text)
    if amount <= 0:
        raise ValueError(f"amount {text!r} is not more than zero; a refund is not an order")
    if amount > LARGEST_AMOUNT:
        raise ValueError(f"amount {text!r} is more than {LARGEST_AMOUNT:,}; split the order")
    smallest = Decimal(1).scaleb(-CURRENCIES[currency])
    if amount != amount.quantize(smallest):
        raise ValueError(f"amount {text!r} has cents, but {currency} has none")
    return amount.quantize(smallest)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in _filled("items", text).split(";") if item.strip())


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}"
