"""What the task promises. Run them with: python manage.py test"""

# ruff: noqa: PT009, PT027 - a stranger runs these with Django's own runner; pytest is not installed there

import os
import signal
import tempfile
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import TestCase, override_settings
from django.urls import reverse

from shop.models import Receipt, Run
from shop.orders import BadOrder, read_orders
from shop.tasks import process_order
from shop.troubles import GatewayDown


@dataclass(frozen=True)
class FakeResult:
    id: str = "JOB00000000001.orders"


@dataclass(frozen=True)
class FakeContext:
    """As much of a context as the task uses; a second attempt is hard to come by without a worker."""

    task_result: FakeResult = FakeResult()
    attempt: int = 1
    lines: list[str] = field(default_factory=list)

    def log(self, line: str) -> None:
        self.lines.append(line)


def process(row: dict[str, str], context: FakeContext | None = None) -> str:
    """Run the task here and now, as a worker calls it."""
    path: str = process_order.call(context or FakeContext(), row)
    return path


def order(number: str, **cells: Any) -> dict[str, str]:
    """Take an order from the file: the first one with this number."""
    return next(row for row in read_orders(settings.ORDERS_FILE) if row["number"] == number) | cells


class TaskTests(TestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(override_settings(RECEIPTS_DIR=folder))
        self.folder = folder

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def runs(self) -> list[tuple[int, str]]:
        return list(Run.objects.order_by("pk").values_list("attempt", "outcome"))

    def test_an_order_gets_a_row_and_a_file(self) -> None:
        path = process(order("1016"))

        receipt = Receipt.objects.get()
        self.assertEqual(
            (receipt.number, receipt.customer, receipt.price, receipt.path),
            ("1016", "Loïc Fénelonne", "1,192.84 EUR", "1016.html"),
        )
        self.assertEqual((path, self.files()), ("1016.html", ["1016.html"]))
        self.assertIn("Loïc Fénelonne", (self.folder / "1016.html").read_text(encoding="utf-8"))
        self.assertEqual(self.runs(), [(1, "done")])

    @override_settings(TASKS={"default": {"BACKEND": "echomq_django.testing.ImmediateBackend", "QUEUES": ["orders"]}})
    def test_an_enqueued_order_has_the_path_of_its_receipt_as_its_result(self) -> None:
        result = process_order.enqueue(order("1016"))

        self.assertEqual((result.status, result.return_value), ("SUCCESSFUL", "1016.html"))
        self.assertEqual(Receipt.objects.get().result_id, result.id)

    def test_a_second_run_of_the_same_task_changes_nothing(self) -> None:
        process(order("1016"))
        before = Receipt.objects.values().get(), (self.folder / "1016.html").read_bytes()

        again = FakeContext()
        process(order("1016"), again)

        self.assertEqual((Receipt.objects.values().get(), (self.folder / "1016.html").read_bytes()), before)
        self.assertEqual(self.files(), ["1016.html"])
        self.assertEqual(self.runs(), [(1, "done"), (1, "done")])
        self.assertEqual(again.lines, ["an earlier run has written the receipt of order 1016"])

    def test_a_run_that_died_between_row_and_file_is_finished_by_the_next(self) -> None:
        process(order("1016"))
        (self.folder / "1016.html").unlink()

        process(order("1016"))

        self.assertEqual(Receipt.objects.count(), 1)
        self.assertEqual(self.files(), ["1016.html"])

    def test_another_task_with_the_same_number_is_refused_and_the_receipt_stays(self) -> None:
        process(order("1200"))
        before = Receipt.objects.values().get(), (self.folder / "1200.html").read_bytes()

        with self.assertRaisesMessage(BadOrder, "order 1200: already has a receipt, written by JOB00000000001.orders"):
            process(order("1200", amount="77.70"), FakeContext(FakeResult("JOB00000000002.orders")))

        self.assertEqual((Receipt.objects.values().get(), (self.folder / "1200.html").read_bytes()), before)
        self.assertEqual(self.runs(), [(1, "done"), (1, "failed")])

    def test_a_bad_order_leaves_no_receipt(self) -> None:
        with self.assertRaisesMessage(BadOrder, "order 1042: amount is empty"):
            process(order("1042"))

        self.assertFalse(Receipt.objects.exists())
        self.assertEqual(self.files(), [])
        self.assertEqual(self.runs(), [(1, "failed")])

    def test_the_flaky_gateway_answers_at_the_second_attempt(self) -> None:
        with self.assertRaises(GatewayDown):
            process(order("1033"))
        process(order("1033"), FakeContext(attempt=2))

        self.assertEqual(Receipt.objects.count(), 1)
        self.assertEqual(self.runs(), [(1, "failed"), (2, "done")])

    def test_the_crash_comes_after_the_receipt_and_only_once(self) -> None:
        class Killed(BaseException):
            pass

        with mock.patch("os.kill", side_effect=Killed) as kill:
            with self.assertRaises(Killed):
                process(order("1123"))
            self.assertEqual((Receipt.objects.count(), self.files()), (1, ["1123.html"]))
            process(order("1123"))

        kill.assert_called_once_with(os.getpid(), signal.SIGKILL)
        self.assertEqual((Receipt.objects.count(), self.files()), (1, ["1123.html"]))
        self.assertEqual(self.runs(), [(1, "started"), (1, "done")])

    def test_what_a_customer_typed_is_text_in_the_receipt(self) -> None:
        process(order("1030"))

        self.assertIn("Fish &amp; Chips &lt;Kiosk&gt;", (self.folder / "1030.html").read_text(encoding="utf-8"))

    def test_the_front_page_lists_the_receipt_and_links_to_its_file(self) -> None:
        process(order("1009"))

        page = self.client.get(reverse("front"))
        self.assertContains(page, "ليلى الزيتوني")
        self.assertContains(page, "638.51 AED")
        self.assertContains(page, reverse("admin:index"))
        file = self.client.get(Receipt.objects.get().get_absolute_url())
        self.assertEqual(b"".join(file), (self.folder / "1009.html").read_bytes())

    def test_the_operator_mends_and_the_viewer_looks(self) -> None:
        for _ in range(2):
            call_command("people", stdout=StringIO())

        viewer, operator = (User.objects.get(username=name) for name in ("viewer", "operator"))
        self.assertTrue(viewer.has_perms(["echomq.view_job", "shop.view_receipt"]))
        self.assertFalse(viewer.has_perm("echomq.view_job_payload"))
        self.assertTrue(operator.has_perms(["echomq.view_job_payload", "echomq.requeue_job"]))
        self.assertFalse(operator.has_perm("echomq.drain_queue"))
        self.assertTrue(self.client.login(username="admin", password="admin"))

    def test_the_front_page_of_an_empty_shop_says_what_to_do(self) -> None:
        self.assertContains(self.client.get(reverse("front")), "make demo")
