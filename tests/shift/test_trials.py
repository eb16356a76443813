import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.shift import ShiftSettings
from outland.shift.pair import make_pair
from outland.shift.trials import aligned, class_weights, draw_trial
from tests.shift.conftest import law

SMALL = ShiftSettings(most=60, folds=4)


def counts(trial, side):
    return [torch.bincount(trial.classes[side == place], minlength=3).tolist() for place in (0, 1)]


def test_both_sides_have_as_many_of_each_class_and_so_has_the_control():
    first, second = law(90, seed=1), law(50, seed=2, classes=(0, 0, 0, 1, 2))
    trial = draw_trial(make_pair(first, second), ShiftSettings(most=1000), 0)
    found = counts(trial, trial.side)
    assert found[0] == found[1] == [30, 10, 10]
    assert counts(trial, trial.control) == found
    assert not torch.equal(trial.control, trial.side)


def test_the_most_is_kept_to_and_seeds_differ():
    pair = make_pair(law(90, seed=1), law(90, seed=2))
    trials = [draw_trial(pair, SMALL, seed) for seed in (0, 0, 1)]
    assert torch.bincount(trials[0].side).tolist() == [60, 60]
    assert torch.equal(trials[0].graphs.graphs.x, trials[1].graphs.graphs.x)
    assert not torch.equal(trials[0].graphs.graphs.x, trials[2].graphs.graphs.x)


def test_copies_of_a_graph_share_a_fold():
    graphs = law(60, seed=1)
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
    graphs = law(1, seed=1) * 40
    trial = draw_trial(make_pair(graphs, graphs), SMALL, 0)
    assert torch.bincount(trial.fold).tolist() == [20, 20, 20, 20]


def test_folds_have_something_of_every_side_and_class():
    trial = draw_trial(make_pair(law(90, seed=1), law(90, seed=2)), ShiftSettings(folds=5), 0)
    for fold in range(5):
        own = trial.fold == fold
        assert torch.bincount(3 * trial.side[own] + trial.classes[own], minlength=6).min() >= 5


def test_weights_make_classes_equal():
    side, classes = torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([0, 0, 1, 0, 1, 1, 1])
    weight = class_weights(side, classes)
    for name, share in ((0, (2 / 3 + 1 / 4) / 2), (1, (1 / 3 + 3 / 4) / 2)):
        for place in (0, 1):
            own = weight[(side == place) & (classes == name)].sum() / weight[side == place].sum()
            assert own.item() == pytest.approx(share)
    assert [weight[side == place].mean().item() for place in (0, 1)] == pytest.approx([1, 1])


def test_reweighting_draws_all_and_follows_the_sides():
    pair = make_pair(law(90, seed=1), law(60, seed=2, classes=(0, 0, 1, 2)))
    trial = draw_trial(pair, dataclasses.replace(SMALL, most=100, balance="reweight"), 0)
    assert torch.bincount(trial.side).tolist() == [90, 60]
    for side in (trial.side, trial.control):
        weight = trial.weight(side)
        for name in range(3):
            own = [(side == place) & (trial.classes == name) for place in (0, 1)]
            shares = [weight[rows].sum().item() / (side == place).sum().item() for place, rows in enumerate(own)]
            assert shares[0] == pytest.approx(shares[1])


def test_turned_features_are_turned_back():
    """Networks that differ by a rotation, a scale and an offset give one set of features."""
    random = torch.Generator().manual_seed(0)
    truth = torch.randn(200, 3, generator=random, dtype=torch.double) * torch.tensor([3.0, 2.0, 1.0])
    fold = torch.arange(200) % 4
    features = []
    for _ in range(4):
        turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=random, dtype=torch.double))
        features.append(5 * truth @ turn + torch.randn(3, generator=random, dtype=torch.double))
    pooled = aligned(features, fold)
    assert pooled.shape == (200, 3)
    # What is pooled is a linear image of the truth, but for the little that folds' means and spreads differ.
    solution = torch.linalg.lstsq(pooled, truth - truth.mean(0)).solution
    left = (pooled @ solution - (truth - truth.mean(0))).square().mean() / truth.var(0).mean()
    assert left < 0.02


def test_directions_that_do_not_vary_are_left_out():
    z = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    z[:, 1] = 4.0
    assert aligned([z, z], torch.arange(50) % 2).shape == (50, 2)
    assert aligned([z * 0, z * 0], torch.arange(50) % 2).shape == (50, 0)


def test_too_few_are_left_or_no_class_in_common():
    with pytest.raises(OutlandError, match="no class in common"):
        draw_trial(make_pair(law(30, classes=(0,)), law(30, classes=(1,))), SMALL, 0)
    with pytest.raises(OutlandError, match="only 6 graphs a side are left"):
        draw_trial(make_pair(law(60, classes=(0,)), law(30, classes=(0, 1, 1, 1, 1))), SMALL, 0)


def test_labels_of_every_kind():
    yes_no = law(30, seed=1), law(30, seed=2)
    for graphs in yes_no:
        for place, graph in enumerate(graphs):
            graph.y = torch.tensor([[float("nan") if place == 0 else float(place % 2), 1.0]])
    pair = make_pair(*yes_no)
    assert pair.class_count == 2
    assert (pair.classes == -1).sum() == 2
    assert "2 graphs without a label are left out" in pair.notes
    numbers = law(30, seed=1), law(30, seed=2)
    for graphs in numbers:
        for place, graph in enumerate(graphs):
            graph.y = torch.tensor([place / 7])
    assert torch.bincount(make_pair(*numbers).classes).tolist() == [14, 16, 14, 16]
    bare = [graph.clone() for graph in law(30)]
    for graph in bare:
        del graph.y
    assert not make_pair(bare, bare).labelled
    half = make_pair(bare, law(30))
    assert not half.labelled
    assert half.notes == ("only one of the sets has labels: they are not used",)


def test_packed_graphs_and_lists_are_the_same():
    first, second = law(30, seed=1), law(30, seed=2)
    listed = make_pair(first, second)
    packed = make_pair(PackedGraphs.from_data_list(first), PackedGraphs.from_data_list(second))
    assert torch.equal(listed.graphs.graphs.x, packed.graphs.graphs.x)
    assert listed.schema == packed.schema
    assert torch.equal(listed.classes, packed.classes)


def test_a_graphs_features_come_from_the_network_that_has_not_seen_it():
    random = torch.Generator().manual_seed(0)
    fold = torch.arange(60) % 3
    truth = torch.randn(60, 2, generator=random, dtype=torch.double)
    marked = []
    for place in range(3):
        z = truth.clone()
        z[fold == place] += 100  # what only the network that did not see them says
        marked.append(z)
    found = aligned(marked, fold)
    assert (found.norm(dim=1) > 50).all()
