"""Runs side by side."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from outland.errors import OutlandError
from outland.spec import load_splits
from outland.training import RunRecord, RunSpec, fleet, run, run_fleet, scheduler
from outland.training.callbacks import Callback
from outland.training.evaluate import Evaluation
from outland.training.runs import Run
from outland.training.scheduler import MemoryBudget
from outland.training.trainer import Diverged, Trainer

TINY = {
    "data": {"limit": 48},
    "backbone": {"width": 8, "layers": 3},
    "train": {"epochs": 3, "batch_size": 16},
}


def specs(*methods, seeds=(1, 2)):
    return [RunSpec.make("motif", name, "base", seed=seed, changes=TINY) for name in methods for seed in seeds]


class Raises(Callback):
    """An error at the end of an epoch of one method's runs."""

    def __init__(self, method, problem, epoch=0):
        self.method, self.problem, self.epoch = method, problem, epoch

    def for_run(self, spec):
        return self if spec.method == self.method else Callback()

    def on_epoch_end(self, row, metric):
        if row["epoch"] == self.epoch:
            try:
                raise ValueError(row)
            except ValueError as reason:
                raise self.problem from reason


def without_timing(record: RunRecord) -> dict:
    return {name: value for name, value in record.model_dump().items() if name != "timing"}


@pytest.fixture(scope="module")
def alone(cache, tmp_path_factory):
    """Some of eight runs, each by itself."""
    out, wanted = tmp_path_factory.mktemp("alone"), specs("erm", "aia", "disc", "aia:rdia")
    return {place: without_timing(run(wanted[place], out, device="cpu", cache=cache)) for place in (0, 3, 5, 7)}


class SlowSteps(Callback):
    """A step takes a second by a clock in a list, and an evaluation a half."""

    def __init__(self, clock):
        self.clock = clock

    def on_step_end(self):
        self.clock[0] += 1.0

    def on_evaluation_end(self, epoch, logits):
        self.clock[0] += 0.5


@pytest.mark.parametrize("width", [1, 2])
def test_seconds_are_those_of_steps_and_evaluations_divided_among_the_runs(cache, tmp_path, monkeypatch, width):
    """Three steps and an evaluation an epoch, three epochs: 10.5 seconds each, and loading is none of them.

    A run pays for its turns before and after its training, too, which are in no epoch: steps of the other, by halves.
    """
    clock = [0.0]
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda seconds: None))
    monkeypatch.setattr(scheduler, "MOST_SKIPPED", 0.0)

    def load(*given):
        clock[0] += 100.0
        return load_splits(*given)

    monkeypatch.setattr(fleet, "load_splits", load)
    wanted = specs("erm")
    result = run_fleet(wanted, tmp_path, width=width, device="cpu", cache=cache, callback=SlowSteps(clock))
    timings = [record.timing for record in result.records.values()]
    assert [len(timing["epochs"]) for timing in timings] == [3, 3]
    assert clock[0] == 100.0 + 2 * 10.5  # the data are loaded once
    assert [timing["seconds"] for timing in timings] == pytest.approx([10.5, 10.5], abs=0 if width == 1 else 1.0)
    assert all(sum(timing["epochs"]) == timing["seconds"] for timing in timings)


@pytest.mark.parametrize("width", [1, 3, 10])
def test_every_run_gives_what_it_gives_alone(alone, cache, tmp_path, width):
    wanted = specs("erm", "aia", "disc", "aia:rdia")
    result = run_fleet(wanted, tmp_path / "together", width=width, device="cpu", cache=cache)
    assert not result.failures
    assert sorted(result.records) == list(range(8))
    for place, expected in alone.items():
        assert without_timing(result.records[place]) == expected


def test_done_runs_are_not_done_again(cache, tmp_path):
    wanted = specs("erm")
    first = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    again = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    assert [again.records[i].timing for i in range(2)] == [first.records[i].timing for i in range(2)]


