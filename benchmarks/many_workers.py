"""Several of our workers in one process: `python -m benchmarks.many_workers 10 raw`.

A hundred worker processes would need more memory than a small machine has. To the server these are as many workers:
each has its own name, connections, waiters and heartbeat.
"""

import signal
import sys
import threading

import django

from echomq_django.worker.options import Options
from echomq_django.worker.process import Process


def main(number: int, queue: str) -> None:
    """Run them until SIGTERM."""
    django.setup()
    workers = [Process(Options(queues=(queue,), concurrency=1, worker_id=f"w{each}")) for each in range(number)]
    threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    for thread in threads:
        thread.start()
    stopped.wait()
    for worker in workers:
        worker.stop("the measurement is over")
    for thread in threads:
        thread.join(3.0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
