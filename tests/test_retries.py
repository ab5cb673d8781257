"""When to try again."""

import math

import pytest

from echomq_django import retries


@pytest.mark.parametrize(("value", "is_one"), [(1, True), (10**9, True), (0, False), (10**9 + 1, False), (-1, False),
    (True, False), (1.0, False), ("3", False), (None, False)])  # fmt: skip
def test_a_number_of_attempts_is_a_whole_one_from_1_to_a_thousand_millions(value: object, is_one: bool) -> None:
    assert retries.is_number_of_attempts(value) is is_one


@pytest.mark.parametrize(("attempt", "delay"), [(1, 1), (2, 2), (3, 4), (4, 8), (10, 512), (12, 2048), (13, 3600)])
def test_delays_double_up_to_the_cap(attempt: int, delay: float) -> None:
    assert retries.backoff(attempt, base=1, cap=3600) == delay


@pytest.mark.parametrize("attempt", [64, 65, 1_025, 5_000, 10**9, 10**400])
def test_the_cap_comes_before_the_overflow(attempt: int) -> None:
    assert retries.backoff(attempt, base=1, cap=3600) == 3600
    assert retries.backoff(attempt, base=1e-9, cap=3600) == 3600


@pytest.mark.parametrize("attempt", [0, -1, -5_000])
def test_an_attempt_before_the_first_counts_as_the_first(attempt: int) -> None:
    assert retries.backoff(attempt, base=2, cap=3600) == 2


def test_a_base_above_the_cap_is_cut_to_the_cap() -> None:
    assert retries.backoff(1, base=10, cap=5) == 5
    assert retries.backoff(1, base=10, cap=5, kind=retries.FIXED) == 5


def test_a_base_of_nought_means_at_once() -> None:
    assert retries.backoff(5_000, base=0, cap=3600) == 0


@pytest.mark.parametrize("attempt", [1, 2, 5_000])
def test_a_fixed_delay_does_not_grow(attempt: int) -> None:
    assert retries.backoff(attempt, base=7, cap=3600, kind=retries.FIXED) == 7


def test_both_kinds_have_a_name() -> None:
    assert retries.KINDS == ("exponential", "fixed")


@pytest.mark.parametrize(("drawn", "delay"), [(0.0, 0.0), (0.5, 30.0), (0.999, 59.94)])
def test_a_jittered_delay_is_a_share_of_the_longest(drawn: float, delay: float) -> None:
    assert math.isclose(retries.jittered(60, lambda: drawn), delay)


def test_jitter_spreads_over_the_whole_range_and_never_beyond() -> None:
    drawn = [retries.jittered(60) for _ in range(2_000)]
    assert min(drawn) >= 0
    assert max(drawn) < 60
    assert min(drawn) < 6
    assert max(drawn) > 54


@pytest.mark.parametrize(
    ("age", "delay"), [(-10, 5), (0, 5), (5, 5), (6, 6), (59, 59), (60, 60), (61, 60), (86_400, 60), (10**9, 60)]
)
def test_an_unknown_task_is_looked_at_every_five_to_sixty_seconds(age: float, delay: float) -> None:
    assert retries.deferral(age) == delay


def test_an_unknown_task_is_given_up_after_a_day() -> None:
    assert retries.DEFER_LIMIT == 86_400
