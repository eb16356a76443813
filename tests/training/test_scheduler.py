"""Which runs are active, in what order and until when; the runs are generators that train nothing."""

from types import SimpleNamespace

import pytest

from outland import stopping
from outland.errors import CannotWrite
from outland.stopping import Stopped, stop_after
from outland.training import scheduler
from outland.training.scheduler import CAPACITY, ActiveRun, Load, Scheduler
from tests.training.scheduling import MEMORY, Fleet


@pytest.fixture
def clock(monkeypatch):
    """A clock in a list, which runs move by hand."""
    now = [0.0]
    fake = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(stopping, "time", fake)
    monkeypatch.setattr(scheduler, "time", fake)
    kept = ActiveRun.__init__  # whose default is the true clock
    monkeypatch.setattr(ActiveRun, "__init__", lambda self, run, steps: kept(self, run, steps, now[0]))
    return now


@pytest.fixture
def in_step(monkeypatch):
    """Runs that begin together skip no turns."""
    monkeypatch.setattr(scheduler, "MOST_SKIPPED", 0.0)


def test_the_longest_start_first_and_all_end():
    fleet = Fleet([Load(seconds) for seconds in (3.0, 10.0, 1.0, 7.0)], width=1)
    result = fleet.run()
    assert fleet.begun == fleet.ended == [1, 3, 0, 2]
    assert result.records == {index: f"record {index}" for index in range(4)}
    assert (result.failures, result.unfinished) == ({}, [])
    assert max(map(len, fleet.seen)) == 1


def test_runs_of_equal_length_start_in_their_order():
    assert Fleet([Load()] * 4, width=2).run().records.keys() == {0, 1, 2, 3}
    fleet = Fleet([Load()] * 4, width=2)
    fleet.run()
    assert fleet.begun == [0, 1, 2, 3]


def test_runs_that_begin_together_do_not_end_together():
    """Twelve of forty steps, four at a time, each begun a turn later: they would end four at a time throughout."""
    turns, left = [0] * 12, []

    def script(index, step):
        turns[index] += 1
        if step == 39:
            left.append([40 - turns[other] for other in fleet.scheduler.active])

    fleet = Fleet([Load()] * 12, width=4, steps=40, script=script)
    assert len(fleet.run().records) == 12
    assert left[0] == [0, 6, 12, 17]  # of 40, 39, 38 and 37 turns they had all, 7/8, 6/8 and 5/8
    assert max(sum(steps == 0 for steps in others) for others in left) == 1


def test_time_is_divided_by_what_steps_cost(clock, in_step):
    """A step of the first takes four seconds of the device, one of the second a second, and both take as many."""

    def script(index, step):
        clock[0] += 1.0
        fleet.taken[index] = [run.device_seconds for run in fleet.scheduler.active.values()]

    fleet = Fleet([Load(400.0, step_seconds=4.0), Load(50.0)], width=2, steps=30, script=script)
    fleet.taken = {}
    assert len(fleet.run().records) == 2
    both, last = fleet.taken[0], fleet.taken[1][-1]
    assert both[0] / both[1] == pytest.approx(4.0, rel=0.05)
    assert sum(both) == pytest.approx(clock[0], abs=3.0)
    assert last == pytest.approx(clock[0] / 5, abs=2.0)


def test_steps_that_are_skipped_are_not_paid_for(clock):
    """The second of two takes three steps where the first takes four, each a second."""
    seconds = {}

    def script(index, step):
        clock[0] += 1.0
        seconds[index, step] = fleet.scheduler.active[index].device_seconds

    fleet = Fleet([Load()] * 2, width=2, steps=40, script=script)
    assert len(fleet.run().records) == 2
    assert seconds[0, 39] == pytest.approx(39, abs=1.0)  # before its last step
    assert seconds[1, 29] == pytest.approx(29, abs=1.0)
    assert seconds[1, 39] == pytest.approx(39, abs=1.0)


def test_time_in_which_none_takes_a_step_is_divided_equally(clock, in_step, monkeypatch):
    """A step takes a second; then both wait for the device for ten seconds, and the first for ten more."""
    event, naps = object(), []

    def sleep(seconds):
        naps.append(fleet.scheduler.active.copy())
        clock[0] += 10.0

    monkeypatch.setattr(scheduler.time, "sleep", sleep)

    def train(index):
        yield script(index)
        while len(naps) < 2 - index:
            yield event
        last[index] = fleet.scheduler.device_seconds(fleet.scheduler.active[index])

    def script(index):
        clock[0] += 1.0

    last, fleet = {}, Fleet([Load(step_seconds=5.0), Load()], width=2)
    fleet.train = train
    assert len(fleet.run().records) == 2
    assert [len(active) for active in naps] == [2, 1]
    assert last[1] == pytest.approx(1.0 + 5.0, abs=0.5)
    assert sum(last.values()) == pytest.approx(clock[0], abs=0.5)


def test_runs_skip_turns_until_one_has_ended_and_none_that_begins_later():
    skipped = {}

    def script(index, step):
        skipped[index] = fleet.scheduler.active[index].skipped
        if index == 0:
            raise OSError("its file is missing")

    fleet = Fleet([Load(9.0 - index) for index in range(6)], width=4, steps=20, script=script)
    result = fleet.run()
    assert (sorted(result.records), list(result.failures)) == ([1, 2, 3, 4, 5], [0])
    assert [skipped[index] for index in range(1, 4)] == [0.0, 0.125, 0.25]  # of those beside it when each began
    assert skipped[4] == 0.375
    assert skipped[5] == 0.0


