import pytest
import torch
from safetensors.torch import load_file

from outland.errors import OutlandError
from outland.graphs import Batches
from outland.training import data_parallel
from outland.training.data_parallel import DistributedBatches
from tests.training.two_processes import as_ranks, by_ranks, spec_of, train

METHODS = ("erm", "aia", "vrex", "irm", "groupdro", "evidence")


@pytest.fixture(scope="module")
def by_two(motif, cache, tmp_path_factory):
    """Weights after nine steps, of each method and process."""
    out = tmp_path_factory.mktemp("two")
    assert as_ranks(by_ranks, cache.folder, out, METHODS) == [0, 0]
    return {path.stem: load_file(path) for path in out.glob("*.safetensors")}


@pytest.mark.parametrize("method", METHODS)
def test_two_processes_take_the_steps_of_one(method, by_two, cache):
    alone = train(spec_of(method), cache.folder, parallel=False)
    for place in (0, 1):
        found = by_two[f"{method}-{place}"]
        assert found.keys() == alone.keys()
        apart = {name: float((found[name].double() - alone[name].double()).abs().max()) for name in alone}
        assert max(apart.values()) < 1e-8, max(apart, key=apart.get)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("balance", [False, True])
def test_parts_are_the_batches_of_one_process(motif, monkeypatch, count, balance):
    index = motif["train"][:100]
    given = (motif.graphs, index, 24)
    whole = Batches(*given, shuffle=True, balance=balance).plan(3)
    monkeypatch.setattr(data_parallel, "world_size", lambda: count)
    plans = []
    for place in range(count):
        monkeypatch.setattr(data_parallel, "rank", lambda place=place: place)
        batches = DistributedBatches(*given, shuffle=True, balance=balance)
        plans.append(batches.plan(3))
        assert sum(len(batch.y) for batch in batches.epoch(3)) == sum(plans[-1].graphs)
    for step, row in enumerate(whole.index):
        parts = [plan.index[step][: plan.graphs[step]] for plan in plans]
        assert torch.cat(parts).tolist() == row[row >= 0].tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        if balance:
            for part in parts:
                counts = motif.graphs.environment[part].bincount(minlength=3)
                assert counts.max() - counts.min() <= 1


def test_batches_must_be_divisible(motif, monkeypatch):
    monkeypatch.setattr(data_parallel, "world_size", lambda: 3)
    with pytest.raises(OutlandError, match=r"train.batch_size \(32\) must be a multiple of the 3 processes"):
        DistributedBatches(motif.graphs, motif["train"], 32)
    left = DistributedBatches(motif.graphs, motif["train"][:26], 24)
    assert len(left) == 1  # two graphs are too few for three processes
    assert left.plan(0).graphs == [8]