def test_one_that_fails_does_not_disturb_the_others(cache, tmp_path):
    wanted = specs("erm", "irm", seeds=(1,))
    fails = Raises("irm", Diverged("the loss became NaN"), epoch=1)
    result = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache, callback=fails)
    assert list(result.records) == [0]
    assert "became NaN" in str(result.failures[1])
    again = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache)
    assert sorted(again.records) == [0, 1]
    alone = run(wanted[1], tmp_path / "alone", device="cpu", cache=cache)
    assert without_timing(alone) == without_timing(again.records[1])


def test_not_even_by_an_error_nobody_thought_of(cache, tmp_path):
    wanted, fails = specs("erm", "irm", seeds=(1,)), Raises("irm", ValueError("out of the blue"))
    result = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache, callback=fails)
    assert list(result.records) == [0]
    assert isinstance(result.failures[1], ValueError)


def test_a_run_too_large_for_the_device_is_a_sentence(cache, tmp_path, monkeypatch):
    def full(self):
        raise torch.OutOfMemoryError
        yield

    monkeypatch.setattr(Trainer, "steps", full)
    result = run_fleet(specs("erm", seeds=(1,)), tmp_path, device="cpu", cache=cache)
    assert "not enough memory for this run alone" in str(result.failures[0])


def test_a_run_that_has_ended_is_let_go_before_the_next_begins(cache, tmp_path, monkeypatch):
    alive, seen, begin = [], [], Trainer.__init__

    def counted(self, method, *others, **named):
        seen.append(sum(one() is not None for one in alive))
        begin(self, method, *others, **named)
        alive.extend([weakref.ref(method), weakref.ref(self)])

    monkeypatch.setattr(Trainer, "__init__", counted)
    wanted, fails = specs("aia", "dir", "erm", seeds=(1,)), Raises("dir", Diverged("the loss became NaN"))
    gc.disable()  # nobody may come by and tidy
    try:
        result = run_fleet(wanted, tmp_path, width=1, device="cpu", cache=cache, callback=fails)
        seen.append(sum(one() is not None for one in alive))
    finally:
        gc.enable()
    assert list(result.failures) == [1]
    assert seen == [0, 0, 0, 0]


@pytest.mark.parametrize("by_caller", [False, True])
def test_the_heap_is_frozen_while_runs_last_and_left_as_it_was(by_caller, cache, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Callback, "on_epoch_end", lambda *_: seen.append(gc.get_freeze_count()))
    gc.freeze() if by_caller else gc.unfreeze()
    try:
        run_fleet(specs("erm", seeds=(1,)), tmp_path, device="cpu", cache=cache)
        assert len(seen) == 3
        assert all(seen)
        assert bool(gc.get_freeze_count()) is by_caller
    finally:
        gc.freeze()


def test_data_are_loaded_once(cache, tmp_path, monkeypatch):
    loads, load = [], fleet.load_splits
    monkeypatch.setattr(fleet, "load_splits", lambda *given: loads.append(given) or load(*given))
    run_fleet(specs("erm", "irm"), tmp_path, width=4, device="cpu", cache=cache)
    assert len(loads) == 1


def test_each_dataset_is_loaded_once_and_dropped_after_its_last_run(cache, tmp_path, monkeypatch):
    """Runs of two datasets in turn, one at a time; the middle one fails."""
    loads, load, alive = [], fleet.load_splits, []

    def counted(spec, *given):
        loads.append(spec.domain)
        splits = load(spec, *given)
        alive.append(weakref.ref(splits))
        return splits

    class Looks(Raises):
        def __init__(self):
            super().__init__("irm", Diverged("the loss became NaN"))
            self.seen = []

        def for_run(self, spec):
            self.seen.append((spec.domain, spec.method, sum(one() is not None for one in alive)))
            return super().for_run(spec)

    monkeypatch.setattr(fleet, "load_splits", counted)
    order = [("base", "erm"), ("size", "erm"), ("base", "irm"), ("size", "vrex")]
    wanted = [RunSpec.make("motif", method, domain, changes=TINY) for domain, method in order]
    looks = Looks()
    result = run_fleet(wanted, tmp_path, width=1, device="cpu", cache=cache, callback=looks)
    assert (sorted(result.records), list(result.failures)) == ([0, 1, 3], [2])
    assert loads == ["base", "size"]
    assert looks.seen == [("base", "erm", 0), ("size", "erm", 1), ("base", "irm", 2), ("size", "vrex", 1)]
    assert [one() for one in alive] == [None, None]


