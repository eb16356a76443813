"""Half precision inside layers: everything trains, first losses are those of single precision to a few bits."""

import pytest
import torch

from outland.graphs import Batches
from outland.methods import METHODS, Progress, build_method, method_settings
from outland.methods.parts.weighting import SampleWeighter
from outland.nn import BACKBONES, BackboneSettings, BatchNorm, synchronize_batch_norm
from outland.training import Trainer, TrainSettings

# On so few graphs its weights would all go to one of them, and which one is decided by rounding.
CHANGES = {"ood-gnn": {"lambda_p": 1e5}}
EVERY = [*((name, "gin") for name in METHODS), *(("aia", kind) for kind in BACKBONES if kind != "gin")]


def trained(name, kind, splits, precision, steps):
    """The first loss terms, and the model after some steps."""
    torch.manual_seed(0)
    backbone = BackboneSettings(kind=kind, width=16, layers=3, dropout=0.0, heads=2)
    method = build_method(name, splits.schema, backbone, method_settings(name, CHANGES.get(name, {})))
    frame = TrainSettings(batch_size=16, precision=precision)
    trainer = Trainer(method, splits, frame, seed=1)
    method.prepare(splits.graphs, splits["train"], 1)
    method.reseed(1, torch.device("cpu"))
    terms = [
        trainer.stepper.step(batch, Progress(0, 2, place))
        for place, batch in zip(range(steps), trainer.batches.epoch(0), strict=False)
    ]
    return terms[0], method


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_half_precision_trains_and_starts_where_single_does(name, kind, motif):
    splits = motif.limit(60, 0)
    half, method = trained(name, kind, splits, "bf16", 3)
    single, _ = trained(name, kind, splits, "float32", 1)
    assert half.keys() == single.keys()
    for term, value in half.items():
        assert value.item() == pytest.approx(single[term].item(), rel=0.1, abs=0.05), term
    assert any(half[term].item() != single[term].item() for term in half)
    for parameter in method.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()


@pytest.mark.parametrize("name", ["erm", "aia"])
def test_scores_are_in_half_precision_too(name, motif):
    splits = motif.limit(60, 0)
    _, method = trained(name, "gin", splits, "bf16", 3)
    found = {}
    for precision in ("bf16", "float32"):
        trainer = Trainer(method, splits, TrainSettings(precision=precision))
        evaluation = trainer.evaluation
        evaluation.run()
        found[precision] = evaluation.logits
    assert found["bf16"].dtype == torch.float32
    apart = (found["bf16"] - found["float32"]).abs().max().item()
    assert 0 < apart < 0.05 * found["float32"].abs().max().item()


def test_weights_are_found_in_single_precision_all_the_same(motif):
    splits = motif.limit(60, 0)
    backbone = BackboneSettings(width=16, layers=2, dropout=0.0)
    batch = next(iter(Batches(splits.graphs, splits["train"], 32)))
    torch.manual_seed(0)
    z, found = torch.randn(32, 16).bfloat16(), []
    settings = method_settings("stablegnn", {"lambda_p": 1000.0})
    for half in (False, True):
        method = build_method("stablegnn", splits.schema, backbone, settings)
        weighter = SampleWeighter(16, settings)
        method.reseed(1, torch.device("cpu"))
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            found.append(weighter(z if half else z.float(), batch, method.dependence))
    assert found[1].dtype == torch.float32
    assert 0.1 < found[0].std().item() < 1  # they are weights, not all alike, and not all on one graph
    assert torch.allclose(found[1], found[0], atol=1e-5)


def test_statistics_over_processes_are_in_single_precision():
    torch.manual_seed(0)
    x = (100 + torch.randn(400, 3)).bfloat16()
    ours, plain = BatchNorm(3), BatchNorm(3)
    synchronize_batch_norm(ours)
    out = ours(x)
    assert out.dtype == torch.bfloat16
    assert torch.allclose(out.float(), plain(x.float()), atol=0.05)
    assert torch.allclose(ours.running_var, plain.running_var, rtol=1e-4)
