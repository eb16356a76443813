"""Folds of whole scaffolds, stratified by label."""

import pytest
import torch

from outland.chem.packing import pack_molecules
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.graphs import PackedGraphs
from outland.tables.folds import are_acyclic, label_strata, make_folds, row_groups, scaffold_folds


def graphs(texts: list[str], y: torch.Tensor | None = None, **extra: list[float]) -> PackedGraphs:
    (chunk,) = read_molecules(texts, MoleculeOptions(canonical=True), "Reading")
    columns = {
        "scaffold": torch.tensor([sorted(set(chunk.scaffolds)).index(name) for name in chunk.scaffolds]),
        "molecule": torch.tensor([sorted(set(chunk.canonical)).index(name) for name in chunk.canonical]),
    }
    columns |= {name: torch.tensor(values) for name, values in extra.items()}
    return pack_molecules(chunk.molecules, torch.zeros(len(texts), 1) if y is None else y, extra=columns)


def draw(rows: int, groups: int, rare: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    codes = (groups * torch.rand(rows, generator=generator) ** 2).long()
    return codes, (torch.rand(rows, generator=generator) < rare).long()


def test_groups_are_whole_and_each_row_is_held_out_once():
    groups, y = draw(400, 60, 0.3)
    (fold_of,) = scaffold_folds(groups, y, 5, 1, 0)
    for group in groups.unique():
        assert len(fold_of[groups == group].unique()) == 1
    assert fold_of.bincount().min() > 40
    shares = torch.stack([y[fold_of == fold].float().mean() for fold in range(5)])
    assert (shares - y.float().mean()).abs().max() < 0.08


@pytest.mark.parametrize("seed", range(5))
def test_no_fold_lacks_a_class_that_has_groups_enough(seed):
    groups, y = draw(50, 25, 0.16, seed)
    (fold_of,) = scaffold_folds(groups, y, 5, 1, seed)
    possible = min(5, len(groups[y == 1].unique()))
    assert len(fold_of[y == 1].unique()) == possible
    assert len(fold_of[y == 0].unique()) == 5


def test_repeats_differ_and_follow_from_the_seed():
    groups, y = draw(100, 40, 0.4)
    folds = scaffold_folds(groups, y, 5, 3, 7)
    assert folds.shape == (3, 100)
    assert not torch.equal(folds[0], folds[1])
    assert torch.equal(folds, scaffold_folds(groups, y, 5, 3, 7))


def test_a_class_in_one_scaffold_is_divided_for_training_needs_it():
    groups = torch.arange(40) // 2
    groups[:8] = 0
    y = torch.zeros(40, dtype=torch.long)
    y[:6] = 1
    (fold_of,) = scaffold_folds(groups, y, 5, 1, 0)
    for fold in range(5):
        assert y[fold_of != fold].sum() >= 3
    assert len(fold_of[y == 1].unique()) == 5


def test_one_scaffold_is_two_folds_of_rows():
    folds = scaffold_folds(torch.zeros(9, dtype=torch.long), torch.zeros(9, dtype=torch.long), 5, 2, 0)
    assert folds.shape == (2, 9)
    assert folds.unique().tolist() == list(range(5))


def test_strata_are_classes_bins_or_the_rarest_label():
    assert label_strata(torch.tensor([2, 0, 2, 1])).tolist() == [2, 0, 2, 1]
    numbers = torch.linspace(-1.0, 1.0, 100)[:, None]
    assert label_strata(numbers).bincount().tolist() == [10] * 10
    nan = float("nan")
    several = torch.tensor([[0, nan], [0, 0], [0, 1], [1, 0], [nan, 0], [0, 0]])
    strata = label_strata(several)
    assert strata[0] == strata[1] == strata[5]
    assert len({int(strata[row]) for row in (0, 2, 3, 4)}) == 4  # the rarest of each: 0, -1, 1-, -0


def test_molecules_without_rings_are_groups_of_their_own():
    packed = graphs(["CCO", "CCN", "OCC", "c1ccccc1O", "c1ccccc1N", "CC.O"])
    assert are_acyclic(packed).tolist() == [True, True, True, False, False, True]
    groups = row_groups("scaffold", packed)
    assert groups[0] == groups[2]  # one molecule, written twice
    assert len({int(group) for group in groups}) == 4
    assert groups[3] == groups[4]
    assert len(row_groups("random", packed).unique()) == 5


def test_size_and_time_hold_out_the_last_part_once():
    texts = ["C" * length for length in range(1, 21)]
    packed = graphs(texts, time=[float(40 - row) for row in range(20)])
    (by_size,) = make_folds("size", packed, torch.arange(20))
    assert by_size.held_out.tolist() == [0, 1, 2, 3]
    (by_time,) = make_folds("time", packed, torch.arange(20))
    assert by_time.held_out.tolist() == [0, 1, 2, 3]
    assert by_time.train.tolist() == list(range(4, 20))


def test_few_rows_are_divided_three_times():
    texts = [f"{'C' * (row % 7 + 1)}{'O' * (row // 7 + 1)}" for row in range(50)]
    packed = graphs(texts, y=(torch.arange(50) % 5 == 0).float()[:, None])
    rows = torch.arange(2, 48)
    folds = make_folds("scaffold", packed, rows, seed=3)
    assert len(folds) == 15
    assert [fold.repeat for fold in folds] == [0] * 5 + [1] * 5 + [2] * 5
    for repeat in range(3):
        held_out = torch.cat([fold.held_out for fold in folds if fold.repeat == repeat])
        assert torch.equal(held_out.sort().values, rows)
    for fold in folds:
        assert torch.equal(torch.cat([fold.train, fold.held_out]).sort().values, rows)
        assert packed.y[fold.held_out].unique().numel() == 2
