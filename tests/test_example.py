"""The example project: its orders file, its rules, and the demo as a stranger runs it."""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest

import echomq_django
from echomq_django import jobs

EXAMPLE = Path(__file__).parents[1] / "example_project"
LEFT_BY_A_RUN = shutil.ignore_patterns(".echomq", "db.sqlite3*", "receipts", "worker.log", "__pycache__")
# The children import the package that these tests run against, wherever it is installed.
PACKAGE_PARENT = Path(echomq_django.__file__).parents[1]


@pytest.fixture(scope="module")
def orders() -> Iterator[ModuleType]:
    """Import the shop's rules alone, under another name: this process has settings in which there is no shop."""
    spec = importlib.util.spec_from_file_location("example_shop_orders", EXAMPLE / "shop" / "orders.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


# The second order 1200 is bad only because there is a first one.
BAD_IN_THE_FILE = ["1042", "1067", "1091", "1092", "1156", "1200", "1238", "1333", "1390", "1436"]
GOOD = {
    "number": "2001",
    "placed_at": "2025-03-03T08:00:00+00:00",
    "customer": "Ελπίδα Λεμονάκης",
    "email": "elpida.lemonakis@example.org",
    "amount": "1.234,50",
    "currency": "EUR",
    "items": "1 x Teapot, blue; 2 x Bread knife",
    "note": "",
}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1234.50", "1234.50"),
        ("1,234.50", "1234.50"),
        ("1.234,50", "1234.50"),
        ("1 234,50", "1234.50"),
        ("1\N{NO-BREAK SPACE}234,50", "1234.50"),
        ("1\N{NARROW NO-BREAK SPACE}234,50", "1234.50"),
        ("1'234.50", "1234.50"),
        ("1’234.50", "1234.50"),
        ("12,34,567.00", "1234567.00"),
        ("١٬٢٣٤٫٥٠", "1234.50"),
        ("१,२३४.५०", "1234.50"),
        ("４２，８６２", "42862"),
        ("1,234", "1234"),
        ("1.234.567", "1234567"),
        ("49,9", "49.9"),
        ("0,05", "0.05"),
        (" 7 ", "7"),
        ("-24,90", "-24.90"),
    ],
)
def test_an_amount_is_read_however_it_is_written(orders, text, amount):
    assert str(orders.parse_amount(text)) == amount


@pytest.mark.parametrize(
    "text",
    [
        "1O8,50",
        "12.50 EUR",
        "1,23,50",
        "1.234.50",
        "1,234,50",
        "0.999",
        "1 234 5",
        "1_000",
        "1e3",
        "NaN",
        "²",
        "½",
        ".",
    ],
)
def test_what_cannot_be_one_amount_for_certain_is_no_amount(orders, text):
    with pytest.raises(ValueError, match="is not a number; write it like"):
        orders.parse_amount(text)


@pytest.mark.parametrize("text", ["", "  ", "\N{NO-BREAK SPACE}"])
def test_an_empty_amount_is_called_empty(orders, text):
    with pytest.raises(ValueError, match="amount is empty; enter what the customer paid"):
        orders.parse_amount(text)


