"""Folds of rows, each held out once: whole scaffolds, stratified by label."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from outland.graphs import PackedGraphs
from outland.tables.splitting import split_by_key

FOLDS, REPEATS = 5, 3
FEW_ROWS = 300  # up to which folds are drawn `REPEATS` times
_BINS = 10  # of numbers, at most
_DRAWS = 10  # of folds; the first in which no fold lacks a label is taken
_HELD_OUT = 0.2  # of the rows, where one part is held out


@dataclass(frozen=True)
class Fold:
    """Rows to train on and rows to predict `[.]`; `repeat` counts the divisions of the table."""

    train: Tensor
    held_out: Tensor
    repeat: int = 0


def make_folds(
    domain: str, graphs: PackedGraphs, rows: Tensor, seed: int = 0, folds: int = FOLDS, repeats: int | None = None
) -> list[Fold]:
    """Folds of `rows` that imitate what will be new.

    `scaffold` and `cluster` hold out whole groups, `random` and `column` whole molecules and whole scaffolds, each
    stratified by label, and several times over where rows are few. `time` and `size` hold out the last part, the
    latest rows or the smallest molecules, once.
    """
    columns = {**graphs.extra, "size": graphs.node_counts}
    if domain in ("time", "size"):
        parts = split_by_key(columns[domain][rows], (1 - _HELD_OUT, _HELD_OUT, 0.0), descending=domain == "size")
        held_out = torch.cat([parts["val"], parts["test"]])
        return [Fold(rows[parts["train"].sort().values], rows[held_out.sort().values])]
    if repeats is None:
        repeats = REPEATS if len(rows) <= FEW_ROWS else 1
    fold_of = scaffold_folds(row_groups(domain, graphs)[rows], graphs.y[rows], folds, repeats, seed)
    return [
        Fold(rows[division != fold], rows[division == fold], repeat)
        for repeat, division in enumerate(fold_of)
        for fold in range(int(division.max()) + 1)
    ]


def row_groups(domain: str, graphs: PackedGraphs) -> Tensor:
    """Group of each row `[G]`: its scaffold or cluster; for molecules without rings, and for `random`, the molecule."""
    columns: Mapping[str, Tensor] = graphs.extra
    molecule = columns.get("molecule", torch.arange(len(graphs)))
    if domain == "random" or (domain != "cluster" and "scaffold" not in columns):
        return molecule
    if domain == "cluster":
        return columns["cluster"]
    return torch.where(are_acyclic(graphs), -1 - molecule, columns["scaffold"])


def are_acyclic(graphs: PackedGraphs) -> Tensor:
    """Which graphs have no cycle `[G]`: as many edges as nodes, less one for each connected component."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    source, target = (graphs.edge_index.long() + graphs.node_offsets.repeat_interleave(graphs.edge_counts)).numpy()
    nodes = len(graphs.x)
    adjacency = coo_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
    _, component = connected_components(adjacency, directed=False)
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts).numpy()
    components = np.bincount(owner[np.unique(component, return_index=True)[1]], minlength=len(graphs))
    acyclic: Tensor = graphs.edge_counts == 2 * (graphs.node_counts - torch.from_numpy(components))
    return acyclic


def label_strata(y: Tensor) -> Tensor:
    """Stratum of each row `[G]`: its class, or the quantile bin of its number; of several labels that of the rarest.

    Args:
        y: labels `[G]` or `[G, T]`, NaN where unknown.
    """
    columns = y.reshape(len(y), -1).double()
    strata, most = torch.full((len(y),), -1), torch.full((len(y),), math.inf)
    first = 0
    for column in columns.T:
        known = ~column.isnan()
        codes = _codes(column[known], are_classes(y))
        counts = codes.bincount()
        rarity = torch.full_like(most, math.inf)
        rarity[known] = counts[codes].to(rarity.dtype)
        of_rows = torch.full_like(strata, -1)
        of_rows[known] = codes + first
        strata = torch.where(rarity < most, of_rows, strata)
        most, first = torch.minimum(rarity, most), first + len(counts)
    return _renumbered(strata)


