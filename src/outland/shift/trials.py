"""One trial: which graphs are compared, in which folds, and their held-out features in one coordinate system."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.shift.integral import Vectors
from outland.shift.pair import MIN_GRAPHS, Pair
from outland.shift.settings import ShiftSettings
from outland.shift.weighted import WeightedGraphs


@dataclass(frozen=True)
class Trial:
    """The graphs of one trial, with their classes as `y`."""

    graphs: WeightedGraphs
    side: Tensor  # which set each is from, 0 or 1 `[n]`
    random_side: Tensor  # sides permuted within each class, for the null `[n]`
    classes: Tensor | None  # None without labels `[n]`
    fold: Tensor  # copies of one graph share theirs `[n]`
    reweighted: bool = False  # whether classes are balanced by weights

    def weight(self, side: Tensor) -> Tensor | None:
        """Weight of each graph, given the sides `[n]`; None where all count alike."""
        return class_weights(side, self.graphs.graphs.y) if self.reweighted else None

    def with_sides(self, side: Tensor) -> WeightedGraphs:
        """The graphs with these sides as their environments."""
        packed = replace(self.graphs.graphs, environment=side.to(self.graphs.graphs.device))
        return replace(self.graphs, graphs=packed)

    def vectors(self, features: Tensor, side: Tensor) -> tuple[Vectors, Vectors]:
        """The features of either side, with their weights and classes."""
        optional = (self.weight(side), self.classes)

        def select(rows: Tensor) -> Vectors:
            return Vectors(features[rows], *(None if values is None else values[rows] for values in optional))

        return select(side == 0), select(side == 1)


def draw_trial(pair: Pair, settings: ShiftSettings, seed: int) -> Trial:
    """Draw the graphs, random sides and folds of a trial."""
    random = torch.Generator().manual_seed(seed)
    index = _draw_graphs(pair, settings, random)
    side, classes = pair.side[index], pair.classes[index]
    random_side = side.clone()
    for label in classes.unique():
        members = (classes == label).nonzero().flatten()
        random_side[members] = side[members[torch.randperm(len(members), generator=random)]]
    graphs = pair.graphs.select(index)
    graphs = replace(graphs, graphs=replace(graphs.graphs, y=classes))
    fold = assign_folds(graphs, 2 * classes + side, settings.folds, random)
    return Trial(graphs, side, random_side, classes if pair.labelled else None, fold, settings.balance == "reweight")


def _draw_graphs(pair: Pair, settings: ShiftSettings, random: torch.Generator) -> Tensor:
    """Index of the graphs to compare, in random order, balanced by class if the settings say so."""
    shuffled = torch.randperm(len(pair.side), generator=random)
    members = {
        (side, label): shuffled[(pair.side[shuffled] == side) & (pair.classes[shuffled] == label)]
        for side in (0, 1)
        for label in pair.classes[pair.classes >= 0].unique().tolist()
    }
    labels = [label for (side, label) in members if side == 0]
    common = [label for label in labels if len(members[0, label]) and len(members[1, label])]
    if not common:
        raise OutlandError("the two sets have no class in common: compare them without labels (labels=False)")
    counts = {key: len(index) for key, index in members.items() if key[1] in common}
    if settings.balance == "subsample":
        counts = {(side, label): min(len(members[0, label]), len(members[1, label])) for side, label in counts}
    drawn = []
    for side in (0, 1):
        total = sum(count for key, count in counts.items() if key[0] == side)
        most = min(settings.most, total)
        rows = [members[key][: max(1, count * most // total)] for key, count in counts.items() if key[0] == side]
        drawn.append(torch.cat(rows))
        if len(drawn[-1]) < MIN_GRAPHS:
            raise OutlandError(
                f"only {len(drawn[-1])} graphs a side are left when both sets have as many of each class; at least "
                f"{MIN_GRAPHS} are needed: compare without labels (labels=False), or with balance='reweight'"
            )
    index = torch.cat(drawn)
    return index[torch.randperm(len(index), generator=random)]  # batches are mixed, so rounding tells no sides apart


def class_weights(side: Tensor, classes: Tensor) -> Tensor:
    """Weights under which every class has the same share on both sides, the mean of its two `[n]`; 1 on average."""
    weight = torch.zeros(len(side), dtype=torch.double)
    totals = [(side == number).sum() for number in (0, 1)]
    for label in classes.unique():
        members = [(side == number) & (classes == label) for number in (0, 1)]
        share = sum(rows.sum() / total for rows, total in zip(members, totals, strict=True)) / 2
        for rows, total in zip(members, totals, strict=True):
            weight[rows] = share * total / rows.sum()
    return weight


def assign_folds(graphs: WeightedGraphs, stratum: Tensor, folds: int, random: torch.Generator) -> Tensor:
    """A fold for each graph `[n]`, stratified, copies of a graph in one: none is both trained on and held out.

    Where copies are so many that a fold would hold little else, they count as different graphs.
    """
    fingerprints = graphs.fingerprints()
    copies: dict[bytes, list[int]] = {}
    for index, fingerprint in enumerate(fingerprints):
        copies.setdefault(fingerprint, []).append(index)
    groups = [group for group in copies.values() if len(group) <= len(fingerprints) // (2 * folds)]
    single = set(range(len(fingerprints))) - {index for group in groups for index in group}
    groups += [[index] for index in sorted(single)]
    order = torch.randperm(len(groups), generator=random).tolist()
    order.sort(key=lambda number: int(stratum[groups[number][0]]))
    fold = torch.zeros(len(fingerprints), dtype=torch.long)
    for position, number in enumerate(order):
        fold[groups[number]] = position % folds
    return fold


def align_features(features: list[Tensor], fold: Tensor) -> Tensor:
    """The held-out features of every graph `[n, r]`, from networks that each have coordinates of their own.

    Each network's features are whitened over the graphs it was trained on, and rotated onto those of the first network
    on the graphs that both were trained on (orthogonal Procrustes); then the held-out ones of all can be pooled.
    Directions in which a network's features hardly vary are left out. `features` are of all graphs, by each fold's
    network `[n, d]`; `fold` is the one in which each graph is held out `[n]`.
    """
    whitened = [_whiten(z.double(), fold != number) for number, z in enumerate(features)]
    width = min(z.shape[1] for z in whitened)
    whitened = [z[:, :width] for z in whitened]
    pooled = torch.zeros_like(whitened[0])
    for number, z in enumerate(whitened):
        shared = (fold != 0) & (fold != number)
        left, _, right = torch.linalg.svd(z[shared].T @ whitened[0][shared])
        held_out = fold == number
        pooled[held_out] = (z @ left @ right)[held_out]
    return pooled


def _whiten(z: Tensor, trained: Tensor) -> Tensor:
    """Features along their principal directions, the largest first, with variance 1 over the training graphs."""
    mean = z[trained].mean(0)
    variances, directions = torch.linalg.eigh((z[trained] - mean).T.cov().reshape(z.shape[1], z.shape[1]))
    varying = variances > 1e-6 * variances.max().clamp(min=1e-12)
    whitened: Tensor = (z - mean) @ directions[:, varying] / variances[varying].sqrt()
    return whitened.flip(1)
