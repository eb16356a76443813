"""A GPU's faults: no memory left, a run killed while it captures, several processes on one device.

They need neither RDKit nor Optuna: `python3 -m pytest -m faults tests/faults/test_gpu.py`, on a machine with a GPU.
"""

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from outland.chem.elements import elements
from outland.chem.featurizer import ATOMS, BONDS
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs, Schema, Splits, Task
from outland.training import RunSpec, fleet, run, run_fleet
from outland.training.checkpoint import Checkpoints
from outland.training.run_folder import RunFolder
from outland.training.runs import Training
from tests.faults.harness import begin

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(90),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here: faults of a GPU need one"),
]
SMALL = {
    "data": {"limit": 1000},
    "backbone": {"width": 128, "layers": 3, "dropout": 0.3},
    "train": {"epochs": 6, "batch_size": 256, "checkpoint_every": 1},
}


def spec_of(seed: int) -> RunSpec:
    """A run of a second that captures its steps, which draw at random, and has a checkpoint after each epoch."""
    return RunSpec.make("motif", "erm", "base", seed=seed, changes=SMALL)


def held() -> str:
    """What PyTorch has of the device's memory, and which streams and pools it is of."""
    sizes: Counter[tuple] = Counter()
    for segment in torch.cuda.memory_snapshot():
        place = segment["stream"], segment.get("segment_pool_id")
        sizes[place, "of"] += segment["total_size"] >> 20
        sizes[place, "used"] += segment["allocated_size"] >> 20
    used, reserved = torch.cuda.memory_allocated() >> 20, torch.cuda.memory_reserved() >> 20
    return f"{used} of {reserved} MiB, by stream and pool {dict(sorted(sizes.items()))}"


@pytest.fixture
def releases(monkeypatch) -> list[str]:
    """What was held before and after each release of a fleet's memory: it tells why a run found none."""
    told, release = [], fleet._release_memory

    def telling(device: torch.device) -> None:
        told.append(f"before: {held()}")
        release(device)
        told.append(f"after: {held()}")

    monkeypatch.setattr(fleet, "_release_memory", telling)
    return told


@pytest.fixture
def memory():
    """Limit the device's memory to so many bytes: `memory(1 << 30)`; None lifts the limit."""
    total = torch.cuda.get_device_properties(0).total_memory

    def limit(most: float | None) -> None:
        torch.cuda.set_per_process_memory_fraction(1.0 if most is None else min(1.0, most / total))

    yield limit
    limit(None)


@pytest.fixture(scope="module")
def one_run(motif, cache, tmp_path_factory) -> float:
    """Bytes that the device lends to one run."""
    folder = tmp_path_factory.mktemp("one")
    for seed in (1, 2):  # the first compiles kernels, which takes memory of its own
        fleet._release_memory(torch.device("cuda"))
        torch.cuda.reset_peak_memory_stats()
        run(spec_of(seed), folder, device="cuda", cache=cache)
    return float(torch.cuda.max_memory_reserved())


@pytest.mark.parametrize("room", [2.5, 1.6])
def test_a_fleet_that_the_device_has_no_memory_for(room, one_run, memory, releases, cache, tmp_path, capsys, tally):
    """Under less memory than six runs need, fewer are active, all end, and none is a failure; then all is given back.

    What runs before this fleet left in PyTorch's hands is not in its way.
    """
    memory(room * one_run)
    result = run_fleet([spec_of(seed) for seed in range(1, 7)], tmp_path, width=6, device="cuda", cache=cache)
    memory(None)
    assert not result.failures, "\n".join([f"one run {one_run / 2**20:.0f} MiB", repr(result.failures), *releases])
    assert sorted(result.records) == list(range(6))
    assert "memory is full" in " ".join(capsys.readouterr().err.split())
    fleet._release_memory(torch.device("cuda"))
    assert torch.cuda.memory_reserved() < 0.5 * one_run, "\n".join(releases[-2:])
    tally("faults", "fleets without memory", len(result.records))


def test_a_run_that_there_is_no_memory_for_gets_a_sentence(one_run, memory, releases, cache, tmp_path, tally):
    spec = spec_of(1)
    memory(0.3 * one_run)
    result = run_fleet([spec], tmp_path, width=1, device="cuda", cache=cache)
    memory(None)
    assert isinstance(result.failures[0], OutlandError), "\n".join([repr(result), *releases])
    assert "has not enough memory for this run alone" in str(result.failures[0])
    assert not RunFolder(tmp_path, spec).record_path.exists()
    assert run(spec, tmp_path, resume=True, device="cuda", cache=cache).selection  # with its memory back, it ends
    tally("faults", "fleets without memory")


