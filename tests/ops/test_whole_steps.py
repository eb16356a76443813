"""A whole training step through the kernels beside the same step in plain PyTorch."""

import pytest
import torch

from outland.methods import Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.ops import use_kernels
from outland.training import Trainer, TrainSettings
from tests.ops.cases import close, needs_triton

pytestmark = needs_triton


def one_step(name, splits, backbone):
    torch.manual_seed(0)
    settings = BackboneSettings(kind=backbone, width=8, layers=3, dropout=0.0, heads=2)
    params = {"dropout": 0.0} if name == "gsat" else {}
    method = build_method(name, splits.schema, settings, method_settings(name, params))
    run = Trainer(method, splits, TrainSettings(batch_size=5, layout="padded"), seed=1)
    plan = run.batches.plan(0)
    shape = run.batches.shapes.holding(plan.nodes[0], plan.edges[0])
    run.method.reseed(1, torch.device("cpu"))
    index = plan.index[0].clone()
    index[-1] = -1  # a graph that is padding
    terms = run.stepper.step(run.batches.gatherer.padded(index, shape), Progress())
    return terms, {name: value.grad for name, value in run.method.named_parameters()}, dict(run.method.named_buffers())


@pytest.mark.skipif(torch.cuda.is_available(), reason="pretends that a CPU is a GPU")
@pytest.mark.parametrize(
    ("name", "backbone"),
    [
        ("erm", "gat"),
        ("aia", "gin"),
        ("cal", "gcn"),
        ("gsat", "gin"),
        ("ood-gnn", "gin"),
        ("dir", "gin"),
        ("disc", "gin"),
    ],
)
def test_a_step_through_the_kernels_is_the_plain_step(any_splits, name, backbone, monkeypatch):
    plain = one_step(name, any_splits, backbone)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    monkeypatch.setattr("outland.ops.linear.LEAST_WIDTH", 2)
    monkeypatch.setattr("outland.ops.linear.has_tf32", lambda device: True)
    with use_kernels(True):
        ours = one_step(name, any_splits, backbone)
    for actual, expected in zip(ours, plain, strict=True):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            close(actual[key].double(), value.double(), 2e-4)
