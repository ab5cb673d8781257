"""The one loop that talks to the server about jobs.

Each turn takes everything that its inbox holds and sends it in one round trip: what finished, what failed, and
claims for the room there is. Meanwhile more jobs finish, so under load every round trip carries many, and at
idle it carries one at once.
"""

import logging
import os
import queue
import random
import resource
import time
from collections.abc import Iterable
from typing import Any

from echomq_django import keys, looks, transitions
from echomq_django.call import Call
from echomq_django.conf import AliasConfig
from echomq_django.connection import Client
from echomq_django.exceptions import EchoMQError, ServerUnavailable

from .claiming import PREFETCH_MAX, Claiming
from .heartbeat import Heartbeat
from .held import HeldJob
from .options import Options
from .outcome import Outcome, Release
from .plan import Plan, forget
from .pool import Pool, Run
from .settling import Settling
from .waiter import BEAT, Waiter

logger = logging.getLogger("echomq_django.worker")

REMEMBERED = 86_400.0
"""Seconds for which a worker that fell silent is listed."""

SOON_MS = 60_000
"""A burst waits for scheduled jobs that are due within this time: retries, mostly."""


LINGER = 0.005
"""The most seconds for which ended jobs wait to be settled together, while others that were fetched ahead are run."""


class Link:
    """Claim jobs, have them run, and settle how they ended."""

    def __init__(self, options: Options, config: AliasConfig, worker: str, run: Run) -> None:
        self.why_stopped = ""
        self.worn_out = False
        """Whether it stopped for a reason for which another process should take its place."""
        self.abandoned = False
        """Whether it ended while jobs still ran: their threads may outlive it by much."""
        self._options, self._config, self._worker = options, config, worker
        self._client = Client(config)
        self._waiting_client = Client(config, socket_timeout=BEAT + 2.0, bounded=False)
        self._inbox: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._heartbeat = Heartbeat(config, options.queues)
        self._pool = Pool(options.concurrency, run, self._finished)
        self._settling = Settling(config, self._heartbeat)
        self._claiming = Claiming(config, options.queues, worker, self._heartbeat, self._begin)
        self._waiters = {name: Waiter(self._waiting_client, name, self._woken) for name in options.queues}
        self._busy = 0
        self._stopping = False
        self._stop_by = 0.0
        self._away_since: float | None = None
        self._pause = 0.0
        self._round_trip, self._mean_job = 0.001, 1.0
        self._last_active = time.monotonic()
        self._next_announce = self._next_look = 0.0
        self._started = int(time.time())

    @property
    def tally(self) -> str:
        """Say what became of the jobs."""
        return str(self._settling.tally)

    # From other threads and from signal handlers: each only leaves a message.

    def stop(self, why: str, *, worn_out: bool = False) -> None:
        """Ask to claim no more, to finish what runs, and to end."""
        self._inbox.put(("stop", why, worn_out))

    def _finished(self, job: HeldJob, outcome: Outcome, seconds: float) -> None:
        self._inbox.put(("done", job, outcome, seconds))

    def _woken(self, name: str, token: bool) -> None:
        self._inbox.put(("wake", name, token))

    # The loop.

    def run(self) -> None:
        """Work until stopped, or until an option says that it is enough."""
        self._heartbeat.start()
        try:
            while not self._is_over():
                self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        self._linger()
        plan = Plan()
        self._read_inbox(plan)
        self._look_after_itself()
        self._settling.plan(plan)
        if self._away_since is None:
            self._claiming.plan_recovery(plan)
            if not self._stopping:
                self._claiming.plan(plan, self._room())
        # While the server is away this is what tells that it is back: a claim could be carried out late.
        if self._away_since is not None or time.monotonic() >= self._next_announce:
            plan.add(self._announcement(), self._announced)
        if plan.calls:
            self._send(plan)
        if not self._stopping and self._away_since is None and self._room() > 0:
            self._park()

    def _linger(self) -> None:
        """Let very short jobs run undisturbed while enough of them are at hand: fewer and fuller round trips."""
        ahead = self._busy - self._options.concurrency
        if ahead > 0 and not self._stopping:
            time.sleep(min(ahead * self._mean_job / self._options.concurrency / 2, LINGER))

    def _read_inbox(self, plan: Plan) -> None:
        """Take everything there is; wait for it only when there is nothing else to do."""
        wait = self._pause
        if not wait and not self._settling and not (self._room() > 0 and self._claiming.any_hot):
            wait = BEAT
        if self._stopping:
            wait = min(wait, max(self._stop_by - time.monotonic(), 0.001))
        try:
            message = self._inbox.get(timeout=wait) if wait else self._inbox.get_nowait()
            while True:
                self._take(message, plan)
                message = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _take(self, message: tuple[Any, ...], plan: Plan) -> None:
        if message[0] == "done":
            _, job, outcome, seconds = message
            self._busy -= 1
            self._mean_job += 0.1 * (seconds - self._mean_job)
            self._settling.add(job, outcome)
            self._claiming.heat(job.queue)
        elif message[0] == "wake":
            _, name, token = message
            self._claiming.heat(name)
            if token and self._room() <= 0:
                # This token was meant for somebody who has room.
                plan.add(transitions.wake(keys.of(name)), forget)
        elif not self._stopping:
            _, self.why_stopped, self.worn_out = message
            self._stopping = True
            self._stop_by = time.monotonic() + self._options.shutdown_timeout
            self._release(self._pool.take_back())
            logger.info("stopping (%s), %d jobs still run", self.why_stopped, self._busy)

    def _room(self) -> int:
        """Give the number of jobs that can be taken, with those to fetch ahead."""
        options = self._options
        if self._stopping:
            return 0
        if options.max_jobs is not None:
            return min(options.concurrency - self._busy, options.max_jobs - self._claiming.taken)
        return options.concurrency + self._prefetch() - self._busy

    def _prefetch(self) -> int:
        """Fetch ahead only when jobs are shorter than a few round trips: else others could run them sooner."""
        if self._mean_job > 4 * self._round_trip:
            return 0
        turn = self._round_trip + LINGER
        return min(int(self._options.concurrency * 2 * turn / max(self._mean_job, 1e-6)), PREFETCH_MAX)

    def _begin(self, jobs: list[HeldJob]) -> None:
        self._busy += len(jobs)
        if self._stopping:
            self._release(jobs)  # their claim was under way when the stop came
        else:
            self._pool.put(jobs)

    def _release(self, jobs: Iterable[HeldJob]) -> None:
        for job in jobs:
            self._busy -= 1
            self._settling.add(job, Release())

    def _look_after_itself(self) -> None:
        """See what only time tells: a dead supervisor, too much memory, long idleness, jobs that wait in vain."""
        now = time.monotonic()
        if self._busy:
            self._last_active = now
        if now < self._next_look:
            return
        self._next_look = now + 0.5
        options = self._options
        if options.supervisor is not None and os.getppid() != options.supervisor:
            self.stop("its supervisor has gone")
        if options.max_memory is not None and resident_mb() > options.max_memory:
            self.stop(f"it holds more than {options.max_memory} MB", worn_out=True)
        if options.max_idle_time is not None and now - self._last_active > options.max_idle_time:
            self.stop(f"idle for {options.max_idle_time:g} s")
        waited = now - self._claiming.last
        if self._busy > options.concurrency and waited > 1.0:
            # They were fetched ahead for short jobs, and then came long ones: others may have room, we fetch no more.
            self._release(self._pool.take_back())
            self._mean_job = max(self._mean_job, waited)

    def _park(self) -> None:
        """Let a waiter wait at the server for each queue that had nothing for the room there is."""
        now = time.monotonic()
        for name, due in self._claiming.cold():
            if not self._waiters[name].parked:
                self._waiters[name].arm(BEAT if due is None else due - now)

    # The server.

    def _send(self, plan: Plan) -> None:
        # A result may ask for one call more: a second page.
        while plan.calls:
            calls, thens = plan.calls, plan.then
            plan.calls, plan.then = [], []
            sent = time.monotonic()
            try:
                results = self._client.attempt(calls)
            except ServerUnavailable as error:
                results = [error] * len(calls)
            except EchoMQError as error:
                # The server is another one than before. What was to be sent is kept for the end, which tries once more.
                for then in thens:
                    then(ServerUnavailable(str(error)))
                raise
            for then, result in zip(thens, results, strict=True):
                then(result)
            away = next((result for result in results if isinstance(result, ServerUnavailable)), None)
            if away is not None:
                self._is_away(away)
                return
            self._round_trip += 0.1 * (time.monotonic() - sent - self._round_trip)
        self._is_back()

    def _is_away(self, error: ServerUnavailable) -> None:
        """Go on trying, ever less often, up to two seconds apart; say so once."""
        if self._away_since is None:
            self._away_since = time.monotonic()
            logger.warning("the server is away, trying again: %s", error)
        self._pause = min(max(self._pause * 2, 0.05), 2.0) * random.uniform(0.75, 1.0)

    def _is_back(self) -> None:
        self._pause = 0.0
        if self._away_since is not None:
            logger.info("the server is back after %.1f s", time.monotonic() - self._away_since)
            self._away_since = None
            self._claiming.heat()
        if self._options.heartbeat_file is not None:
            self._options.heartbeat_file.touch()

    def _announcement(self) -> Call[int]:
        facts: dict[str, str | int] = {
            "host": self._worker.partition(":")[0],
            "pid": os.getpid(),
            "queues": ",".join(self._options.queues),
            "concurrency": self._options.concurrency,
            "busy": self._busy,
            "started_at": self._started * 1000,
        }
        return transitions.announce(self._worker, ttl_ms=round(REMEMBERED * 1000), facts=facts)

    def _announced(self, result: Any) -> None:
        if not isinstance(result, EchoMQError):
            self._next_announce = time.monotonic() + looks.ANNOUNCE_EVERY_MS / 1000

    # The end.

    def _is_over(self) -> bool:
        if self._stopping:
            done = not self._busy and not self._settling and not self._claiming.unseen and self._inbox.empty()
            return done or time.monotonic() >= self._stop_by
        if self._options.max_jobs is not None and self._claiming.claimed >= self._options.max_jobs and not self._busy:
            self.stop(f"{self._claiming.claimed} jobs were enough", worn_out=True)
        elif self._options.burst and self._is_done():
            self.stop("nothing is left to do")
        return False

    def _is_done(self) -> bool:
        """Say whether every queue is empty, or paused, and nothing is due soon."""
        if self._busy or self._settling or self._claiming.unsure or self._claiming.any_hot or self._away_since:
            return False
        for name in self._options.queues:
            calls: list[Call[Any]] = [looks.counts(keys.of(name)), looks.peek(keys.of(name))]
            try:
                counts, peek = self._client.attempt(calls)
            except ServerUnavailable:
                return False
            if isinstance(counts, EchoMQError) or isinstance(peek, EchoMQError):
                return False
            now, next_due = peek
            waits = counts.pending or (next_due is not None and next_due < now + SOON_MS)
            if counts.active or (waits and not counts.paused):
                return False
        return True

    def _end(self) -> None:
        """Give back what is held, if the server can be reached; else its lease will."""
        for waiter in self._waiters.values():
            waiter.stop()
        self._pool.close()
        plan = Plan()
        # What has ended meanwhile is settled as it ended; only the rest goes back.
        while not self._inbox.empty():
            self._take(self._inbox.get(), plan)
        self._settling.plan(plan)
        left = self._heartbeat.held()
        for job in left:
            job.lost = True  # its code, if it still runs, should do no more
        # Before others may have their jobs. A function cannot be cancelled, only told.
        self._pool.cancel(1.0)
        self.abandoned = bool(left)
        for job in left:
            self._settling.add(job, Release())
        self._settling.plan(plan)
        plan.add(transitions.farewell(self._worker), forget)
        try:
            self._send(plan)
        except EchoMQError as error:
            logger.error("what is held is left to its lease: %s", error)
        self._heartbeat.stop()
        self._pool.join(1.0)
        self._client.close()
        self._waiting_client.close()


def resident_mb() -> float:
    """Give this process's resident memory in MB; the most it ever had, where /proc is missing."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