def are_classes(y: Tensor) -> bool:
    """Whether labels are classes: whole numbers, or nothing but 0, 1 and NaN."""
    return not y.is_floating_point() or bool(((y == 0) | (y == 1) | y.isnan()).all())


def _codes(values: Tensor, classes: bool) -> Tensor:
    """Codes of classes, or of quantile bins of numbers."""
    if classes:
        return _renumbered(values)
    bins = max(2, min(_BINS, len(values) // 10))
    edges = values.quantile(torch.linspace(0, 1, bins + 1, dtype=values.dtype)[1:-1])
    return _renumbered(torch.searchsorted(edges, values))


def _renumbered(values: Tensor) -> Tensor:
    """The position of each value among the different ones."""
    codes: Tensor = values.unique(return_inverse=True)[1]
    return codes


def scaffold_folds(groups: Tensor, y: Tensor, folds: int = FOLDS, repeats: int = 1, seed: int = 0) -> Tensor:
    """Fold of each row `[repeats, G]`: whole groups, with about the same share of every label in each fold.

    Of several draws the one is taken in which the fewest folds lack a label. A group that has all rows of a class is
    divided, for otherwise the class would be absent from training when the group is held out.

    Args:
        groups: group of each row.
        y: labels `[G]` or `[G, T]`, NaN where unknown; numbers are stratified by quantiles.
        folds, repeats: how many folds, and how often the rows are divided; fewer folds where there are fewer groups.
        seed: of the draws.
    """
    groups = _divided(groups, y) if are_classes(y) else groups
    groups, y = _renumbered(groups), label_strata(y)
    folds = min(folds, len(groups.unique()))
    if folds < 2:
        return (torch.arange(len(y)) % min(2, len(y)))[None].repeat(repeats, 1)
    return torch.stack([_best_draw(groups, y, folds, seed + 1000 * repeat) for repeat in range(repeats)])


def _best_draw(groups: Tensor, y: Tensor, folds: int, seed: int) -> Tensor:
    allowed = _allowed(groups, y, folds)
    best, fewest = torch.zeros(len(y), dtype=torch.long), math.inf
    for draw in range(_DRAWS):
        fold_of = _draw(groups, y, folds, seed + draw)
        present = torch.zeros(int(y.max()) + 1, folds).index_put((y, fold_of), torch.tensor(1.0))
        lacking = float((allowed - present.sum(1)).clamp(min=0).sum())
        if lacking < fewest:
            best, fewest = fold_of, lacking
        if not lacking:
            break
    return best


def _allowed(groups: Tensor, y: Tensor, folds: int) -> Tensor:
    """In how many folds each label can be: as many as it has groups."""
    labels, _ = torch.stack([y, groups]).unique(dim=1)
    counts: Tensor = labels.bincount(minlength=int(y.max()) + 1)
    return counts.clamp(max=folds)


def _draw(groups: Tensor, y: Tensor, folds: int, seed: int) -> Tensor:
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    fold_of = torch.zeros(len(y), dtype=torch.long)
    is_few = int(y.bincount().max()) < folds  # scikit-learn refuses folds beyond the commonest label
    splitter = GroupKFold(folds) if is_few else StratifiedGroupKFold(folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a label rarer than the folds
        for fold, (_, held_out) in enumerate(splitter.split(y.numpy(), y.numpy(), groups.numpy())):
            fold_of[torch.from_numpy(held_out)] = fold
    return fold_of


def _divided(groups: Tensor, y: Tensor) -> Tensor:
    """Groups, where one that has all rows of a class is divided into single rows."""
    groups = groups.clone()
    for column in y.reshape(len(y), -1).double().T:
        for label in column[~column.isnan()].unique():
            rows = column == label
            names = groups[rows].unique()
            if len(names) == 1 and int(rows.sum()) > 1:
                members = groups == names
                groups[members] = int(groups.max()) + 1 + torch.arange(int(members.sum()))
    return groups
