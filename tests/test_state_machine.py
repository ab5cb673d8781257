"""All moves, in any order, against a queue that is a few dictionaries."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from echomq_django import transitions
from echomq_django.call import Call
from echomq_django.job import Claim, Location
from tests.places import LEASE, PAST, A, About, B, C, D, E, K, errors, held, job, kept, logs, now, run, seed

HOUR = 3_600_000
IDS = (A, B, C, D, E)
MAX_ATTEMPTS = 2
BACKOFF = (10 * HOUR, 10 * HOUR)
SHARES = (0.5, 0.118, 0.736)  # what the reaper makes of a spread of a half, one after the other

some_ids = st.lists(st.sampled_from(IDS), min_size=1, max_size=3)
some_picks = st.lists(st.integers(0, 9), min_size=1, max_size=3)
some_ttls = st.lists(st.sampled_from([HOUR, 0]), min_size=3, max_size=3)
notes = st.tuples(st.sampled_from(["progress", "checkpoint", "log"]), st.sampled_from(["x", "y"]))
limits = st.integers(1, 3)


@dataclass
class Model:
    """A queue as the words of the design have it."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is kept of completed jobs, key by key."""
    recent: list[str] = field(default_factory=list)
    places: dict[str, dict[str, float]] = field(
        default_factory=lambda: {"pending": {}, "active": {}, "schedule": {}, "dead": {}}
    )
    wake: int = 0
    completed: int = 0
    failed: int = 0
    attempts_failed: int = 0
    paused: bool = False

    def ordered(self, place: str) -> list[str]:
        return sorted(self.places[place], key=lambda one: (self.places[place][one], one))

    def first(self, place: str) -> float | None:
        return min(self.places[place].values(), default=None)

    def leave(self, job_id: str) -> None:
        for place in self.places.values():
            place.pop(job_id, None)

    def line_up(self, job_id: str) -> None:
        self.leave(job_id)
        self.places["pending"][job_id] = -int(self.rows[job_id].get("priority", 0))
        self.rows[job_id]["state"] = "pending"

    def revive(self, job_id: str) -> None:
        self.line_up(job_id)
        row = self.rows[job_id]
        for name in ("last_error", "stalled", "died_at", "deferred_at"):
            row.pop(name, None)
        row["spared"] = row["attempts"]

    def appoint(self, job_id: str, at: float) -> None:
        first = self.first("schedule")
        self.leave(job_id)
        self.places["schedule"][job_id] = at
        self.rows[job_id]["state"] = "scheduled"
        if first is None or at < first:
            self.wake = self.wake or 1

    def bury(self, job_id: str, at: float, reason: str) -> None:
        self.leave(job_id)
        self.places["dead"][job_id] = at
        self.rows[job_id].update(state="dead", died_at=About(at), last_error=reason)
        self.failed += 1

    def delete(self, job_id: str) -> None:
        self.leave(job_id)
        del self.rows[job_id]
        self.records.pop(job_id, None)
        self.lines.pop(job_id, None)

    def keep(self, job_id: str, at: float, result: str) -> None:
        row = {**self.rows[job_id], "state": "completed", "finished_at": About(at), "result": result}
        self.results[job_id] = {kept(job_id): row}
        if job_id in self.records:
            self.results[job_id][kept(job_id, "errors")] = ["{}"] * self.records[job_id]
        if job_id in self.lines:
            self.results[job_id][kept(job_id, "logs")] = self.lines[job_id]

    def add(self, job_id: str, name: str) -> None:
        self.rows[job_id][name] = str(int(self.rows[job_id].get(name, 0)) + 1)

    def holds(self, claim: Claim) -> bool:
        row = self.rows.get(claim.id, {})
        return (row.get("attempts"), row.get("owner")) == (str(claim.token), claim.owner)

    def ring_up(self, was_empty: bool) -> None:
        if was_empty and self.places["pending"]:
            self.wake = self.wake or 1


