"""What the workers run: one task for each order."""

import os

from echomq_django.tasks import EchoMQContext, task
from shop import receipts, troubles
from shop.models import Run
from shop.orders import validate


@task(queue_name="orders", max_attempts=3, timeout=60, takes_context=True)
def process_order(context: EchoMQContext, row: dict[str, str]) -> str:
    """Check one order and write its receipt; its path. May run twice for one order, and must then do nothing new."""
    result_id = context.task_result.id
    run = Run.objects.create(
        number=row.get("number", "")[:20],
        result_id=result_id,
        attempt=context.attempt,
        worker_pid=os.getpid(),
    )
    try:
        order = validate(row)
        troubles.before_the_receipt(order.note, context)
        receipt, is_new = receipts.write(order, result_id)
        if not is_new:
            context.log(f"an earlier run has written the receipt of order {order.number}")
        first_run = not Run.objects.filter(result_id=result_id, pk__lt=run.pk).exists()
        troubles.after_the_receipt(order.note, first_run=first_run)
    except Exception:
        _end(run, Run.Outcome.FAILED)
        raise  # the worker writes the error down and decides: retry with backoff, or dead
    _end(run, Run.Outcome.DONE)
    return receipt.path


def _end(run: Run, outcome: Run.Outcome) -> None:
    Run.objects.filter(pk=run.pk).update(outcome=outcome)
