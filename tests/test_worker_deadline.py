"""deadline: a soft limit for a thread, which strikes inside its block or not at all."""

import threading
import time

import pytest

from echomq_django.exceptions import TaskTimeout
from echomq_django.worker.deadline import Deadline


def spin(seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_block_that_takes_too_long_is_interrupted_where_it_is() -> None:
    with pytest.raises(TaskTimeout) as caught, Deadline(0.05):
        spin()
    assert caught.traceback[-1].name == "spin"


def test_a_block_that_is_quick_is_left_alone() -> None:
    with Deadline(20.0):
        pass
    assert not [
        each for each in threading.enumerate() if isinstance(each, threading.Timer) and not each.finished.is_set()
    ]


def test_a_limit_that_strikes_at_the_end_strikes_nothing_afterwards() -> None:
    for _ in range(300):
        block = Deadline(20.0)
        try:
            with block:
                block._fire()  # as the timer does, at the worst moment
        except TaskTimeout:
            continue
    spin(0.02)


def test_after_its_end_it_strikes_no_more() -> None:
    with Deadline(20.0) as block:
        pass
    block._fire()
    spin(0.02)


def test_an_error_of_the_block_itself_is_what_is_raised() -> None:
    with pytest.raises(ValueError, match="own"), Deadline(20.0):
        raise ValueError("own")


def test_only_its_own_thread_is_interrupted() -> None:
    caught: list[BaseException] = []

    def other() -> None:
        try:
            with Deadline(0.05):
                spin()
        except TaskTimeout as error:
            caught.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    spin(0.2)
    thread.join()
    assert len(caught) == 1
