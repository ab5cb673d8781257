"""Receipts: a row and a file for each order, written so that doing it twice does it once."""

import shutil
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string

from shop.models import Receipt, Run
from shop.orders import BadOrder, Order


def write(order: Order, result_id: str) -> tuple[Receipt, bool]:
    """Write the row, then the file; whether the row is new. A second run finds its row and goes on from there."""
    # The unique number decides between two tasks that carry it, also when both run right now.
    receipt, is_new = Receipt.objects.get_or_create(
        number=order.number,
        defaults={
            "result_id": result_id,
            "customer": order.customer,
            "email": order.email,
            "amount": order.amount,
            "currency": order.currency,
            "path": f"{order.number}.html",
        },
    )
    if receipt.result_id != result_id:
        raise BadOrder(
            f"order {order.number}: already has a receipt, written by {receipt.result_id}; "
            "if this is another order, give it a number of its own"
        )
    text = render_to_string("shop/receipt.html", {"order": order, "receipt": receipt})
    _write_file(file_of(receipt), text, result_id)
    return receipt, is_new


def file_of(receipt: Receipt) -> Path:
    """Say where the receipt's file is, or will be."""
    return Path(settings.RECEIPTS_DIR) / receipt.path


def clear() -> None:
    """Delete every receipt, row and file, and what is known of the runs that wrote them."""
    Receipt.objects.all().delete()
    Run.objects.all().delete()
    shutil.rmtree(settings.RECEIPTS_DIR, ignore_errors=True)


def _write_file(path: Path, text: str, result_id: str) -> None:
    # Moved into place when it is whole: a worker that dies here leaves no half receipt. The
    # part is named after the task's result, so that the next run overwrites it.
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{result_id}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