def test_workers_find_the_data_of_the_fleet_before(cache, tmp_path, monkeypatch):
    loads, load = [], fleet.load_splits
    monkeypatch.setattr(fleet, "load_splits", lambda *given: loads.append(given) or load(*given))
    monkeypatch.setattr(fleet._SharedSplits, "kept", None)
    wanted = specs("erm", seeds=(1, 2, 3, 4))
    for spec in wanted[:2]:
        run_fleet([spec], tmp_path, device="cpu", cache=cache)
    assert len(loads) == 2
    fleet.keep_splits()
    for spec in wanted[2:]:
        run_fleet([spec], tmp_path, device="cpu", cache=cache)
    assert len(loads) == 3
    alone = run(wanted[3], tmp_path / "alone", device="cpu", cache=cache)
    assert without_timing(alone) == without_timing(RunRecord.read(tmp_path / wanted[3].slug / "record.json"))


def test_a_claimed_folder_is_a_failure_of_that_run_alone(cache, tmp_path):
    wanted = specs("erm")
    holder = Run(wanted[0], tmp_path, torch.device("cpu"))
    steps = holder.steps(lambda: pytest.fail("not yet"))
    with holder.folder.claimed(resume=True, force=False):
        result = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    steps.close()
    assert list(result.records) == [1]
    assert isinstance(result.failures[0], OutlandError)
    assert "another process is working" in str(result.failures[0])


def test_a_run_waits_until_there_is_memory_for_it():
    free = [100.0]
    budget = MemoryBudget(lambda: free[0])
    assert budget.has_room(0)
    free[0] = 70.0  # one run takes 30, so another may take 45
    assert budget.has_room(1)
    free[0] = 40.0  # two take 60
    assert not budget.has_room(2)
    assert budget.has_room(0)


def test_a_run_that_is_short_of_memory_as_it_resumes_waits_again(cache, tmp_path, monkeypatch):
    """It is postponed after an epoch, and once more as its evaluation is made; its checkpoint is none the worse."""
    epochs = {1: 6, 2: 6, 3: 20}
    wanted = [
        RunSpec.make(
            "motif",
            "erm",
            "base",
            seed=seed,
            changes={**TINY, "train": {**TINY["train"], "epochs": number, "checkpoint_every": 1}},
        )
        for seed, number in epochs.items()
    ]
    short, made = [], []
    init, write = Evaluation.__init__, Trainer._checkpoint

    def checkpoint(self, epoch):
        saved = write(self, epoch)
        if self.seed == 2 and epoch == 1 and not short:
            self.checkpoints.wait()
            short.append("after an epoch")
            raise torch.OutOfMemoryError
        return saved

    def evaluation(self, *given, **named):
        made.append(1)
        if len(made) == 4:
            short.append("at its start")
            raise torch.OutOfMemoryError
        init(self, *given, **named)

    monkeypatch.setattr(Trainer, "_checkpoint", checkpoint)
    monkeypatch.setattr(Evaluation, "__init__", evaluation)
    result = run_fleet(wanted, tmp_path, width=3, device="cpu", cache=cache)
    assert short == ["after an epoch", "at its start"]
    assert not result.failures
    assert {index: len(record.curves) for index, record in result.records.items()} == {0: 6, 1: 6, 2: 20}
