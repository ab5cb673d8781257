"""Receipts: a row and a file for each order, written so that doing it twice does it once."""

import shutil
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string

from shop.models import Receipt, Run
from shop.orders import BadOrder, Order


def write(order: Order, job_id: str) -> Receipt:
    """Write the row, then the file. A second run of the same job finds its row and goes on from there."""
    # The unique number decides between two jobs that carry it, also when both run right now.
    receipt, _ = Receipt.objects.get_or_create(
        number=order.number,
        defaults={
            "job_id": job_id,
            "customer": order.customer,
            "email": order.email,
            "amount": order.amount,
            "currency": order.currency,
            "path": f"{order.number}.html",
        },
    )
    if receipt.job_id != job_id:
        raise BadOrder(
            f"order {order.number}: already has a receipt, written by job {receipt.job_id}; "
            "if this is another order, give it a number of its own"
        )
    _write_file(file_of(receipt), render_to_string("shop/receipt.html", {"order": order, "receipt": receipt}), job_id)
    return receipt


def file_of(receipt: Receipt) -> Path:
    """Say where the receipt's file is, or will be."""
    return Path(settings.RECEIPTS_DIR) / receipt.path


def clear() -> None:
    """Delete every receipt, row and file, and what is known of the runs that wrote them."""
    Receipt.objects.all().delete()
    Run.objects.all().delete()
    shutil.rmtree(settings.RECEIPTS_DIR, ignore_errors=True)


def _write_file(path: Path, text: str, job_id: str) -> None:
    # Moved into place when it is whole: a worker that dies here leaves no half receipt. The
    # part is named after the job, so that the next run overwrites it.
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{job_id}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
