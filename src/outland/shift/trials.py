"""One trial: which graphs are compared, in which folds, and their held-out features in one coordinate system."""

from dataclasses import dataclass, replace
from hashlib import blake2b

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.shift.integral import Vectors
from outland.shift.pair import FEWEST, Pair
from outland.shift.settings import ShiftSettings
from outland.shift.weighted import WeightedGraphs


@dataclass(frozen=True)
class Trial:
    """The graphs of one trial.

    Args:
        graphs: the graphs that were drawn; `y` is the class.
        side: which set each is from `[n]`.
        control: sides drawn at random within each class, as many of each: the null.
        classes: class of each; None without labels `[n]`.
        fold: of each graph; copies of one graph share theirs `[n]`.
        reweighted: whether classes are balanced by weights.
    """

    graphs: WeightedGraphs
    side: Tensor
    control: Tensor
    classes: Tensor | None
    fold: Tensor
    reweighted: bool = False

    def weight(self, side: Tensor) -> Tensor | None:
        """Of each graph, given the sides; None where all count alike `[n]`."""
        return class_weights(side, self.graphs.graphs.y) if self.reweighted else None

    def sided(self, side: Tensor) -> WeightedGraphs:
        """The graphs with these sides as their environments."""
        packed = replace(self.graphs.graphs, environment=side.to(self.graphs.graphs.device))
        return replace(self.graphs, graphs=packed)

    def vectors(self, features: Tensor, side: Tensor) -> tuple[Vectors, Vectors]:
        """The features of either side."""
        weight = self.weight(side)

        def of(number: int) -> Vectors:
            own = side == number
            picked = (None if one is None else one[own] for one in (weight, self.classes))
            return Vectors(features[own], *picked)

        return of(0), of(1)


def draw_trial(pair: Pair, settings: ShiftSettings, seed: int) -> Trial:
    """Draw graphs, a control and folds."""
    random = torch.Generator().manual_seed(seed)
    index = _drawn(pair, settings, random)
    side, classes = pair.side[index], pair.classes[index]
    control = side.clone()
    for name in classes.unique():
        own = (classes == name).nonzero().flatten()
        control[own] = side[own[torch.randperm(len(own), generator=random)]]
    chosen = pair.graphs.select(index)
    chosen = replace(chosen, graphs=replace(chosen.graphs, y=classes))
    fold = folds(chosen, 2 * classes + side, settings.folds, random)
    return Trial(chosen, side, control, classes if pair.labelled else None, fold, settings.balance == "reweight")


def _drawn(pair: Pair, settings: ShiftSettings, random: torch.Generator) -> Tensor:
    """Places of the graphs to compare."""
    shuffled = torch.randperm(len(pair.side), generator=random)
    members = {
        (side, name): shuffled[(pair.side[shuffled] == side) & (pair.classes[shuffled] == name)]
        for side in (0, 1)
        for name in pair.classes[pair.classes >= 0].unique().tolist()
    }
    names = [name for (side, name) in members if side == 0]
    common = [name for name in names if len(members[0, name]) and len(members[1, name])]
    if not common:
        raise OutlandError("the two sets have no class in common: compare them without labels (labels=False)")
    wanted = {key: len(index) for key, index in members.items() if key[1] in common}
    if settings.balance == "subsample":
        wanted = {(side, name): min(len(members[0, name]), len(members[1, name])) for side, name in wanted}
    chosen = []
    for side in (0, 1):
        total = sum(number for key, number in wanted.items() if key[0] == side)
        most = min(settings.most, total)
        picked = [members[key][: max(1, number * most // total)] for key, number in wanted.items() if key[0] == side]
        chosen.append(torch.cat(picked))
        if len(chosen[-1]) < FEWEST:
            raise OutlandError(
                f"only {len(chosen[-1])} graphs a side are left when both sets have as many of each class; at least "
                f"{FEWEST} are needed: compare without labels (labels=False), or with balance='reweight'"
            )
    index = torch.cat(chosen)
    return index[torch.randperm(len(index), generator=random)]  # batches are mixed, so rounding tells no sides apart


def class_weights(side: Tensor, classes: Tensor) -> Tensor:
    """Weights under which every class has the same share on both sides, the mean of its two `[n]`; 1 on average."""
    weight = torch.zeros(len(side), dtype=torch.double)
    totals = [(side == place).sum() for place in (0, 1)]
    for name in classes.unique():
        own = [(side == place) & (classes == name) for place in (0, 1)]
        share = sum(rows.sum() / total for rows, total in zip(own, totals, strict=True)) / 2
        for rows, total in zip(own, totals, strict=True):
            weight[rows] = share * total / rows.sum()
    return weight


def folds(graphs: WeightedGraphs, stratum: Tensor, number: int, random: torch.Generator) -> Tensor:
    """A fold for each graph, in which copies of a graph stay together: no graph is held out that was trained on.

    Where copies are so many that a fold would hold little else, they count as different graphs.
    """
    names = _fingerprints(graphs)
    groups: dict[bytes, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name, []).append(place)
    rows = [group for group in groups.values() if len(group) <= len(names) // (2 * number)]
    alone = set(range(len(names))) - {place for group in rows for place in group}
    rows += [[place] for place in sorted(alone)]
    order = torch.randperm(len(rows), generator=random).tolist()
    order.sort(key=lambda place: int(stratum[rows[place][0]]))
    fold = torch.zeros(len(names), dtype=torch.long)
    for turn, place in enumerate(order):
        fold[rows[place]] = turn % number
    return fold


def _fingerprints(graphs: WeightedGraphs) -> list[bytes]:
    """A short hash of each graph's nodes and edges."""
    packed = graphs.graphs.to("cpu")
    nodes, edges = packed.node_counts.tolist(), packed.edge_counts.tolist()
    parts = [packed.x.split(nodes), packed.edge_index.T.split(edges)]
    if packed.edge_attr is not None:
        parts.append(packed.edge_attr.split(edges))
    return [
        blake2b(b"|".join(part.numpy().tobytes() for part in graph), digest_size=12).digest()
        for graph in zip(*parts, strict=True)
    ]


def aligned(features: list[Tensor], fold: Tensor) -> Tensor:
    """The held-out features of every graph `[n, r]`, from networks that each have coordinates of their own.

    Each network's features are brought to mean 0 and covariance 1 over the graphs it was trained on, and turned to fit
    those of the first network on the graphs that both were trained on (orthogonal Procrustes); then the held-out ones
    of all can be pooled. Directions in which a network's features hardly vary are left out.

    Args:
        features: of all graphs, by each fold's network `[n, d]`.
        fold: in which each graph is held out `[n]`.
    """
    flat = [_principal(z.double(), fold != place) for place, z in enumerate(features)]
    rank = min(z.shape[1] for z in flat)
    flat = [z[:, :rank] for z in flat]
    out = torch.zeros_like(flat[0])
    for place, z in enumerate(flat):
        both = (fold != 0) & (fold != place)
        left, _, right = torch.linalg.svd(z[both].T @ flat[0][both])
        own = fold == place
        out[own] = (z @ left @ right)[own]
    return out


def _principal(z: Tensor, trained: Tensor) -> Tensor:
    """Features along their principal directions, in units of their spread over the training graphs."""
    mean = z[trained].mean(0)
    variances, directions = torch.linalg.eigh((z[trained] - mean).T.cov().reshape(z.shape[1], z.shape[1]))
    kept = variances > 1e-6 * variances.max().clamp(min=1e-12)
    turned: Tensor = (z - mean) @ directions[:, kept] / variances[kept].sqrt()
    return turned.flip(1)  # the largest first
