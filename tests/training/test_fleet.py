"""Runs side by side."""

import dataclasses
import gc
import weakref

import pytest
import torch

from outland.errors import OutlandError
from outland.training import RunRecord, RunSpec, run, run_fleet
from outland.training.runs import Run
from outland.training.trainer import Diverged, Trainer

TINY = {
    "data": {"limit": 48},
    "backbone": {"width": 8, "layers": 3},
    "train": {"epochs": 3, "batch_size": 16},
}


def specs(*methods, seeds=(1, 2)):
    return [RunSpec.make("motif", name, "base", seed=seed, changes=TINY) for name in methods for seed in seeds]


def without_timing(record: RunRecord) -> dict:
    return {name: value for name, value in dataclasses.asdict(record).items() if name != "timing"}


@pytest.mark.parametrize("width", [1, 3, 10])
def test_every_run_gives_what_it_gives_alone(cache, tmp_path, width):
    wanted = specs("erm", "aia", "disc", "aia:rdia")
    fleet = run_fleet(wanted, tmp_path / "together", width=width, device="cpu", cache=cache)
    assert not fleet.failures
    assert sorted(fleet.records) == list(range(8))
    for place in (0, 3, 5, 7):
        alone = run(wanted[place], tmp_path / "alone", device="cpu", cache=cache)
        assert without_timing(alone) == without_timing(fleet.records[place])


def test_done_runs_are_not_done_again(cache, tmp_path):
    wanted = specs("erm")
    first = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    again = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    assert [again.records[i].timing for i in range(2)] == [first.records[i].timing for i in range(2)]


def test_one_that_fails_does_not_disturb_the_others(cache, tmp_path, monkeypatch):
    wanted, read = specs("erm", "irm", seeds=(1,)), Trainer._read

    def spoiled(self, log, epoch):
        if self.method.name == "irm" and epoch == 1:
            raise Diverged("the loss became NaN")
        return read(self, log, epoch)

    monkeypatch.setattr(Trainer, "_read", spoiled)
    fleet = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache)
    assert list(fleet.records) == [0]
    assert "became NaN" in str(fleet.failures[1])
    monkeypatch.undo()
    again = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache)
    assert sorted(again.records) == [0, 1]
    alone = run(wanted[1], tmp_path / "alone", device="cpu", cache=cache)
    assert without_timing(alone) == without_timing(again.records[1])


def test_not_even_by_an_error_nobody_thought_of(cache, tmp_path, monkeypatch):
    wanted, read = specs("erm", "irm", seeds=(1,)), Trainer._read

    def spoiled(self, log, epoch):
        if self.method.name == "irm":
            raise ValueError("out of the blue")
        return read(self, log, epoch)

    monkeypatch.setattr(Trainer, "_read", spoiled)
    fleet = run_fleet(wanted, tmp_path, width=2, device="cpu", cache=cache)
    assert list(fleet.records) == [0]
    assert isinstance(fleet.failures[1], ValueError)


def test_a_run_too_large_for_the_device_is_a_sentence(cache, tmp_path, monkeypatch):
    def full(self):
        raise torch.OutOfMemoryError
        yield

    monkeypatch.setattr(Trainer, "steps", full)
    fleet = run_fleet(specs("erm", seeds=(1,)), tmp_path, device="cpu", cache=cache)
    assert "not enough memory for this run alone" in str(fleet.failures[0])


def test_a_run_that_has_ended_is_let_go_before_the_next_begins(cache, tmp_path, monkeypatch):
    alive, seen, begin, read = [], [], Trainer.__init__, Trainer._read

    def counted(self, method, *others, **named):
        seen.append(sum(one() is not None for one in alive))
        begin(self, method, *others, **named)
        alive.extend([weakref.ref(method), weakref.ref(self)])

    def spoiled(self, log, epoch):
        if self.method.name == "dir":
            try:
                raise ValueError(log)
            except ValueError as reason:
                raise Diverged("the loss became NaN") from reason
        return read(self, log, epoch)

    monkeypatch.setattr(Trainer, "__init__", counted)
    monkeypatch.setattr(Trainer, "_read", spoiled)
    gc.disable()  # nobody may come by and tidy
    try:
        fleet = run_fleet(specs("aia", "dir", "erm", seeds=(1,)), tmp_path, width=1, device="cpu", cache=cache)
        seen.append(sum(one() is not None for one in alive))
    finally:
        gc.enable()
    assert list(fleet.failures) == [1]
    assert seen == [0, 0, 0, 0]


def test_data_are_loaded_once(cache, tmp_path, monkeypatch):
    import outland.training.fleet as module

    loads, load = [], module.load_splits
    monkeypatch.setattr(module, "load_splits", lambda *given: loads.append(given) or load(*given))
    run_fleet(specs("erm", "irm"), tmp_path, width=4, device="cpu", cache=cache)
    assert len(loads) == 1


def test_a_claimed_folder_is_a_failure_of_that_run_alone(cache, tmp_path):
    wanted = specs("erm")
    holder = Run(wanted[0], tmp_path, torch.device("cpu"))
    steps = holder.steps(lambda: pytest.fail("not yet"))
    with holder.folder.claimed(resume=True, force=False):
        fleet = run_fleet(wanted, tmp_path, device="cpu", cache=cache)
    steps.close()
    assert list(fleet.records) == [1]
    assert isinstance(fleet.failures[0], OutlandError)
    assert "another process is working" in str(fleet.failures[0])


def test_a_run_waits_until_there_is_memory_for_it(monkeypatch):
    from outland.training import fleet

    free = [100.0]
    monkeypatch.setattr(fleet._Room, "_now", lambda self: free[0])
    room = fleet._Room(torch.device("cpu"))
    assert room.for_another(0)
    free[0] = 70.0  # one run takes 30, so another may take 45
    assert room.for_another(1)
    free[0] = 40.0  # two take 60
    assert not room.for_another(2)
    assert room.for_another(0)
