"""What becomes of runs for which the device has too little memory; they are generators that train nothing."""

import torch

from outland.training.scheduler import Load, MemoryBudget
from tests.training.scheduling import Fleet


def test_one_without_memory_is_put_off_and_fewer_run_from_there_on(capsys):
    full = [2]

    def script(index, step):
        if index == 2 and full and len(fleet.scheduler.active) == 4:
            full.pop()
            raise torch.OutOfMemoryError

    fleet = Fleet([Load(9.0, 0.1)] * 6, width=4, steps=8, script=script)
    result = fleet.run()
    assert sorted(result.records) == list(range(6))
    assert (fleet.scheduler.width, fleet.restarts) == (3, [2])
    assert fleet.begun == [0, 1, 2, 3, 4, 5, 2]  # behind those that wait
    after = fleet.seen[len(fleet.seen) - 20 :]
    assert max(map(len, after)) <= 3
    assert sorted(fleet.ended) == list(range(6))  # each once: what it reads is not dropped while it waits
    assert "3 runs at a time" in capsys.readouterr().err


def test_one_without_memory_alone_fails_and_is_told():
    def script(index, step):
        if index == 0:
            raise torch.OutOfMemoryError

    told = []
    fleet = Fleet(
        [Load()] * 2, width=1, script=script, on_failure=lambda index, problem: told.append((index, str(problem)))
    )
    result = fleet.run()
    assert told == [(0, "the GPU has not enough memory for this run alone")]
    assert (list(result.failures), list(result.records)) == ([0], [1])


def test_memory_of_ended_runs_is_released_before_a_run_alone_fails():
    held, releases = [0], []

    def script(index, step):
        if step == 0:
            if held[0]:
                raise torch.OutOfMemoryError
            held[0] = 1  # and holds it when it has ended

    def release():
        releases.append(held[0])
        held[0] = 0

    fleet = Fleet([Load()] * 2, width=1, script=script)
    result = fleet.run(MemoryBudget(lambda: 1e9, release))
    assert (sorted(result.records), result.failures) == ([0, 1], {})
    assert (releases, fleet.restarts, fleet.scheduler.width) == ([1, 0], [1], 1)


def test_memory_that_an_earlier_fleet_left_is_released_before_a_run_alone_fails():
    held, releases = [1], []

    def script(index, step):
        if held[0]:
            raise torch.OutOfMemoryError

    def release():
        releases.append(held[0])
        held[0] = 0

    fleet = Fleet([Load()], width=1, script=script)
    result = fleet.run(MemoryBudget(lambda: 1e9, release))
    assert (sorted(result.records), result.failures) == ([0], {})
    assert (releases, fleet.restarts) == ([1, 0], [0])


def test_a_run_alone_has_the_memory_of_all_that_ended_before_it():
    """There is room for one at a time; each was put off before, and what the one before it held is still held."""
    held = [0]

    def script(index, step):
        if step == 0:
            if held[0]:
                raise torch.OutOfMemoryError
            held[0] = 1

    def release():
        held[0] = 0

    fleet = Fleet([Load()] * 4, width=4, script=script)
    result = fleet.run(MemoryBudget(lambda: 1e9, release))
    assert (sorted(result.records), result.failures) == ([0, 1, 2, 3], {})
    assert fleet.scheduler.width == 1


def test_a_run_that_others_left_too_little_memory_for_is_tried_again_with_all_of_it():
    """Run 1 wants memory beside run 0, and again when that has ended, for what it held is still held."""
    held, wants = [0], []

    def script(index, step):
        if index == 0:
            held[0] = 1
        elif not wants or (held[0] and len(fleet.scheduler.active) == 1):
            wants.append(len(fleet.scheduler.active))
            raise torch.OutOfMemoryError

    def release():
        held[0] = 0

    fleet = Fleet([Load()] * 2, width=2, steps=4, script=script)
    result = fleet.run(MemoryBudget(lambda: 1e9, release))
    assert wants == [2, 1]
    assert (sorted(result.records), result.failures, fleet.restarts) == ([0, 1], {}, [1, 1])


def test_a_run_that_releasing_does_not_help_fails_in_the_end():
    def script(index, step):
        if index == 1:
            raise torch.OutOfMemoryError

    fleet = Fleet([Load()] * 2, width=1, script=script)
    result = fleet.run(MemoryBudget(lambda: 1e9))
    assert (list(result.records), list(result.failures), fleet.restarts) == ([0], [1], [1])
