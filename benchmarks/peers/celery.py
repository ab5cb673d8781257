"""celery: lists, through kombu."""

import os

from celery import Celery

from benchmarks import marks

app = Celery("bench", broker=os.environ["BENCH_URL"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)


@app.task
def run(argument: dict[str, int]) -> None:
    marks.hit(argument)


def enqueue(argument: dict[str, int]) -> None:
    run.delay(argument)
