import dataclasses
import math

import pytest
import torch

from outland.errors import OutlandError
from outland.shift import ShiftSettings, compare
from outland.shift.pair import make_pair
from outland.shift.trials import align_features, class_weights, draw_trial
from tests.shift.cases import random_graphs

SMALL = ShiftSettings(most=60, folds=4)


def counts(trial, side):
    return [torch.bincount(trial.classes[side == number], minlength=3).tolist() for number in (0, 1)]


def test_both_sides_have_as_many_of_each_class_and_so_has_the_control():
    first, second = random_graphs(90, seed=1), random_graphs(50, seed=2, classes=(0, 0, 0, 1, 2))
    trial = draw_trial(make_pair(first, second), ShiftSettings(most=1000), 0)
    per_class = counts(trial, trial.side)
    assert per_class[0] == per_class[1] == [30, 10, 10]
    assert counts(trial, trial.random_side) == per_class
    assert not torch.equal(trial.random_side, trial.side)


def test_the_most_is_kept_to_and_seeds_differ():
    pair = make_pair(random_graphs(90, seed=1), random_graphs(90, seed=2))
    trials = [draw_trial(pair, SMALL, seed) for seed in (0, 0, 1)]
    assert torch.bincount(trials[0].side).tolist() == [60, 60]
    assert torch.equal(trials[0].graphs.graphs.x, trials[1].graphs.graphs.x)
    assert not torch.equal(trials[0].graphs.graphs.x, trials[2].graphs.graphs.x)


def test_copies_of_a_graph_share_a_fold():
    graphs = random_graphs(60, seed=1)
    pair = make_pair(graphs, graphs)
    trial = draw_trial(pair, SMALL, 0)
    rows: dict[bytes, set[int]] = {}
    pieces = trial.graphs.graphs.x.split(trial.graphs.graphs.node_counts.tolist())
    for piece, fold in zip(pieces, trial.fold.tolist(), strict=True):
        rows.setdefault(piece.numpy().tobytes(), set()).add(fold)
    assert len(rows) == 60
    assert all(len(folds) == 1 for folds in rows.values())
    assert torch.bincount(trial.fold).min() >= 24


def test_a_set_of_copies_can_still_be_cut_into_folds():
    graphs = random_graphs(1, seed=1) * 40
    trial = draw_trial(make_pair(graphs, graphs), SMALL, 0)
    assert torch.bincount(trial.fold).tolist() == [20, 20, 20, 20]


def test_folds_have_something_of_every_side_and_class():
    trial = draw_trial(make_pair(random_graphs(90, seed=1), random_graphs(90, seed=2)), ShiftSettings(folds=5), 0)
    for fold in range(5):
        rows = trial.fold == fold
        assert torch.bincount(3 * trial.side[rows] + trial.classes[rows], minlength=6).min() >= 5


def test_weights_make_classes_equal():
    side, classes = torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([0, 0, 1, 0, 1, 1, 1])
    weight = class_weights(side, classes)
    for label, share in ((0, (2 / 3 + 1 / 4) / 2), (1, (1 / 3 + 3 / 4) / 2)):
        for number in (0, 1):
            weighted = weight[(side == number) & (classes == label)].sum() / weight[side == number].sum()
            assert weighted.item() == pytest.approx(share)
    assert [weight[side == number].mean().item() for number in (0, 1)] == pytest.approx([1, 1])


def test_reweighting_draws_all_and_follows_the_sides():
    pair = make_pair(random_graphs(90, seed=1), random_graphs(60, seed=2, classes=(0, 0, 1, 2)))
    trial = draw_trial(pair, dataclasses.replace(SMALL, most=100, balance="reweight"), 0)
    assert torch.bincount(trial.side).tolist() == [90, 60]
    for side in (trial.side, trial.random_side):
        weight = trial.weight(side)
        for label in range(3):
            members = [(side == number) & (trial.classes == label) for number in (0, 1)]
            shares = [weight[rows].sum().item() / (side == number).sum().item() for number, rows in enumerate(members)]
            assert shares[0] == pytest.approx(shares[1])


def test_reweighted_classes_weigh_the_densities():
    """With features that depend on the class alone and unequal shares of classes, weights make the densities meet."""
    pair = make_pair(random_graphs(100, seed=1, classes=(0, 0, 0, 1)), random_graphs(100, seed=2, classes=(0, 1, 1, 1)))
    apart = {}
    for balance in ("reweight", "none"):
        trial = draw_trial(pair, dataclasses.replace(SMALL, most=100, balance=balance), 0)
        noise = torch.randn(200, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
        features = 4.0 * trial.classes[:, None] + 0.5 * noise
        apart[balance] = compare(*trial.vectors(features, trial.side), 4000).covariate(math.inf)
    assert apart["none"] == pytest.approx(0.5, abs=0.05)  # 75 and 25 per cent, against 25 and 75
    assert apart["reweight"] < 0.1


def test_turned_features_are_turned_back():
    """Networks that differ by a rotation, a scale and an offset give one set of features."""
    random = torch.Generator().manual_seed(0)
    truth = torch.randn(200, 3, generator=random, dtype=torch.double) * torch.tensor([3.0, 2.0, 1.0])
    fold = torch.arange(200) % 4
    features = []
    for _ in range(4):
        turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=random, dtype=torch.double))
        features.append(5 * truth @ turn + torch.randn(3, generator=random, dtype=torch.double))
    pooled = align_features(features, fold)
    assert pooled.shape == (200, 3)
    # What is pooled is a linear image of the truth, but for the little that folds' means and spreads differ.
    solution = torch.linalg.lstsq(pooled, truth - truth.mean(0)).solution
    left = (pooled @ solution - (truth - truth.mean(0))).square().mean() / truth.var(0).mean()
    assert left < 0.02


def test_directions_that_do_not_vary_are_left_out():
    z = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    z[:, 1] = 4.0
    assert align_features([z, z], torch.arange(50) % 2).shape == (50, 2)
    assert align_features([z * 0, z * 0], torch.arange(50) % 2).shape == (50, 0)


def test_too_few_are_left_or_no_class_in_common():
    with pytest.raises(OutlandError, match="no class in common"):
        draw_trial(make_pair(random_graphs(30, classes=(0,)), random_graphs(30, classes=(1,))), SMALL, 0)
    with pytest.raises(OutlandError, match="only 6 graphs a side are left"):
        draw_trial(make_pair(random_graphs(60, classes=(0,)), random_graphs(30, classes=(0, 1, 1, 1, 1))), SMALL, 0)


def test_a_graphs_features_come_from_the_network_that_has_not_seen_it():
    random = torch.Generator().manual_seed(0)
    fold = torch.arange(60) % 3
    truth = torch.randn(60, 2, generator=random, dtype=torch.double)
    marked = []
    for number in range(3):
        z = truth.clone()
        z[fold == number] += 100  # what only the network that did not see them says
        marked.append(z)
    pooled = align_features(marked, fold)
    assert (pooled.norm(dim=1) > 50).all()
