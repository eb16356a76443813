"""Work in other processes: order, bounds, and what happens when one dies."""

import multiprocessing
import os
from itertools import count, islice
from multiprocessing.connection import Connection

import pytest

from outland.errors import OutlandError
from outland.workers import map_ordered, worker_pool


def square(number):
    return number * number


def stumble(number):
    if number == 5:
        raise OutlandError("five is right out")
    return number


def big(number):
    return bytes(1 << 20)


def die(number):
    if number == 3:
        os._exit(1)
    return number


def die_half_way(number):
    """Answer, and die with half of the answer written."""

    def half(self, buffer, write=os.write):
        write(self._handle, buffer[: len(buffer) // 2])
        os._exit(1)

    Connection._send = half
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers, spawned_workers):
    assert list(map_ordered(square, range(50), workers)) == [number * number for number in range(50)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_work_is_the_callers(workers):
    stream = map_ordered(stumble, range(50), workers)
    assert list(islice(stream, 5)) == [0, 1, 2, 3, 4]
    with pytest.raises(OutlandError, match="five is right out"):
        next(stream)


class Awkward(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def awkward(number):
    raise Awkward("this", "that")


def test_an_error_that_cannot_travel_still_says_what_it_is():
    with pytest.raises(OutlandError, match="Awkward: this and that"):
        list(map_ordered(awkward, range(9), 2))


def test_a_stream_that_is_left_early_reads_no_further_and_ends_its_processes():
    numbers = count()
    stream = map_ordered(square, numbers, 2)
    assert next(stream) == 0
    stream.close()
    assert next(numbers) == 8  # eight ahead, no more
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("work", [die, die_half_way])
def test_a_process_that_dies_is_a_sentence(work):
    with pytest.raises(OutlandError, match="a process died at its work"):
        list(map_ordered(work, range(50), 2))
    assert not multiprocessing.active_children()


def test_processes_killed_from_outside_are_a_sentence():
    stream = map_ordered(big, count(), 2)
    next(stream)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(OutlandError, match="a process died at its work"):
        list(islice(stream, 100))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pool_computes_what_is_submitted_when_it_is(workers):
    with worker_pool(stumble, workers) as submit:
        first = submit(3)
        assert first.result() == 3
        second, wrong = submit(first.result() + 1), submit(5)
        assert second.result() == 4
        with pytest.raises(OutlandError, match="five is right out"):
            wrong.result()
    assert not multiprocessing.active_children()
