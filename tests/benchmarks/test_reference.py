"""The plain reference that `make bench` races against computes what we compute, step after step."""

import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch

from outland.graphs import Batches
from outland.methods import Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import TrainSettings
from outland.training.stepper import Stepper

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import reference

WIDTH = 16
NAMES = {
    "classifier.encoder.": "encoder.",
    "classifier.head.linear.": "head.",
    "node_head.": "node.",
    "edge_head.": "edge.",
    ".expand.": ".mlp.0.",
    ".norm.": ".mlp.1.",
    ".contract.": ".mlp.3.",
}


def plain_name(name: str) -> str:
    """What the reference calls one of our tensors."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


@pytest.mark.parametrize(("name", "plain"), [("erm", reference.ERM), ("aia:released", reference.AIA)])
def test_weights_and_statistics_go_the_same_way(name, plain, motif):
    splits = motif.limit(200, 0)
    torch.manual_seed(0)
    backbone = BackboneSettings(width=WIDTH, layers=4, dropout=0.0)
    method = build_method(name, splits.schema, backbone, method_settings(name, {})).double()
    other = plain(splits.schema, WIDTH, 0.0).double()
    other.load_state_dict({plain_name(key): value.clone() for key, value in method.state_dict().items()})
    before = {key: value.clone() for key, value in other.state_dict().items()}
    stepper, train = Stepper(method, TrainSettings()), splits["train"]
    data = dict(zip(train.tolist(), splits.graphs.select(train).to_data_list(), strict=True))
    batches = Batches(splits.graphs, train, 32, shuffle=True, layout="padded")

    for epoch in range(5):
        for place, batch in enumerate(batches.epoch(epoch)):
            stepper.step(batch.replace(x=batch.x.double()), Progress(epoch, 5, place))
            chosen = Batch.from_data_list([data[one] for one in batch.index[batch.real_graphs].tolist()])
            chosen.x = chosen.x.double()
            other.step(chosen)

    after = other.state_dict()
    for key, ours in method.state_dict().items():
        theirs = after[plain_name(key)]
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-7), key
        assert not torch.equal(theirs, before[plain_name(key)]), key
