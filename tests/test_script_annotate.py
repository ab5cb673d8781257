"""annotate: active -> active."""

import json
from typing import Any

import pytest
import redis

from echomq_django import transitions
from tests.places import (
    FUTURE,
    OTHER,
    OWNER,
    PAST,
    PLACES,
    QUEUE,
    A,
    B,
    C,
    K,
    changed,
    held,
    job,
    logs,
    own,
    row,
    run,
    seed,
    world_with,
)

NOTES = [("progress", "50"), ("checkpoint", '{"page":7}'), ("log", "a line")]


def annotate(client: redis.Redis, *entries: tuple[str, str], **claim: Any) -> str:
    return run(client, transitions.annotate(K, own(A, **claim), entries))


@pytest.mark.parametrize("owner", [OWNER, OTHER, None])
@pytest.mark.parametrize("token", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_only_the_claimant_of_an_active_job_says_how_far_it_is(
    client: redis.Redis, place: str, token: int, owner: str | None
) -> None:
    world = world_with(place, owner=owner)
    seed(client, world)
    word = annotate(client, *NOTES, token=token)
    if place.startswith("active") and token == 2 and owner in (OWNER, None):
        noted = {**world[job(A)], "progress": "50", "checkpoint": '{"page":7}'}
        assert (word, held(client)) == ("ok", {**world, job(A): noted, logs(A): ["a line"]})
    else:
        assert (word, held(client)) == ("lost", world)


@pytest.mark.parametrize("kind", ["progress", "checkpoint"])
def test_a_note_takes_the_place_of_the_former_one_and_the_last_of_a_call_stays(client: redis.Redis, kind: str) -> None:
    world = world_with("active", progress="1", checkpoint="1")
    seed(client, world)
    assert annotate(client, (kind, "2"), (kind, "3")) == "ok"
    assert held(client) == changed(world, {job(A): {**world[job(A)], kind: "3"}})


def test_lines_stand_behind_the_former_ones_and_the_oldest_make_room(client: redis.Redis) -> None:
    world = {**world_with("active"), logs(A): [str(number) for number in range(99)]}
    seed(client, world)
    assert annotate(client, ("log", "x"), ("log", ""), ("log", "y")) == "ok"
    lines = [*(str(number) for number in range(2, 99)), "x", "", "y"]
    assert len(lines) == transitions.LOGS_KEPT
    assert held(client) == {**world, logs(A): lines}


def test_a_call_that_is_sent_again_writes_its_line_twice_and_nothing_else(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert annotate(client, *NOTES) == "ok"
    once = held(client)
    assert annotate(client, *NOTES) == "ok"
    assert held(client) == {**once, logs(A): ["a line", "a line"]}


def test_values_are_written_as_they_are(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    text = '\x00 é \u2028 "quoted"'
    assert annotate(client, ("progress", text), ("checkpoint", text), ("log", text)) == "ok"
    found = held(client)
    assert (found[job(A)]["progress"], found[job(A)]["checkpoint"], found[logs(A)]) == (text, text, [text])


def test_no_notes_change_nothing_and_still_tell_whether_the_claim_holds(client: redis.Redis) -> None:
    world = world_with("active")
    seed(client, world)
    assert (annotate(client), annotate(client, token=1)) == ("ok", "lost")
    assert held(client) == world


def test_another_kind_is_refused_before_anything_is_written(client: redis.Redis) -> None:
    world = world_with("active")
    seed(client, world)
    with pytest.raises(redis.ResponseError, match="annotate knows no state: use progress, checkpoint or log"):
        annotate(client, ("progress", "1"), ("log", "x"), ("state", "dead"))
    assert held(client) == world


def test_a_lease_that_ran_out_and_was_not_reaped_is_a_lease(client: redis.Redis) -> None:
    world = {"active": [(A, PAST)], job(A): row("active", 2, owner=OWNER)}
    seed(client, world)
    assert annotate(client, ("progress", "1")) == "ok"
    assert held(client) == changed(world, {job(A): {**world[job(A)], "progress": "1"}})


@pytest.mark.parametrize("unsound", ["junk", {"state": "active", "attempts": "2x"}])
def test_a_row_that_is_unsound_is_nobodys(client: redis.Redis, unsound: Any) -> None:
    world = {"active": [(A, FUTURE)], job(A): unsound}
    seed(client, world)
    assert annotate(client, *NOTES) == "lost"
    assert held(client) == world


def test_other_jobs_are_left_alone(client: redis.Redis) -> None:
    world = {
        "active": [(A, FUTURE), (B, FUTURE)],
        job(A): row("active", 2, owner=OWNER), job(B): row("active", 2, owner=OWNER), logs(B): ["b"], logs(C): ["c"],
    }  # fmt: skip
    seed(client, world)
    assert annotate(client, ("log", "a")) == "ok"
    assert held(client) == {**world, logs(A): ["a"]}


def events(client: redis.Redis, *entries: tuple[str, str], **claim: Any) -> list[dict[str, str]]:
    """Give what a subscriber to EchoMQ's channel hears of a call."""
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(f"emq:{{{QUEUE}}}:events")
        listener.get_message(timeout=5)
        annotate(client, *entries, **claim)
        client.publish(K.events, '{"event":"end"}')
        heard = []
        while (message := listener.get_message(timeout=5)) is None or b'"end"' not in message["data"]:
            assert message, "the channel fell silent"
            heard.append(json.loads(message["data"]))
        return heard


def test_progress_is_told_as_echomq_tells_it(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    text = 'half "way" \\ é \x00'
    assert events(client, ("log", "x"), ("progress", text), ("checkpoint", "y"), ("progress", "60")) == [
        {"event": "progress", "job": A, "progress": text},
        {"event": "progress", "job": A, "progress": "60"},
    ]


def test_nothing_is_told_of_other_notes_or_by_a_claim_that_is_lost(client: redis.Redis) -> None:
    seed(client, world_with("active"))
    assert events(client, ("log", "x"), ("checkpoint", "y")) == []
    assert events(client, ("progress", "1"), token=1) == []


def test_a_worker_that_may_not_publish_writes_all_the_same(client: redis.Redis) -> None:
    world = world_with("active")
    seed(client, world)
    run(client, transitions.annotate(K, own(A), []))
    client.execute_command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", "resetchannels")
    kwargs = {**client.connection_pool.connection_kwargs, "username": "limited", "password": "x"}
    pool = redis.ConnectionPool(connection_class=client.connection_pool.connection_class, **kwargs)
    try:
        with redis.Redis(connection_pool=pool) as limited:
            assert annotate(limited, ("progress", "1"), ("log", "x")) == "ok"
    finally:
        pool.disconnect()
        client.execute_command("ACL", "DELUSER", "limited")
    assert held(client) == {**world, job(A): {**world[job(A)], "progress": "1"}, logs(A): ["x"]}
