"""Branded ids: the vectors of the wire protocol, and minting."""

import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from echomq_django import ids
from echomq_django.exceptions import EchoMQError, InvalidId

VECTORS = [
    (0, "00000000000"),
    (1, "00000000001"),
    (61, "0000000000z"),
    (62, "00000000010"),
    (63, "00000000011"),
    (3843, "000000000zz"),
    (3844, "00000000100"),
    (4095, "00000000143"),
    (4096, "00000000144"),
    (4194303, "0000000Hb83"),
    (4194304, "0000000Hb84"),
    (12345678901234, "0003VLrOWLi"),
    (209715201620567, "000xY9Wvvcd"),
    (9007199254740991, "00fFgnDxSe7"),
    (271644782957166592, "0K48QjihpC4"),
    (274557032793636864, "0KHTOWnGLuC"),
    (320636799581945856, "0NgWEfAEJfs"),
    (2**63 - 1, "AzL8n0Y58m7"),
]

INVALID = [
    "USRAzL8n0Y58m8",
    "USRzzzzzzzzzzz",
    "usr0KHTOWnGLuC",
    "US10KHTOWnGLuC",
    "ÜR0KHTOWnGLuC",
    "ÜSR0KHTOWnGLuC",
    "USR0KHTOWn-LuC",
    "USR0KHTOWnGLu*",
    "USR0KHTOWnGLu ",
    " JOB0KHTOWnGLuC",
    "JOB0000000000\n",
    "JOB00000000000\n",
    "JOB0000000000",
    "JOB000000000000",
    "JOB",
    "",
    "\x00" * 14,
    "JOB０0000000000",
    "JOB٠0000000000",
]


@pytest.mark.parametrize("namespace", ["JOB", "USR", "AAA", "ZZZ"])
@pytest.mark.parametrize(("snowflake", "text"), VECTORS)
def test_a_snowflake_and_its_text_turn_into_each_other(snowflake: int, text: str, namespace: str) -> None:
    assert ids.brand(namespace, snowflake) == namespace + text
    assert ids.parse(namespace + text) == (namespace, snowflake)


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_id_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [b"JOB00000000000", None, 5, ["JOB00000000000"]])
def test_what_is_no_text_is_no_id(value: Any) -> None:
    with pytest.raises(InvalidId):
        ids.parse(value)


@pytest.mark.parametrize("snowflake", [2**63, -1, 2**64, -(2**63)])
def test_a_number_that_does_not_fit_is_refused_by_name(snowflake: int) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.brand("JOB", snowflake)
    assert str(snowflake) in str(caught.value)