def test_a_good_order_is_read(orders):
    order = orders.validate(GOOD)

    assert (order.number, order.amount, order.currency) == ("2001", Decimal("1234.50"), "EUR")
    assert order.items == ("1 x Teapot, blue", "2 x Bread knife")


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        ({"email": "  wren@example.org "}, {"email": "wren@example.org"}),
        ({"currency": " gbp"}, {"currency": "GBP"}),
        ({"amount": "12,800", "currency": "JPY"}, {"amount": Decimal(12800)}),
        ({"amount": "7"}, {"amount": Decimal("7.00")}),
    ],
)
def test_dirt_that_has_one_meaning_is_cleaned(orders, cells, read):
    order = orders.validate(GOOD | cells)

    assert {name: getattr(order, name) for name in read} == read


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"amount": ""}, "order 2001: amount is empty; enter what the customer paid, for example 1,234.50"),
        ({"amount": "1O8,50"}, "order 2001: amount '1O8,50' is not a number; write it like 1,234.50 or 1.234,50"),
        ({"amount": "-24,90"}, "order 2001: amount '-24,90' is not more than zero; a refund is not an order"),
        ({"amount": "0,00"}, "order 2001: amount '0,00' is not more than zero; a refund is not an order"),
        ({"amount": "10000000000"}, "order 2001: amount '10000000000' is more than 9,999,999,999.99; split the order"),
        ({"amount": "12.50", "currency": "JPY"}, "order 2001: amount '12.50' has cents, but JPY has none"),
        ({"email": "a.example.com"}, "order 2001: email 'a.example.com' is not an e-mail address; ask the customer"),
        ({"email": ""}, "order 2001: email '' is not an e-mail address; ask the customer"),
        ({"customer": " "}, "order 2001: customer is empty"),
        ({"items": ""}, "order 2001: items is empty"),
        ({"surplus": "x"}, "order 2001: the row has more cells than the header; is a comma not quoted?"),
        ({"number": ""}, "order '': number must be 1 to 20 letters, digits or dashes"),
        ({"number": "../2001"}, "order '../2001': number must be 1 to 20 letters, digits or dashes"),
    ],
)
def test_a_bad_order_is_told_apart_by_number_and_reason(orders, cells, message):
    with pytest.raises(orders.BadOrder) as error:
        orders.validate(GOOD | cells)
    assert str(error.value) == message


def test_an_unknown_currency_is_answered_with_the_known_ones(orders):
    with pytest.raises(
        orders.BadOrder, match=r"^order 2001: currency 'EUX' is unknown; the shop takes AED, .* and USD$"
    ):
        orders.validate(GOOD | {"currency": "EUX"})


def test_a_day_that_does_not_exist_is_no_date(orders):
    with pytest.raises(orders.BadOrder, match=r"^order 2001: placed_at '2025-02-30' is not a date and time"):
        orders.validate(GOOD | {"placed_at": "2025-02-30"})


def test_a_missing_column_is_named(orders):
    with pytest.raises(orders.BadOrder, match="order 2001: there is no column 'email'"):
        orders.validate({name: cell for name, cell in GOOD.items() if name != "email"})


def test_no_row_is_dropped_while_reading(orders, tmp_path):
    file = tmp_path / "orders.csv"
    file.write_bytes(b"\xef\xbb\xbfnumber,note\r\n1,a\r\n1,a\r\n2\r\n3,a,b,c\r\n,\r\n")

    assert orders.read_orders(file) == [
        {"number": "1", "note": "a"},
        {"number": "1", "note": "a"},
        {"number": "2", "note": ""},
        {"number": "3", "note": "a", "surplus": "b,c"},
        {"number": "", "note": ""},
    ]


def test_the_orders_file_holds_the_dirt_that_the_demo_is_about(orders):
    rows = orders.read_orders(EXAMPLE / "orders.csv")
    numbers = [row["number"] for row in rows]
    bad = []
    for row in rows:
        try:
            orders.validate(row)
        except orders.BadOrder:
            bad.append(row["number"])

    assert len(rows) == 500
    assert [number for number in sorted(set(numbers)) if numbers.count(number) > 1] == ["1200"]
    assert sorted([*bad, "1200"]) == BAD_IN_THE_FILE
    assert {row["note"] for row in rows} >= {"crash", "flaky gateway", "slow: needs manual VAT look-up"}


def test_the_orders_file_is_what_its_script_writes(tmp_path):
    subprocess.run([sys.executable, EXAMPLE / "make_orders.py", tmp_path / "orders.csv"], check=True)

    assert (tmp_path / "orders.csv").read_bytes() == (EXAMPLE / "orders.csv").read_bytes()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the example project as it is in the repository."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=LEFT_BY_A_RUN))