class Queue(RuleBasedStateMachine):
    """Make a move on the server and in the model, and compare them whole."""

    client: redis.Redis

    def __init__(self) -> None:
        super().__init__()
        self.client.flushdb()
        self.meta = {"reap_run": self.client.info("server")["run_id"], "reap_after": str(PAST)}
        seed(self.client, {"meta": self.meta})
        self.model = Model()
        self.claims: list[Claim] = []
        self.numbers = itertools.count(1)
        self.receipt = ""

    def call(self, call: Call[Any]) -> Any:
        return run(self.client, call)

    def pick(self, picks: list[int]) -> list[Claim]:
        """Give claims, current and stale; small numbers mean recent ones."""
        return [self.claims[-1 - pick % len(self.claims)] for pick in picks]

    # From nothing most walks never come to a claim, and so to none of the moves that need one.
    @initialize(number=st.sampled_from([5, 3, 0]), limit=limits)
    def some_jobs_are_held(self, number: int, limit: int) -> None:
        if number:
            self.enqueue(job_ids=list(IDS[:number]), priority=0, hours=0)
            self.claim(limit=limit, worker="x")

    @rule(job_ids=some_ids, priority=st.sampled_from([0, 0, 5, -5]), hours=st.sampled_from([0, 0, 0, 1, 2]))
    def enqueue(self, job_ids: list[str], priority: int, hours: int) -> None:
        model, number = self.model, next(self.numbers)
        self.receipt, payload = f"r{number}", f"p{number}"
        place, state = ("schedule", "scheduled") if hours else ("pending", "pending")
        at = now(self.client) + hours * HOUR if hours else -priority
        first, expected = model.first(place), []
        for job_id in job_ids:
            new = job_id not in model.rows and job_id not in model.results
            expected.append(("scheduled" if hours else "enqueued") if new else "duplicate")
            if new:
                model.rows[job_id] = {"state": state, "attempts": "0", "payload": payload}
                if priority:
                    model.rows[job_id]["priority"] = str(priority)
                model.places[place][job_id] = at
        if set(expected) != {"duplicate"} and (first is None or (hours and at < first)):
            model.wake = model.wake or 1
        self.sent = transitions.enqueue(
            K,
            [value for job_id in job_ids for value in (job_id, payload)],
            receipt=self.receipt,
            delay_ms=hours * HOUR or None,
            priority=priority,
        )
        self.words = self.call(self.sent)
        assert self.words == expected

    @precondition(lambda self: self.receipt)
    @rule()
    def send_the_last_enqueue_again(self) -> None:
        assert self.call(self.sent) == self.words

    @rule(limit=limits, worker=st.sampled_from("xy"))
    def claim(self, limit: int, worker: str) -> None:
        model, owner, at = self.model, f"{worker}:{next(self.numbers)}", now(self.client)
        found = self.call(transitions.claim(K, limit=limit, lease_ms=LEASE, owner=owner))
        assert found.paused == model.paused
        if model.paused:
            assert (found.claims, found.left) == ([], 0)
            return
        for job_id in self.due(100):
            model.line_up(job_id)
        taken = model.ordered("pending")[:limit]
        for job_id in taken:
            model.leave(job_id)
            model.places["active"][job_id] = at + LEASE
            model.add(job_id, "attempts")
            model.rows[job_id].update(state="active", owner=owner, started_at=About(at))
        assert [(one.id, one.token, one.owner, one.payload.decode()) for one in found.claims] == [
            (job_id, int(model.rows[job_id]["attempts"]), owner, model.rows[job_id]["payload"]) for job_id in taken
        ]
        for one in found.claims:
            assert str(one.spared) == model.rows[one.id].get("spared", "0")
            assert str(one.stalled) == model.rows[one.id].get("stalled", "0")
            assert (one.deferred_ms is not None) == ("deferred_at" in model.rows[one.id])
        assert found.left == len(model.places["pending"])
        first = model.first("schedule")
        assert found.due_in_ms == (None if first is None else About(first - at))
        if found.left:
            model.wake = model.wake or 1
        self.claims += found.claims

    def due(self, limit: int) -> list[str]:
        at = now(self.client)
        schedule = self.model.places["schedule"]
        return [one for one in self.model.ordered("schedule") if schedule[one] <= at][:limit]

    @precondition(lambda self: self.claims)
    @rule(picks=some_picks, ttls=some_ttls, listed=st.sampled_from([2, 3, 0]))
    def complete(self, picks: list[int], ttls: list[int], listed: int) -> None:
        model, expected, claims, at = self.model, [], self.pick(picks), now(self.client)
        results = [(ttl, f"result {next(self.numbers)}") for ttl in ttls[: len(claims)]]
        for claim, (ttl, result) in zip(claims, results, strict=True):
            if claim.id not in model.rows:
                expected.append("gone")
            elif not model.holds(claim):
                expected.append("lost")
            else:
                expected.append("ok")
                if ttl:
                    model.keep(claim.id, at, result)
                model.delete(claim.id)
                model.completed += 1
                if listed:
                    model.recent = [claim.id, *model.recent]
        if "ok" in expected:
            model.recent = model.recent[:listed]
        assert self.call(transitions.complete(K, claims, results=results, recent=listed)) == expected

    @precondition(lambda self: self.model.results)
    @rule(pick=st.integers(0, 4))
    def the_time_of_a_result_is_over(self, pick: int) -> None:
        results = self.model.results
        job_id = sorted(results)[pick % len(results)]
        for key in (K.result(job_id), K.result_errors(job_id), K.result_logs(job_id)):
            assert not self.client.exists(key) or HOUR - 60_000 < self.client.pttl(key) <= HOUR
            self.client.delete(key)
        del results[job_id]

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 9), entries=st.lists(notes, max_size=3))
    def annotate(self, pick: int, entries: list[tuple[str, str]]) -> None:
        model, [claim] = self.model, self.pick([pick])
        holds = model.holds(claim) and claim.id in model.places["active"]
        for kind, value in entries if holds else ():
            if kind == "log":
                model.lines[claim.id] = [*model.lines.get(claim.id, []), value]
            else:
                model.rows[claim.id][kind] = value
        assert self.call(transitions.annotate(K, claim, entries)) == ("ok" if holds else "lost")

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 9), maximum=st.sampled_from([MAX_ATTEMPTS, MAX_ATTEMPTS, 0]))
    def retry(self, pick: int, maximum: int) -> None:
        model, [claim], at = self.model, self.pick([pick]), now(self.client)
        waits = claim.id in model.places["active"] or claim.id in model.places["pending"]
        if claim.id not in model.rows:
            expected = "gone"
        elif not model.holds(claim) or not waits:
            expected = "lost"
        else:
            model.records[claim.id] = model.records.get(claim.id, 0) + 1
            model.attempts_failed += 1
            row = model.rows[claim.id]
            row.pop("deferred_at", None)
            if int(row["attempts"]) - int(row.get("spared", 0)) >= maximum:
                expected = "dead"
                model.bury(claim.id, at, "no")
            else:
                expected = "scheduled"
                model.appoint(claim.id, at + 3 * HOUR)
                row["last_error"] = "no"
        call = transitions.retry(K, claim, delay_ms=3 * HOUR, maximum=maximum, reason="no", entry="{}")
        assert self.call(call) == expected

    @precondition(lambda self: self.claims)
    @rule(picks=some_picks)
    def extend(self, picks: list[int]) -> None:
        model, claims, at = self.model, self.pick(picks), now(self.client)
        held_by = [model.holds(claim) and claim.id in model.places["active"] for claim in claims]
        for claim in itertools.compress(claims, held_by):
            model.places["active"][claim.id] = at + LEASE
        words = ["ok" if holds else "lost" for holds in held_by]
        assert self.call(transitions.extend(K, claims, lease_ms=LEASE)) == words

    @precondition(lambda self: self.claims)
    @rule(picks=some_picks)
    def release(self, picks: list[int]) -> None:
        model, claims, expected = self.model, self.pick(picks), []
        was_empty = not model.places["pending"]
        for claim in claims:
            holds = model.holds(claim) and claim.id in model.places["active"]
            expected.append("ok" if holds else "lost")
            if holds:
                model.line_up(claim.id)
                model.add(claim.id, "spared")
        model.ring_up(was_empty)
        assert self.call(transitions.release(K, claims)) == expected

    @precondition(lambda self: self.claims)
    @rule(pick=st.integers(0, 9))
    def defer(self, pick: int) -> None:
        model, [claim], at = self.model, self.pick([pick]), now(self.client)
        holds = model.holds(claim) and claim.id in model.places["active"]
        if holds:
            model.appoint(claim.id, at + 4 * HOUR)
            model.add(claim.id, "spared")
            model.rows[claim.id].setdefault("deferred_at", About(at))
            model.rows[claim.id]["last_error"] = "not here"
        call = transitions.defer(K, claim, delay_ms=4 * HOUR, reason="not here")
        assert self.call(call) == ("ok" if holds else "lost")

    @rule(limit=limits)
    def promote(self, limit: int) -> None:
        was_empty, due = not self.model.places["pending"], self.due(limit)
        for job_id in due:
            self.model.line_up(job_id)
        self.model.ring_up(was_empty)
        assert self.call(transitions.promote(K, limit=limit)) == (len(due), 0)

    @rule(limit=limits)
    def reap(self, limit: int) -> None:
        model, at = self.model, now(self.client)
        was_empty, moved = not model.places["pending"], {"pending": 0, "schedule": 0, "dead": 0}
        expired = [one for one in model.ordered("active") if model.places["active"][one] <= at][:limit]
        for job_id in expired:
            model.add(job_id, "spared")
            model.add(job_id, "stalled")
            model.attempts_failed += 1
            model.records[job_id] = model.records.get(job_id, 0) + 1
            losses = int(model.rows[job_id]["stalled"])
            if losses > len(BACKOFF):
                model.bury(job_id, at, f"crashed: its worker was lost {losses} times while running it")
                moved["dead"] += 1
            elif losses == 1:
                model.line_up(job_id)
                moved["pending"] += 1
            else:
                model.appoint(job_id, at + 10 * HOUR * SHARES[moved["schedule"]])
                moved["schedule"] += 1
        model.ring_up(was_empty)
        call = transitions.reap(K, limit=limit, lease_ms=LEASE, backoff_ms=BACKOFF, spread=0.5)
        assert self.call(call) == transitions.Reaped(waiting=False, quarantined=0, **moved)

    @rule(job_ids=some_ids)
    def requeue(self, job_ids: list[str]) -> None:
        model, expected = self.model, []
        was_empty = not model.places["pending"]
        for job_id in job_ids:
            if job_id in model.places["dead"]:
                expected.append("ok")
                model.revive(job_id)
            else:
                expected.append("elsewhere" if job_id in model.rows else "gone")
        model.ring_up(was_empty)
        assert self.call(transitions.requeue(K, job_ids)) == expected

    @rule(job_id=st.sampled_from(IDS))
    def revise(self, job_id: str) -> None:
        model, expected = self.model, "gone"
        was_empty, payload = not model.places["pending"], f"p{next(self.numbers)}"
        if job_id in model.places["dead"]:
            expected = "ok"
            model.revive(job_id)
            model.rows[job_id]["payload"] = payload
            model.rows[job_id].pop("checkpoint", None)
            model.rows[job_id].pop("progress", None)
        elif job_id in model.rows:
            expected = "elsewhere"
        model.ring_up(was_empty)
        assert self.call(transitions.revise(K, job_id, payload)) == expected

    @rule(job_ids=some_ids, place=st.sampled_from([None, *Location]))
    def remove(self, job_ids: list[str], place: Location | None) -> None:
        expected = []
        for job_id in job_ids:
            if job_id not in self.model.rows:
                expected.append("gone")
            elif job_id in self.model.places["active"] or (place and job_id not in self.model.places[place]):
                expected.append("elsewhere")
            else:
                expected.append("ok")
                self.model.delete(job_id)
        assert self.call(transitions.remove(K, job_ids, place=place)) == expected

    @rule(job_ids=some_ids)
    def advance(self, job_ids: list[str]) -> None:
        model, expected = self.model, []
        was_empty = not model.places["pending"]
        for job_id in job_ids:
            if job_id in model.places["schedule"]:
                expected.append("ok")
                model.line_up(job_id)
            else:
                expected.append("elsewhere" if job_id in model.rows else "gone")
        model.ring_up(was_empty)
        assert self.call(transitions.advance(K, job_ids)) == expected

    @rule(maximum=st.integers(0, 2), limit=limits)
    def expire(self, maximum: int, limit: int) -> None:
        beyond = max(len(self.model.places["dead"]) - maximum, 0)
        forgotten = self.model.ordered("dead")[: min(beyond, limit)]
        for job_id in forgotten:
            self.model.delete(job_id)
        assert self.call(transitions.expire(K, ttl_ms=HOUR, maximum=maximum, limit=limit)) == len(forgotten)

    @rule()
    def pause(self) -> None:
        self.model.paused = True
        self.call(transitions.pause(K))

    @rule()
    def resume(self) -> None:
        self.model.paused = False
        self.model.wake = self.model.wake or 1
        self.call(transitions.resume(K))

    @rule()
    def a_parked_worker_takes_a_token(self) -> None:
        took = self.client.rpop(K.wake) is not None
        assert took == (self.model.wake > 0)
        self.model.wake -= took

    @precondition(lambda self: self.model.places["active"] or self.model.places["schedule"])
    @rule(place=st.sampled_from(["active", "schedule"]), pick=st.integers(0, 4))
    def time_passes_for_one_job(self, place: str, pick: int) -> None:
        if ordered := self.model.ordered(place):
            job_id, past = ordered[pick % len(ordered)], PAST + next(self.numbers)
            self.client.zadd(K.pending.replace("pending", place), {job_id: past})
            self.model.places[place][job_id] = past

    @invariant()
    def the_server_holds_what_the_model_holds_and_nothing_else(self) -> None:
        model, found = self.model, held(self.client)
        found = {key: value for key, value in found.items() if not key.startswith("receipt:")}
        expected: dict[str, Any] = {job(job_id): row for job_id, row in model.rows.items()}
        expected |= {logs(job_id): lines for job_id, lines in model.lines.items()}
        for job_id, parts in model.results.items():
            # The records of a reaper say more than those of a retry; here only their number counts.
            if records := found.get(kept(job_id, "errors")):
                found[kept(job_id, "errors")] = ["{}"] * len(records)
            expected |= parts
        if model.recent:
            expected["recent"] = model.recent
        expected["meta"] = self.meta | ({"paused": "1"} if model.paused else {})
        if model.wake:
            expected["wake"] = ["1"] * model.wake
        if model.completed:
            expected["metrics:completed"] = {"count": str(model.completed)}
        if model.failed:
            expected["metrics:failed"] = {"count": str(model.failed)}
        ticked = {"completed": model.completed, "failed": model.attempts_failed}
        if minute := {name: str(number) for name, number in ticked.items() if number}:
            expected["minute"] = minute
        assert {job_id: len(found.pop(errors(job_id), ())) for job_id in model.rows} == {
            job_id: model.records.get(job_id, 0) for job_id in model.rows
        }
        for place, scores in model.places.items():
            actual = found.pop(place, [])
            if place == "pending":
                assert actual == [(job_id, scores[job_id]) for job_id in model.ordered(place)]
            else:
                assert dict(actual) == {job_id: About(score) for job_id, score in scores.items()}
                # From now on to the millisecond, for what depends on the order.
                model.places[place] = dict(actual)
        assert found == expected


def explore(client: redis.Redis, **options: Any) -> None:
    machine = type("QueueOnAServer", (Queue,), {"client": client})
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine, settings=settings(deadline=None, database=None, suppress_health_check=health, **options)
    )


def test_any_sequence_of_moves_leaves_the_queue_that_the_design_describes(client: redis.Redis) -> None:
    explore(client, max_examples=25, stateful_step_count=30)


@pytest.mark.slow
def test_any_long_sequence_of_moves_leaves_the_queue_that_the_design_describes(client: redis.Redis) -> None:
    explore(client, max_examples=100, stateful_step_count=60)