@pytest.mark.parametrize("namespace", ["job", "JO", "JOBS", "JO1", "JOB\n", "ÜOB", ""])
def test_a_namespace_is_three_capital_letters(namespace: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.brand(namespace, 1)
    assert repr(namespace) in str(caught.value)


def test_an_invalid_id_can_be_caught_as_a_value_error_and_as_one_of_ours() -> None:
    assert issubclass(InvalidId, ValueError)
    assert issubclass(InvalidId, EchoMQError)


@pytest.mark.parametrize(
    ("text", "milliseconds", "node", "sequence"),
    [
        ("USR0KHTOWnGLuC", 1769526697641, 0, 0),
        ("EVT000xY9Wvvcd", 1704117200000, 395, 2647),
        ("JOB00000000144", ids.EPOCH, 1, 0),
        ("JOB0000000Hb83", ids.EPOCH, 1023, 4095),
        ("JOB0000000Hb84", ids.EPOCH + 1, 0, 0),
        ("JOB0003VLrOWLi", 1704070143439, 226, 4082),
        ("JOB00fFgnDxSe7", 1706214683647, 1023, 4095),
    ],
)
def test_an_id_tells_when_where_and_in_what_order_it_was_minted(
    text: str, milliseconds: int, node: int, sequence: int
) -> None:
    found = ids.parse(text)
    assert (found.milliseconds, found.node, found.sequence) == (milliseconds, node, sequence)


def test_the_order_of_texts_is_the_order_of_numbers_inside_a_namespace() -> None:
    numbers = sorted({0, *(number for number, _ in VECTORS), *(secrets.randbelow(2**63) for _ in range(500))})
    texts = [ids.brand("JOB", number) for number in numbers]
    assert texts == sorted(texts)
    assert [text.encode() for text in texts] == sorted(text.encode() for text in texts)


def test_a_job_has_an_id_of_the_namespace_of_jobs() -> None:
    assert ids.check_job("JOB0KHTOWnGLuC") == "JOB0KHTOWnGLuC"


@pytest.mark.parametrize("text", ["USR0KHTOWnGLuC", "JOC0KHTOWnGLuC", *INVALID])
def test_no_other_text_is_the_id_of_a_job(text: str) -> None:
    with pytest.raises(InvalidId) as caught:
        ids.check_job(text)
    assert repr(text) in str(caught.value)


class Clock:
    """Tell a time that is set by hand, in unix ms."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __call__(self) -> float:
        return self.ms / 1000


NOW = 1_800_000_000_000


def test_a_minted_id_tells_the_clock_and_the_node() -> None:
    found = ids.parse(ids.brand("JOB", ids.Mint(node=5, clock=Clock(NOW)).snowflake()))
    assert (found.namespace, found.milliseconds, found.node) == ("JOB", NOW, 5)


def test_five_thousand_ids_of_one_millisecond_grow_strictly_and_borrow_from_the_future() -> None:
    mint = ids.Mint(node=1023, clock=Clock(NOW))
    minted = [ids.Branded("JOB", mint.snowflake()) for _ in range(5_000)]
    assert all(earlier.snowflake < later.snowflake for earlier, later in pairwise(minted))
    assert {one.node for one in minted} == {1023}
    assert (minted[0].milliseconds, minted[-1].milliseconds) in {(NOW, NOW + 1)}
    assert sum(one.milliseconds == NOW for one in minted) == 4096 - minted[0].sequence


def test_a_clock_that_goes_back_does_not_make_ids_go_back() -> None:
    clock = Clock(NOW)
    mint = ids.Mint(node=1, clock=clock)
    first = mint.snowflake()
    clock.ms -= 3_600_000
    second = mint.snowflake()
    assert second == first + 1
    clock.ms = NOW + 1
    third = ids.Branded("JOB", mint.snowflake())
    assert third.snowflake > second
    assert third.milliseconds == NOW + 1


def test_each_millisecond_begins_at_a_random_place_of_the_sequence() -> None:
    clock = Clock(NOW)
    mint = ids.Mint(node=1, clock=clock)
    starts = set()
    for _ in range(100):
        clock.ms += 1
        starts.add(ids.Branded("JOB", mint.snowflake()).sequence)
    assert len(starts) > 80
    # At least half of the sequence is left for the ids of the same millisecond.
    assert max(starts) < 2048


def test_two_processes_that_drew_the_same_node_seldom_mint_the_same_id() -> None:
    clock = Clock(NOW)
    mints = [ids.Mint(node=1, clock=clock) for _ in range(2)]
    met = 0
    for _ in range(200):
        clock.ms += 1
        first, second = (mint.snowflake() for mint in mints)
        met += first == second
    assert met < 5


def test_threads_that_share_a_mint_never_get_the_same_id() -> None:
    mint = ids.Mint(node=1, clock=Clock(NOW))
    minted: list[int] = []

    def take() -> None:
        minted.extend([mint.snowflake() for _ in range(2_000)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(minted)) == 8_000


def test_a_process_draws_any_node_but_the_one_that_elixir_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[Sequence[int]] = []

    def choice(nodes: Sequence[int]) -> int:
        offered.append(nodes)
        return nodes[0]

    monkeypatch.setattr(secrets, "choice", choice)
    ids.random_node()
    [nodes] = offered
    assert list(nodes) == [*range(68), *range(69, 1024)]


def test_processes_draw_their_nodes_at_random() -> None:
    assert len({ids.Mint().node for _ in range(50)}) > 30


def test_mint_gives_ids_of_jobs_unless_told_otherwise() -> None:
    minted = [ids.mint() for _ in range(1_000)]
    assert minted == sorted(set(minted))
    assert {ids.check_job(one) for one in minted} == set(minted)
    assert ids.parse(ids.mint("TEN")).namespace == "TEN"


def test_a_child_process_mints_other_ids_than_its_parent() -> None:
    # In a process of its own: this one has threads, and must not be forked.
    code = """
import os
from echomq_django import ids
ids._mint = ids.Mint(node=5, clock=lambda: 1_800_000_000)
ids.mint()
reads, writes = os.pipe()
if os.fork() == 0:
    os.write(writes, " ".join(ids.mint() for _ in range(500)).encode())
    os._exit(0)
os.wait()
os.close(writes)
with os.fdopen(reads) as pipe:
    its = set(pipe.read().split())
mine = {ids.mint() for _ in range(500)}
print(len(mine), len(its), len(mine & its))
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.stdout.split(), result.stderr) == (["500", "500", "0"], "")


def test_a_workers_name_is_new_each_time_and_holds_no_character_that_means_something() -> None:
    names = {ids.worker_name() for _ in range(20)}
    assert len(names) == 20
    assert all(len(name.split(":")) == 3 for name in names)
    assert ids.worker_name("a:b {c}/é" + "x" * 100).split(":")[0] == "a-b--c---" + "x" * 31