IN_A_CAPTURE = (torch.cuda.CUDAGraph, "capture_begin")
AFTER_A_CHECKPOINT = (Checkpoints, "save")


def train(out: Path, cache: Path, seeds: list[int], kill: tuple[type, str] | None = None, count: int = 0) -> None:
    """Runs one after another, in a process that kills itself at the end of the `count`-th call of what `kill` names."""
    if kill is not None:
        owner, name = kill
        kept, calls = getattr(owner, name), []

        def dying(*given, **named):
            result = kept(*given, **named)
            calls.append(0)
            if len(calls) == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, dying)
    for seed in seeds:
        run(spec_of(seed), out, resume=True, device="cuda", cache=Cache(cache))


def ended(child) -> int:
    """How a child ended."""
    child.join(60)
    return child.exitcode


def records(out: Path) -> dict:
    """The records in a folder of runs, but for what differs between equal runs."""
    found = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/record.json")}
    return {
        name: {key: value for key, value in plain.items() if key not in ("timing", "platform")}
        for name, plain in found.items()
    }


@pytest.fixture(scope="module")
def alone(motif, cache, tmp_path_factory) -> dict:
    """The records of two runs that nobody disturbs."""
    out = tmp_path_factory.mktemp("alone")
    assert ended(begin(train, out, cache.folder, [1, 2])) == 0
    assert len(records(out)) == 2
    return records(out)


def test_a_run_killed_in_a_capture_goes_on_to_the_same_record(alone, cache, tmp_path, tally):
    """In a capture at its start, after a checkpoint, and in a capture of the run that goes on from there."""
    moments = [(IN_A_CAPTURE, 2), (AFTER_A_CHECKPOINT, 2), (IN_A_CAPTURE, 3)]
    for kill, count in moments:
        assert ended(begin(train, tmp_path, cache.folder, [1], kill, count)) == -signal.SIGKILL
        assert not records(tmp_path)
    assert list(tmp_path.glob("*/checkpoints/epoch-*"))
    assert ended(begin(train, tmp_path, cache.folder, [1])) == 0
    ours = records(tmp_path)
    assert ours == {name: alone[name] for name in ours}
    assert len(ours) == 1
    tally("kills", "runs on a GPU", len(moments))


def test_several_processes_on_one_device(alone, cache, tmp_path, tally):
    """Two give what they give alone, though a third is killed beside them."""
    both = [begin(train, tmp_path, cache.folder, [seed]) for seed in (1, 2)]
    third = begin(train, tmp_path, cache.folder, [3], AFTER_A_CHECKPOINT, 3)
    assert [ended(child) for child in (*both, third)] == [0, 0, -signal.SIGKILL]
    assert records(tmp_path) == alone
    tally("faults", "processes on one GPU", 3)


def molecules(count: int) -> Splits:
    """Rings of atoms at random, as molecules are packed; every part has both labels."""
    generator, graphs = torch.Generator().manual_seed(0), []
    for number in range(count):
        nodes = 3 + number % 5
        ends = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
        draw = [
            torch.randint(least, (2 * nodes,), generator=generator) for least in (*ATOMS.vocabulary, *BONDS.vocabulary)
        ]
        atoms, bonds = torch.stack(draw[: len(ATOMS.vocabulary)], 1), torch.stack(draw[len(ATOMS.vocabulary) :], 1)
        bonds[nodes:] = bonds[:nodes]
        fields = {"x": atoms[:nodes], "edge_index": torch.cat([ends, ends.flip(0)], 1), "edge_attr": bonds}
        graphs.append(SimpleNamespace(**fields, y=torch.tensor([[float(number % 2)]])))
    packed = replace(PackedGraphs.from_data_list(graphs), environment=torch.arange(count) % 3)
    parts = {name: torch.arange(first, count, 3) for first, name in enumerate(("train", "val", "test"))}
    return Splits(packed, parts, Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS, environments=3), {})


def test_molecules_train_on_a_gpu_and_their_elements_are_kept(tally):
    device, splits = torch.device("cuda"), molecules(90)
    changes = {"backbone": {"width": 16, "layers": 2}, "train": {"epochs": 2, "batch_size": 8}}
    training = Training(RunSpec.make("molbbbp", "erm", "scaffold", changes=changes), splits.to(device), device)
    for _ in training.steps():
        pass
    model = training.model()
    assert training.record().selection
    assert model.training_elements.tolist() == elements(splits.graphs, splits["train"]).tolist()
    tally("faults", "molecules on a GPU")
