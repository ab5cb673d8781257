"""Processes: a child never uses its parent's connections, ids or names, and two that mint alike lose nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import redis

from echomq_django import ids, jobs, keys

MAIL = keys.of("mail")
Program = Callable[[str], list[Any]]


@pytest.fixture
def program(url: str) -> Program:
    """Give a function that runs a program in a process of its own, and reads the JSON lines that it prints."""

    def run(source: str) -> list[Any]:
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "ECHOMQ_TEST_URL": url}
        # A fork beside threads is what is tested here; Python 3.12 warns of it.
        command = [sys.executable, "-W", "ignore", "-c", f"import django\ndjango.setup()\n{source}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def stored(client: redis.Redis) -> dict[str, bytes]:
    """Read every job's payload by its id."""
    job_ids = [job_id.decode() for job_id in client.zrange(MAIL.pending, 0, -1)]
    pipe = client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hget(MAIL.row(job_id), "payload")
    return dict(zip(job_ids, pipe.execute(), strict=True))


FORKS = """
import json, os, sys
from echomq_django import connection, jobs

def enqueue(who, number):
    for each in range(number):
        body = f"{who}:{each}"
        made.append((jobs.enqueue("mail", body).id, body))

made = []
enqueue("parent", 1)  # as under gunicorn --preload: the parent has a connection
children = []
for child in range(4):
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        made.clear()
        enqueue(f"child {child}", 1000)
        with open(into, "w") as pipe:
            json.dump(made, pipe)
        os._exit(0)
    os.close(into)
    children.append((pid, out))
enqueue("parent", 999)
for pid, out in children:
    with open(out) as pipe:
        made += json.load(pipe)
    assert os.waitpid(pid, 0)[1] == 0
print(json.dumps(made))
"""


@pytest.mark.slow
def test_a_parent_and_4_forked_children_enqueue_5_000_distinct_jobs_and_none_reads_anothers_reply(
    client: redis.Redis, program: Program
) -> None:
    [made] = program(FORKS)
    assert len(made) == 5000
    assert {job_id: body.encode() for job_id, body in made} == stored(client)
    assert len(stored(client)) == 5000


def test_a_fork_in_the_middle_of_other_threads_calls_leaves_the_child_able_to_work(
    client: redis.Redis, program: Program
) -> None:
    codes = program("""
import json, os, threading
from echomq_django import connection, jobs
jobs.counts("mail")  # what Python imports at a first connection is locked for ever in a child forked meanwhile
stop = threading.Event()
def busy():
    while not stop.is_set():
        jobs.enqueue("mail", b"thread")
threads = [threading.Thread(target=busy) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        threading.Timer(10, os._exit, [9]).start()  # stuck on a lock that nobody holds any more
        jobs.enqueue("mail", b"child")
        os._exit(0)
    print(json.dumps(os.waitpid(pid, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
""")
    assert codes == [0] * 20
    assert list(stored(client).values()).count(b"child") == 20


def test_a_child_mints_claims_and_connects_under_its_own_name(client: redis.Redis, program: Program) -> None:
    client.delete(MAIL.pending)
    jobs.enqueue_many("mail", ["payload"] * 2)
    [parent, child] = program("""
import json, os, sys
from echomq_django import connection, ids, jobs
def tell():
    [claim] = jobs.claim("mail")
    [_, number] = connection.client().exchange((("PING",), ("CLIENT", "ID")))
    print(json.dumps([ids.parse(ids.mint()).node, claim.owner, number]), flush=True)
ids._mint = ids.Mint(node=1)
tell()
pid = os.fork()
if pid == 0:
    tell()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    # One node in 1,023 would be drawn again.
    assert ids.SHARED_NODE not in (parent[0], child[0])
    assert parent[1].rpartition(":")[0] != child[1].rpartition(":")[0]
    assert parent[2] != child[2]


def test_a_childs_end_does_not_close_its_parents_connections(client: redis.Redis, program: Program) -> None:
    [before, after] = program("""
import json, os, sys
from echomq_django import connection, jobs
def number():
    return connection.client().exchange((("CLIENT", "ID"),))[0]
print(json.dumps(number()), flush=True)
pid = os.fork()
if pid == 0:
    jobs.counts("mail")
    sys.exit(0)  # in good order, with every finaliser
assert os.waitpid(pid, 0)[1] == 0
print(json.dumps(number()))
""")
    assert before == after


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that makes this process mint as another one does: same node, same clock, same start."""
    monkeypatch.setattr(ids.secrets, "randbelow", lambda limit: 0)

    def become() -> None:
        monkeypatch.setattr(ids, "_mint", ids.Mint(node=5, clock=lambda: 1_800_000_000.0))

    become()
    return become


def test_ids_that_another_process_has_minted_too_are_minted_again(client: redis.Redis, twin: Any) -> None:
    first = [jobs.enqueue("mail", f"first {number}") for number in range(20)]
    twin()
    second = [jobs.enqueue("mail", f"second {number}") for number in range(20)]
    assert {each.status for each in (*first, *second)} == {"enqueued"}
    assert stored(client) == {
        **{each.id: f"first {number}".encode() for number, each in enumerate(first)},
        **{each.id: f"second {number}".encode() for number, each in enumerate(second)},
    }
    assert len({each.id for each in (*first, *second)}) == 40


@pytest.mark.parametrize("sizes", [(3, 3), (1200, 700), (700, 1200), (3, 1)])
def test_ids_of_many_jobs_that_another_process_has_minted_too_are_minted_again(
    client: redis.Redis, twin: Any, sizes: tuple[int, int]
) -> None:
    first = jobs.enqueue_many("mail", [f"first {number}" for number in range(sizes[0])])
    twin()
    second = jobs.enqueue_many("mail", [f"second {number}" for number in range(sizes[1])])
    assert {each.status for each in (*first, *second)} == {"enqueued"}
    held = stored(client)
    assert len(held) == sum(sizes)
    assert [held[each.id] for each in first] == [f"first {number}".encode() for number in range(sizes[0])]
    assert [held[each.id] for each in second] == [f"second {number}".encode() for number in range(sizes[1])]
