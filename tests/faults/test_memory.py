"""Sets that memory would not hold, and devices that have none left."""

import json
import os
from pathlib import Path

import pytest
import torch

from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.shards import Shards
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import RunSpec, Trainer, TrainSettings, run, run_fleet
from outland.training.callbacks import Callback
from tests.faults.harness import finish

NODES, WIDTH, GRAPHS = 400, 384, 480  # of a set of 297 MB, nearly all of it features


def big_pieces():
    """480 rings of 400 nodes with 384 features each, twelve at a time."""
    ring = torch.arange(NODES)
    edges = torch.stack([torch.cat([ring, ring.roll(-1)]), torch.cat([ring.roll(-1), ring])])
    back = torch.cat([ring + NODES, ring])
    for start in range(0, GRAPHS, 12):
        random = torch.Generator().manual_seed(start)
        yield PackedGraphs(
            x=torch.randn(12 * NODES, WIDTH, generator=random),
            edge_index=edges.short().repeat(1, 12),
            node_counts=torch.full((12,), NODES),
            edge_counts=torch.full((12,), 2 * NODES),
            y=torch.arange(12) % 2,
            reverse=back.short().repeat(12),
        )


class Peak(Callback):
    """The most memory of its own that this process ever has; pages of mapped files are the system's to take back."""

    def __init__(self) -> None:
        self.most = 0

    def on_step_end(self) -> None:
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
        self.most = max(self.most, 1024 * int(line.split()[1]))


def big_run(cache: Path, in_memory: bool, answer: Path) -> None:
    """Build the set where it is not there yet, train on it, and tell the losses and the memory that it took."""
    os.environ["OUTLAND_CACHE"] = str(cache)
    peak = Peak()
    peak.on_step_end()
    before = peak.most

    def build():
        shards = Shards(1 << 25)
        for piece in big_pieces():
            shards.add(piece)
            peak.on_step_end()
        index = torch.arange(GRAPHS)
        parts = {"train": index[: GRAPHS - 96], "val": index[-96:-48], "test": index[-48:]}
        schema = Schema(Features(WIDTH), Task("multiclass", 2, "accuracy"))
        splits = Splits(shards.concatenate(), parts, schema)
        peak.on_step_end()
        return splits

    splits = Cache().load_or_build({"name": "big"}, build)
    peak.on_step_end()
    if in_memory:
        tensors = {name: tensor.clone() for name, tensor in splits.graphs.tensors().items()}
        splits = Splits(PackedGraphs.from_tensors(tensors), splits.parts, splits.schema)
    torch.manual_seed(0)
    method = build_method("erm", splits.schema, BackboneSettings(width=8, layers=2), method_settings("erm", {}))
    trainer = Trainer(
        method, splits.check(), TrainSettings(epochs=2, batch_size=16, eval_batch_size=16), 0, callback=peak
    )
    trainer.fit()
    size = sum(tensor.nbytes for tensor in splits.graphs.tensors().values())
    answer.write_text(json.dumps([trainer.curves, peak.most - before, size]))


@pytest.mark.faults
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which is not here")
def test_training_on_a_set_takes_less_memory_than_the_set(tmp_path, tally):
    """Built, checked and trained on from disk; and held in memory, to see that the measure measures."""
    for in_memory in (False, True):
        finish(big_run, tmp_path, in_memory, tmp_path / f"{in_memory}.json")
    curves, little, size = json.loads((tmp_path / "False.json").read_text())
    same, much, _ = json.loads((tmp_path / "True.json").read_text())
    assert size > 290e6
    assert curves == same
    assert much > size
    assert little < 0.75 * size
    tally("faults", "sets larger than their memory")


TINY = {"data": {"limit": 48}, "backbone": {"width": 8, "layers": 3}, "train": {"epochs": 3, "batch_size": 16}}


def plain(record):
    return {name: value for name, value in vars(record).items() if name != "timing"}


def test_without_memory_for_all_fewer_run_at_a_time(motif, cache, tmp_path, monkeypatch, tally, capsys):
    specs = [RunSpec.make("motif", "erm", "base", seed=seed, changes=TINY) for seed in (1, 2, 3)]
    steps, at_once = Trainer.steps, []

    def crowded(self):
        at_once.append(self)
        try:
            for place, _ in enumerate(steps(self)):
                if place == 4 and len(at_once) > 2:
                    raise torch.OutOfMemoryError
                yield
        finally:
            at_once.remove(self)

    monkeypatch.setattr(Trainer, "steps", crowded)
    fleet = run_fleet(specs, tmp_path, width=3, device="cpu", cache=cache)
    assert sorted(fleet.records) == [0, 1, 2]
    assert not fleet.failures
    assert "from here on 2 runs at a time" in capsys.readouterr().err
    monkeypatch.undo()
    for place in range(3):
        assert plain(run(specs[place], tmp_path / "alone", device="cpu", cache=cache)) == plain(fleet.records[place])
    tally("faults", "devices without memory")