def test_shares_of_the_device_are_respected_unless_a_run_is_alone():
    shares = [CAPACITY / 2 * share for share in (0.9, 0.9, 0.5, 3.0, 0.1, 0.7, 0.2, 1.9)]
    loads = [Load(100.0 - index, share) for index, share in enumerate(shares)]
    fleet = Fleet(loads, steps=6)
    assert len(fleet.run().records) == len(shares)
    together = [sum(shares[index] for index in active) for active in fleet.seen if len(active) > 1]
    assert 0.75 * CAPACITY < max(together) <= CAPACITY + 1e-9  # it is filled, and no fuller
    assert frozenset([3]) in fleet.seen  # larger than the device
    assert not any(3 in active for active in fleet.seen if len(active) > 1)


def test_no_more_runs_than_the_width():
    fleet = Fleet([Load(1.0, 0.01)] * 9, width=4, steps=8)
    fleet.run()
    assert max(map(len, fleet.seen)) == 4


def test_a_failure_is_told_once_and_the_others_go_on():
    def script(index, step):
        if (index, step) == (1, 1):
            raise ZeroDivisionError("by nought")

    told = []
    fleet = Fleet([Load()] * 3, script=script, on_failure=lambda *given: told.append(given))
    result = fleet.run()
    assert [(index, str(problem)) for index, problem in told] == [(1, "by nought")]
    assert result.failures == {1: told[0][1]}
    assert sorted(result.records) == [0, 2]
    assert sorted(fleet.ended) == [0, 1, 2]


def test_what_the_caller_raises_ends_the_fleet_and_closes_all_runs():
    closed = []

    def train(index):
        try:
            for step in range(3):
                if (index, step) == (1, 1):
                    raise CannotWrite("the disk is full")
                yield None
        finally:
            closed.append(index)

    def refuse(index, problem):
        raise problem

    runs = Scheduler([Load()] * 3, 3, lambda index, restarted: ActiveRun(SimpleNamespace(), train(index)), refuse)
    with pytest.raises(CannotWrite, match="the disk is full"):
        runs.run(MEMORY)
    assert sorted(closed) == [0, 1]  # the third had not begun


def test_runs_that_would_not_end_in_time_are_not_begun(clock):
    """A run takes twice its load by the clock, which the first shows; 90 of 100 seconds are there to begin with."""
    lengths = [30.0, 20.0, 10.0, 8.0, 4.0]

    def script(index, step):
        clock[0] += 2 * lengths[index] / 3

    fleet = Fleet([Load(seconds, CAPACITY) for seconds in lengths], width=1, script=script)
    with stop_after(100):
        result = fleet.run()
    # after 60 seconds 30 are left: not for the second, 40, but for the third, 20; then 10, which are for the last alone
    assert fleet.begun == [0, 2, 4]
    assert sorted(result.records) == [0, 2, 4]
    assert result.unfinished == [1, 3]
    assert result.failures == {}


@pytest.mark.parametrize(("seconds", "begun"), [(27.0, [0, 1]), (27.5, [0])])
def test_a_run_is_not_begun_with_less_than_a_tenth_to_spare(clock, seconds, begun):
    """The first takes 60 of the 90 seconds that there are."""

    def script(index, step):
        clock[0] += [60.0, seconds][index] / 3

    fleet = Fleet([Load(60.0, CAPACITY), Load(seconds, CAPACITY)], width=1, script=script)
    with stop_after(100):
        fleet.run()
    assert fleet.begun == begun


def test_the_first_pace_is_that_of_as_many_runs_as_the_width(clock):
    """Small shares would admit fifty at a time: then the second would not end in time."""
    fleet = Fleet([Load(30.0, CAPACITY / 50)] * 2, width=2, steps=2)
    with stop_after(100):
        fleet.run()
    assert frozenset([0, 1]) in fleet.seen


def test_time_is_divided_among_the_runs_that_are_active(clock, in_step):
    """A step takes six seconds by the clock, and two runs go on at a time: each turn of both costs either six."""
    seconds = {}

    def script(index, step):
        seconds[index, step] = fleet.scheduler.active[index].device_seconds
        clock[0] += 6.0

    fleet = Fleet([Load()] * 3, width=2, steps=4, script=script)
    assert len(fleet.run().records) == 3
    assert seconds == {(index, step): 6.0 * step for index in range(3) for step in range(4)}
    assert clock[0] == 3 * 4 * 6.0


def test_runs_that_were_stopped_are_unfinished_and_no_failures(clock):
    def script(index, step):
        clock[0] += 20.0
        if stopping.is_stopping():
            raise Stopped("stopped after epoch 3, with a checkpoint")

    told = []
    fleet = Fleet([Load()] * 4, width=2, steps=9, script=script, on_failure=lambda *given: told.append(given))
    with stop_after(100):
        result = fleet.run()
    assert sorted(result.unfinished) == [0, 1, 2, 3]
    assert (result.records, result.failures, told, sorted(fleet.begun)) == ({}, {}, [], [0, 1])


def test_a_run_that_waits_for_the_device_does_not_hold_up_the_others(monkeypatch):
    """Its event comes when the others are done."""
    event, naps = object(), []
    monkeypatch.setattr(scheduler.time, "sleep", naps.append)

    def train(index):
        if index:
            for _ in range(50):
                yield None
        else:
            while len(ended) < 2 or len(naps) < 5:
                yield event

    ended = []
    runs = Scheduler(
        [Load()] * 3,
        3,
        lambda index, _: ActiveRun(SimpleNamespace(record=index, was_whole=True), train(index)),
        on_end=ended.append,
    )
    result = runs.run(MEMORY)
    assert sorted(result.records) == [0, 1, 2]
    assert ended[-1] == 0
    assert len(naps) == 5  # the host rests only where nothing else is to do
