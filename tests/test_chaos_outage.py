"""Servers that go away and come back: workers wait, go on, and nobody's job is stolen meanwhile."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from echomq_django import jobs
from echomq_django.exceptions import QueueFull
from tests.lossy import BLACKHOLE, lossy
from tests.processes import QUEUE, Fleet, make_fleet, reaps_at_once  # noqa: F401

BACK = 10.0
"""Seconds within which a worker has to be at work again. It promises 5; the machine may be busy."""

KINDS = pytest.mark.parametrize("kind", ["killed", "paused"])


@contextmanager
def outage(here: Fleet, kind: str, seconds: float) -> Iterator[None]:
    """Take the server away, and give it back after the block, but not before some seconds have passed."""
    back = time.monotonic() + seconds
    match kind:
        case "killed":
            here.server.kill()
        case "paused":
            os.kill(here.server.pid, signal.SIGSTOP)
        case "read only":
            here.client.replicaof("127.0.0.1", 1)
        case "without replicas":
            here.client.config_set("min-replicas-to-write", 1)
    try:
        yield
        time.sleep(max(back - time.monotonic(), 0))
    finally:
        match kind:
            case "killed":
                here.server.restart()
            case "paused":
                os.kill(here.server.pid, signal.SIGCONT)
            case "read only":
                here.client.replicaof("NO", "ONE")
            case "without replicas":
                here.client.config_set("min-replicas-to-write", 0)


def ledger_has(here: Fleet, job: str) -> Callable[[], bool]:
    return lambda: bool(here.ledger("start", job))


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("killed", 1), ("killed", 10), ("paused", 1), ("paused", 10), ("read only", 5), ("without replicas", 5)],
)
def test_workers_are_at_work_again_soon_after_the_server_was_away(
    fleet: Callable[..., Fleet], kind: str, seconds: int
) -> None:
    here = fleet(queues={"busy": {"LEASE": 300, "BACKOFF_BASE": 10**6, "BACKOFF_CAP": 10**6}, "idle": {"LEASE": 300}})
    busy, idle = here.worker("--queues", "busy"), here.worker("--queues", "idle")
    here.ready(busy, idle)
    failing = here.enqueue(["wait", "gate"], ["fail"], queue="busy")
    ids = here.enqueue_many(200, ["sleep", 0.03], queue="busy")
    here.until(lambda: len(here.ledger("end")) > 20, "it is busy")
    with outage(here, kind, seconds):
        here.open("gate")
    first = here.enqueue(queue="idle")
    here.until(ledger_has(here, first), "the idle worker is at work again", BACK)
    here.done(1, queue="idle")
    here.done(len(ids), queue="busy")
    assert {busy.terminate(), idle.terminate()} == {0}
    assert here.runs() == dict.fromkeys([*ids, failing, first], 1)
    [failed] = jobs.page("busy", "schedule")
    assert (failed.id, failed.last_error) == (failing, "RuntimeError: told to fail")
    for worker in (busy, idle):
        assert len(worker.log.splitlines()) < 20
        assert all(" WARNING " in line for line in worker.complaints)
    here.conserved(1, queue="idle")
    here.conserved(len(ids) + 1, queue="busy")


@pytest.mark.slow
@KINDS
def test_no_living_job_is_stolen_when_the_server_was_away_for_two_leases(
    fleet: Callable[..., Fleet], kind: str
) -> None:
    lease = 3
    here = fleet(LEASE=lease)
    workers = [here.worker("--concurrency", 1) for _ in range(3)]
    ids = here.enqueue_many(3, ["wait", "gate"])
    for job in ids:
        here.started(job)
    idle = here.worker()
    reaper = here.reaper("--interval", 0.1)
    here.ready(idle)
    here.until(lambda: reaper.log, "the reaper reaps")
    with outage(here, kind, 2 * lease):
        pass
    if kind == "killed":
        # This reaper has seen no outage: all that it can know is that the server is another one.
        assert jobs.reap(QUEUE).waiting
    # As long as it takes to reap what is not extended.
    time.sleep(2.5 * lease)
    assert here.runs() == dict.fromkeys(ids, 1)
    here.open("gate")
    here.done(3)
    assert {program.terminate() for program in (*workers, idle, reaper)} == {0}
    assert here.runs() == dict.fromkeys(ids, 1)
    assert [line for worker in workers for line in worker.complaints if "lost" in line] == []
    here.conserved(3)


@pytest.mark.slow
def test_jobs_run_once_while_every_connection_is_cut_again_and_again_and_neither_connection_nor_memory_is_left_over(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet(LEASE=300)
    worker = here.worker()
    here.ready(worker)
    ids = here.enqueue_many(1500, ["sleep", 0.02])
    memory = []
    for _ in range(500):
        here.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.01)
        memory.append(resident_mb(worker.pid))
    here.until(lambda: len(here.ledger("end")) == len(ids), "all jobs have run")
    here.done(len(ids))
    assert set(here.runs().values()) == {1}
    # Two of ours; those of the link, the waiter, the heartbeat and the reaper.
    here.until(lambda: len(here.client.client_list(_type="normal")) <= 6, "no connection is left over")
    assert len(os.listdir(f"/proc/{worker.pid}/fd")) < 20
    assert max(memory[-50:]) < max(memory[50:100]) + 2
    assert worker.terminate() == 0
    assert len(worker.log.splitlines()) < 2000
    here.conserved(len(ids))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["BLPOP", "EVALSHA"])
def test_an_idle_worker_whose_connection_is_dropped_in_silence_is_at_work_again_soon(
    fleet: Callable[..., Fleet], command: str
) -> None:
    here = fleet(LEASE=300)
    with lossy(here.server.url) as proxy:
        worker = here.worker(url=proxy.url)
        here.ready(worker)
        here.started(here.enqueue())
        proxy.lose(command, 1, BLACKHOLE)
        here.until(lambda: proxy.lost, "it fell into the hole")
        job = here.enqueue()
        here.until(ledger_has(here, job), "it is at work again", BACK)
        here.done(2)
        assert worker.terminate() == 0
    assert set(here.runs().values()) == {1}
    here.conserved(2)


@pytest.mark.slow
def test_a_worker_that_starts_before_its_server_waits_for_it(fleet: Callable[..., Fleet]) -> None:
    here = fleet()
    job = here.enqueue()
    here.server.kill()
    workers = [here.worker(), here.worker("--processes", 2)]
    here.until(lambda: all("the server is away" in worker.log for worker in workers), "they wait")
    reap = here.reaper("--once")
    assert reap.wait() == 1
    assert len(reap.log.splitlines()) == 1
    assert all(worker.alive for worker in workers)
    here.server.restart()
    here.until(ledger_has(here, job), "they work", BACK)
    here.done(1)
    for worker in workers:
        assert worker.terminate() == 0
        assert len(worker.complaints) <= 3 * len(worker.log.split("serves")[1:])
    here.conserved(1)


@pytest.mark.slow
def test_a_worker_whose_server_never_comes_back_heeds_a_signal(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=300)
    idle, busy = here.worker("--shutdown-timeout", 1), here.worker("--shutdown-timeout", 1)
    here.ready(idle, busy)
    here.started(here.enqueue(["wait", "gate"]))
    here.server.kill()
    here.until(lambda: all("the server is away" in worker.log for worker in (idle, busy)), "they have noticed")
    here.open("gate")
    assert {idle.terminate(), busy.terminate()} == {0}
    here.server.restart()


@pytest.mark.slow
def test_a_server_that_still_loads_its_data_is_not_yet_up(fleet: Callable[..., Fleet]) -> None:
    # Loading is slowed down for each key, and interrupted to answer clients after each KB.
    slow = {"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"}
    here = fleet(LEASE=300, server=slow)
    busy, idle = here.worker("--concurrency", 1), here.worker()
    here.ready(busy, idle)
    held = here.enqueue(["wait", "gate"])
    here.started(held)
    ballast = here.enqueue_many(3000, delay=86_400)
    here.client.bgrewriteaof()  # the slow part is the snapshot at the head of the file
    here.until(lambda: not here.client.info("persistence")["aof_rewrite_in_progress"], "it is written")
    here.server.kill()
    here.open("gate")
    here.server.restart()
    assert int(here.client.info("errorstats")["errorstat_LOADING"]["count"])
    job = here.enqueue()
    here.until(ledger_has(here, job), "they work", BACK)
    here.done(2)
    assert {busy.terminate(), idle.terminate()} == {0}
    assert all(" WARNING " in line for worker in (busy, idle) for line in worker.complaints)
    assert set(here.runs().values()) == {1}
    here.conserved(2 + len(ballast))


@pytest.mark.slow
def test_a_server_that_cuts_idle_connections_costs_no_result(fleet: Callable[..., Fleet]) -> None:
    here = fleet(queues={"often": {"LEASE": 2}, "seldom": {"LEASE": 60}})
    here.client.config_set("timeout", 1)
    workers = [here.worker("--queues", queue) for queue in here.queues]
    ids = [here.enqueue(["sleep", 5], queue=queue) for queue in here.queues]
    for queue in here.queues:
        here.done(1, queue)
        here.conserved(1, queue)
    assert here.runs() == dict.fromkeys(ids, 1)
    assert {worker.terminate() for worker in workers} == {0}
    assert [worker.complaints for worker in workers] == [[], []]


@pytest.mark.slow
def test_an_idle_worker_with_a_short_socket_timeout_complains_of_nothing_and_works(
    fleet: Callable[..., Fleet],
) -> None:
    here = fleet()
    workers = [here.worker(url=f"{here.server.url}?socket_timeout=1"), here.worker()]
    here.ready(*workers)
    time.sleep(8)
    job = here.enqueue()
    here.until(ledger_has(here, job), "it works", BACK)
    here.done(1)
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert {worker.wait(10) for worker in workers} == {0}
    assert [worker.complaints for worker in workers] == [[], []]
    here.conserved(1)


@pytest.mark.slow
def test_a_full_server_takes_no_job_and_is_drained(fleet: Callable[..., Fleet]) -> None:
    here = fleet(LEASE=2, MAX_ATTEMPTS=2, BACKOFF_BASE=0.1)
    reaps_at_once(here.client)
    orphans = here.orphans(10)
    ids = here.enqueue_many(1000) + here.enqueue_many(10, delay=1) + here.enqueue_many(4, ["sleep", 6])
    failing = here.enqueue_many(5, ["fail"])
    here.client.config_set("maxmemory", 1)
    workers = [here.worker(), here.worker()]
    with pytest.raises(QueueFull):
        here.enqueue()
    here.done(len(ids) + len(orphans))
    here.until(lambda: here.counts().dead == len(failing), "what fails is dead")
    here.until(lambda: not here.counts().active, "all is settled")
    assert here.runs() == dict.fromkeys([*ids, *orphans], 1) | dict.fromkeys(failing, 2)
    here.conserved(len(ids) + len(orphans) + len(failing))
    here.client.config_set("maxmemory", 0)
    here.started(here.enqueue())
    assert {worker.terminate() for worker in workers} == {0}
    assert [worker.complaints for worker in workers] == [[], []]
