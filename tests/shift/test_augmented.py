import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.shift import augmented, measure_shift, originals
from tests.conftest import CHEMICAL
from tests.shift.cases import TINY, gcs_at

SMALL = BackboneSettings(width=8, layers=3, dropout=0.3)


def built(name, splits, **settings):
    torch.manual_seed(0)
    method = build_method(name, splits.schema, SMALL, method_settings(name, settings))
    method.prepare(splits.graphs, splits["train"], 0)
    method.reseed(0, torch.device("cpu"))
    return method


def test_dropped_edges_have_no_weight(motif):
    index = motif["train"][:40]
    copies = augmented(built("dropedge", motif, drop=0.3), motif.graphs, index, seed=1)
    edge = copies.edge_weight
    assert set(edge.tolist()) == {0.0, 1.0}
    assert edge.mean().item() == pytest.approx(0.7, abs=0.05)
    starts = (copies.graphs.edge_counts.cumsum(0) - copies.graphs.edge_counts).repeat_interleave(
        copies.graphs.edge_counts
    )
    assert torch.equal(edge, edge[copies.graphs.reverse.long() + starts])  # both directions go together
    assert bool((copies.node_weight == 1).all())
    again = augmented(built("dropedge", motif, drop=0.3), motif.graphs, index, seed=1)
    assert torch.equal(again.edge_weight, edge)


def test_asking_does_not_disturb_training(motif):
    method = built("dropedge", motif)
    method.train()
    before = method.random.get_state()
    augmented(method, motif.graphs, motif["train"][:20])
    assert torch.equal(method.random.get_state(), before)
    assert all(part.training for part in method.modules())


def test_aia_s_weights_are_its_merged_mask(motif):
    from outland.graphs import Batches

    index = motif["train"][:20]
    method = built("aia", motif).eval()
    copies = augmented(method, motif.graphs, index)
    mask = method.masks(next(iter(Batches(motif.graphs, index, 20))))["merged"]
    assert torch.allclose(copies.edge_weight, mask.edge, atol=1e-6)
    assert torch.allclose(copies.node_weight, mask.node, atol=1e-6)
    bare = augmented(built("aia:no-stable", motif), motif.graphs, index)
    assert bool((bare.edge_weight < 1).all())


def test_flag_moves_inputs_by_no_more_than_its_passes(motif, any_splits):
    index = motif["train"][:20]
    copies = augmented(built("flag", motif, size=0.05, ascents=3), motif.graphs, index)
    moved = (copies.graphs.x - motif.graphs.select(index).x).abs().max().item()
    assert 0.05 < moved <= 0.15 + 1e-6
    if any_splits.schema is CHEMICAL:
        method = built("flag", any_splits)
        train = torch.arange(24)
        plain, noisy = originals(method, any_splits.graphs, train), augmented(method, any_splits.graphs, train)
        assert plain.graphs.x.shape == noisy.graphs.x.shape == (len(any_splits.graphs.x), 8)
        assert (plain.graphs.x - noisy.graphs.x).abs().max() <= 0.03 + 1e-6
        pair = measure_shift(noisy, plain, schema=any_splits.schema, labels=False, settings=TINY)
        assert 0 <= pair.covariate.mean <= 1


@pytest.mark.parametrize("name", ["m-mixup", "grea"])
def test_embeddings_are_graphs_of_one_node(motif, name):
    index = motif["train"][:40]
    method = built(name, motif)
    plain, mixed = originals(method, motif.graphs, index), augmented(method, motif.graphs, index)
    assert plain.graphs.x.shape == mixed.graphs.x.shape == (40, 8)
    assert plain.graphs.node_counts.tolist() == [1] * 40
    mean = plain.graphs.x.mean(0)
    if name == "m-mixup":  # mixing keeps the mean of each batch of 32, and brings points closer to it
        assert torch.allclose(mixed.graphs.x[:32].mean(0), plain.graphs.x[:32].mean(0), atol=1e-5)
        assert (mixed.graphs.x - mean).norm() < (plain.graphs.x - mean).norm()
    else:  # all environments are there once
        assert torch.allclose(mixed.graphs.x.sum(0), plain.graphs.x.sum(0), atol=1e-3)
    assert not torch.allclose(mixed.graphs.x, plain.graphs.x, atol=1e-4)


def test_g_mixup_gives_what_it_made(motif):
    small = dataclasses.replace(motif, parts={**motif.parts, "train": motif["train"][::600]})
    method = built("g-mixup", small, ratio=2.0)
    copies = augmented(method, small.graphs, small["train"])
    assert len(copies) == len(small["train"]) == 30
    assert copies.graphs.y.shape == (30, 3)  # mixed labels
    result = measure_shift(
        copies, originals(method, small.graphs, small["train"]), schema=small.schema, labels=False, settings=TINY
    )
    assert 0 <= result.covariate.mean <= 1
    with pytest.raises(OutlandError, match="prepare"):
        augmented(built("g-mixup", small, ratio=0.0), small.graphs, small["train"])


def test_eerm_drops_what_one_editor_drops(motif):
    copies = augmented(built("eerm", motif, strength=0.9), motif.graphs, motif["train"][:20])
    assert set(copies.edge_weight.tolist()) == {0.0, 1.0}
    assert 0.2 < copies.edge_weight.mean().item() < 0.9


def test_a_method_without_augmentation_says_so(motif):
    with pytest.raises(OutlandError, match="erm does not augment graphs"):
        augmented(built("erm", motif), motif.graphs, motif["train"][:5])


def test_thinner_graphs_are_further_away(motif):
    index = motif["train"][:80]
    plain = motif.graphs.select(motif["train"][80:160])
    settings = dataclasses.replace(TINY, steps=40)
    values = []
    for drop in (0.0, 0.9):
        thin = augmented(built("dropedge", motif, drop=drop), motif.graphs, index)
        values.append(measure_shift(thin, plain, schema=motif.schema, settings=settings))
    assert values[0].accuracy.mean < 0.65
    assert values[1].accuracy.mean > 0.8
    assert gcs_at(values[1], 1e-6) > gcs_at(values[0], 1e-6) + 0.1
