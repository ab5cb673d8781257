"""A parent of worker processes that forks them, so that whoever is killed has a successor at once.

A worker that starts from nothing takes up to a second of a core. This one has imported everything before, connects to
no server and has no thread, so that a child of it is a worker within milliseconds.
"""

import os
import signal
import traceback

from echomq_django import conf
from echomq_django.worker.options import Options
from echomq_django.worker.process import Process, log_to_stderr, signals
from tests import chaos_handlers  # noqa: F401, so that no child has to import it

HEARD = {signal.SIGCHLD, signal.SIGTERM}


def keep(number: int) -> None:
    """Keep so many workers alive until told to stop; then end well if each of them does."""
    log_to_stderr(verbosity=1)
    options = Options(queues=tuple(conf.alias().queues), supervisor=os.getpid())
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)  # they are waited for, and so never come at a wrong moment
    workers = {_fork(options) for _ in range(number)}
    while signal.sigwait(HEARD) == signal.SIGCHLD:
        for worker in _ended():
            workers.remove(worker)
            workers.add(_fork(options))
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    codes = {os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers}
    raise SystemExit(codes - {0, -signal.SIGKILL} != set())


def _ended() -> list[int]:
    """List the children that have ended; one signal may stand for several."""
    ended = []
    while (child := os.waitpid(-1, os.WNOHANG)[0]) > 0:
        ended.append(child)
    return ended


def _fork(options: Options) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        worker = Process(options)
        with signals(worker.stop):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
            code = worker.run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # whatever happened, this is no second parent
