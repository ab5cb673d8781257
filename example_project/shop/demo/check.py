"""Hold what happened against the orders file."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shop import troubles
from shop.demo.results import Results, listed
from shop.orders import BadOrder, Order, validate


@dataclass(frozen=True)
class Expected:
    """Order numbers, worked out from the file by the rules alone: the queue is not asked."""

    receipts: frozenset[str]
    dead: Counter[str]  # how many jobs of each number
    retried: frozenset[str]
    crashed: frozenset[str]


def expect(rows: Iterable[Mapping[str, str]]) -> Expected:
    """Say what must come of these rows: one receipt for each good order number, all other jobs dead."""
    good: dict[str, Order] = {}
    dead: Counter[str] = Counter()
    for row in rows:
        try:
            order = validate(row)
        except BadOrder:
            dead[row["number"]] += 1
            continue
        if order.number in good:
            dead[order.number] += 1
        else:
            good[order.number] = order
    return Expected(
        receipts=frozenset(good),
        dead=dead,
        retried=frozenset(number for number, order in good.items() if order.note == troubles.FLAKY),
        crashed=frozenset(number for number, order in good.items() if order.note == troubles.CRASH),
    )


def differences(expected: Expected, results: Results) -> list[str]:
    """Say in sentences what is not as the file asks for; an empty list is a good run."""
    dead = Counter(job.number for job in results.dead)
    complaints = [
        _orders("should have a receipt and have none", expected.receipts - results.receipts),
        _orders("should have no receipt and have one", results.receipts - expected.receipts),
        _orders("have a row without a file, or a file without a row", results.half_receipts),
        _orders("should be dead and are not", (expected.dead - dead).elements()),
        _orders("are dead and should not be", (dead - expected.dead).elements()),
        _orders("should have needed a retry", expected.retried - results.retried),
        _orders("needed a retry and should not have", results.retried - expected.retried),
        _orders("should have come back after the crash", expected.crashed - results.recovered),
    ]
    if results.unsettled:
        complaints.append(f"jobs still pending, active or in the schedule: {results.unsettled}")
    if results.worker_exit is None:
        complaints.append("the worker was still at work when the time was up, and was stopped")
    elif results.worker_exit:
        complaints.append(f"the worker ended with exit code {results.worker_exit}")
    return [complaint for complaint in complaints if complaint]


def _orders(complaint: str, numbers: Iterable[str]) -> str:
    told = listed(numbers)
    return f"orders that {complaint}: {told}" if told else ""