def environment(**more: str) -> dict[str, str]:
    """Return our environment without our settings."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "ECHOMQ_URL")}
    return kept | {"PYTHONPATH": str(PACKAGE_PARENT), "PYTHONWARNINGS": "error", "COLUMNS": "100"} | more


def manage(project: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=project,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=150,
        check=False,
    )


@pytest.mark.slow
def test_the_shop_passes_its_own_tests(project, url):
    tests = manage(project, "test", ECHOMQ_URL=url)

    assert tests.returncode == 0, tests.stdout
    assert "\nRan 12 tests in " in tests.stdout


def test_the_migration_is_up_to_date(project, url):
    check = manage(project, "makemigrations", "--check", "--dry-run", ECHOMQ_URL=url)

    assert (check.returncode, check.stdout) == (0, "No changes detected\n")


@pytest.mark.slow
def test_the_demo_does_what_the_orders_file_asks_for_and_can_be_run_again(project):
    assert manage(project, "migrate", "--verbosity", "0").returncode == 0
    for _ in range(2):
        began = time.monotonic()
        demo = manage(project, "demo")

        assert demo.returncode == 0, demo.stdout + worker_log(project)
        assert time.monotonic() - began < 90
        assert count(demo.stdout, "receipts written") == 490
        assert count(demo.stdout, "retried") == 6
        assert count(demo.stdout, "recovered after the crash") >= 1
        assert count(demo.stdout, "dead") == 10
        assert dead_orders(demo.stdout) == BAD_IN_THE_FILE
        assert "make serve" in demo.stdout
        assert "make worker" in demo.stdout
        assert len(list((project / "receipts").glob("*.html"))) == 490
        assert_nothing_runs_in(project)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_takes_its_worker_along(project, stop):
    assert manage(project, "migrate", "--verbosity", "0").returncode == 0
    with subprocess.Popen(
        [sys.executable, "manage.py", "demo"],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        # A test run that a shell has put into the background ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as demo:
        wait_until(lambda: len(list((project / "receipts").glob("*.html"))) > 5, seconds=60)
        demo.send_signal(stop)
        demo.communicate(timeout=30)

    assert demo.returncode == 130
    assert_nothing_runs_in(project)


@pytest.mark.slow
def test_a_demo_that_is_out_of_time_says_what_is_missing(project, url):
    assert manage(project, "migrate", "--verbosity", "0").returncode == 0
    demo = manage(project, "demo", "--timeout", "0", ECHOMQ_URL=url)

    assert demo.returncode == 1
    assert "orders that should have a receipt and have none: 1001, 1002, " in demo.stdout
    assert "the worker was still at work when the time was up, and was stopped" in demo.stdout
    assert "Next:" not in demo.stdout


@pytest.mark.slow
def test_the_demo_deletes_nothing_that_no_demo_made(project, url):
    assert manage(project, "migrate", "--verbosity", "0").returncode == 0
    job = jobs.enqueue("orders", "somebody else's", delay=3600)
    demo = manage(project, "demo", ECHOMQ_URL=url)

    assert demo.returncode == 1
    assert f'Queue "orders" holds job {job.id} in schedule, which no demo made' in demo.stdout
    assert jobs.location("orders", job.id) == "schedule"
    assert jobs.counts("orders").paused is False


def worker_log(project: Path) -> str:
    """Return what the demo's worker wrote."""
    return (project / "worker.log").read_text(encoding="utf-8")


def count(screen: str, what: str) -> int:
    """Find the number beside these words in the table."""
    return int(re.search(rf"^│ {what} +│ +(\d+) │", screen, re.MULTILINE)[1])


def dead_orders(screen: str) -> list[str]:
    """Find the orders whose last error the table tells; each error names its order again."""
    return re.findall(r"^│ (\d+) +│ BadOrder: order \1: ", screen, re.MULTILINE)


def assert_nothing_runs_in(project: Path) -> None:
    """Look for processes of this copy. Its private server may take a moment to see that nobody is left."""
    wait_until(lambda: not running_in(project), seconds=20)


def running_in(project: Path) -> list[str]:
    """List the processes that work in the folder, or name it in their command; none where there is no /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or a kernel's own
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(project) in command or (process / "cwd").readlink().is_relative_to(project):
                found.append(f"{process.name} {command}")
    return found


def wait_until(true: Callable[[], bool], *, seconds: float) -> None:
    """Look again until it is true, or fail."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
