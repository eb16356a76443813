"""Draws of datasets that are not the published ones: what a method of our own is developed on.

`VAL-TEST` is Motif with two of its five bases held out, as in `wheel-tree`, and trains on the other three, of which it
has as many graphs; `middle` and `large` train on Motif's smaller graphs and are tested on the larger. Their graphs are
those of another seed than the published one. (No more than 15 trees with a motif differ, so scores on them go by
steps.)

Motif's graphs are few where they are small: of the published test graphs of Motif-base, which are paths, 88 % have an
equal one in a draw that is tested on paths. So nothing is to be decided by such a draw. Of `large` it is 4 %.

`bbbp-scaffold-N`, `bbbp-size-N`, `hiv-scaffold-N` and `hiv-size-N` divide the molecules that Molbbbp or Molhiv trains
on under both shifts, and no other: held out are scaffolds drawn at random by the number N, none that a twentieth of the
molecules have (of Molhiv, whose scaffolds are not known here, some of the ten groups of them), or the smallest
molecules, halved at random by it. Shares are met to the molecule, so that a group may be cut in two: one scaffold of
Molbbbp at most, but of Molhiv's few groups a large part, so that its draws are milder than scaffolds would be.

`bbbp-cluster-N` holds out clusters of molecules instead: k-means of their standardized descriptors, ten clusters, in an
order drawn at random by N of those that have both classes. These cuts are harder: what is tested lies farther away.

Molecules have descriptors if they are asked for, as runs with `backbone.descriptors=true` do.

`cmnist-VAL-TEST` divides the digits that CMNIST trains on by their five colours: it trains on three.
"""

import torch
from sklearn.cluster import KMeans

from outland.datasets.motif_shapes import BASES
from outland.graphs import PackedGraphs, Splits
from outland.spec import RunSpec, load_splits

SIZES = {"middle": ((0, 1), 2, 3), "large": ((0, 1, 2), 3, 4)}  # environments: train, val, test
TRAIN, SCORED, TESTED = 12000, 1500, 3000
MOLECULES = {"bbbp": "molbbbp", "hiv": "molhiv"}
CLUSTERS, LEAST = 10, 5  # clusters of molecules, and molecules of either class that a held-out one has
HELD_OUT, INSIDE = 0.3, 0.1  # shares of the molecules: in validation and test together, and in id validation
COMMON = 0.05  # share of the molecules from which a scaffold is never held out


def dataset_of(name: str) -> tuple[str, str]:
    """The dataset of a draw, and the domain whose recipe its runs have."""
    family, *words = name.split("-")
    if family in MOLECULES:
        return MOLECULES[family], "size" if words[0] == "size" else "scaffold"
    if family == "cmnist":
        return "cmnist", "color"
    return "motif", "size" if name in SIZES else "base"


def make_draw(name: str, seed: int, device: torch.device, descriptors: bool = False) -> Splits:
    """The parts of a draw."""
    match dataset_of(name)[0]:
        case "motif":
            return _motif(name, seed, device)
        case "cmnist":
            return _digits(name, seed, device)
        case dataset:
            return _molecules(name, dataset, device, descriptors)


def _motif(name: str, seed: int, device: torch.device) -> Splits:
    domain, kind = ("size", "covariate") if name in SIZES else ("base", "none")
    splits = load_splits(RunSpec.make("motif", "erm", domain, kind, changes={"data": {"seed": seed}}), device)
    random = torch.Generator().manual_seed(seed)
    if name in SIZES:
        values, (train, val, test) = splits.graphs.environment, SIZES[name]
    else:
        val, test = (BASES.index(base) for base in name.split("-"))
        values, train = splits.graphs.extra["base"], tuple({0, 1, 2, 3, 4} - {val, test})
    return _by_value(splits, torch.arange(len(splits.graphs)), values, (train, val, test), random)


def _digits(name: str, seed: int, device: torch.device) -> Splits:
    splits = load_splits(RunSpec.make("cmnist", "erm", "color", "covariate"), device)
    val, test = (int(word) for word in name.split("-")[1:])
    train = tuple({0, 1, 2, 3, 4} - {val, test})
    random = torch.Generator().manual_seed(seed)
    return _by_value(splits, splits.parts["train"].cpu(), splits.graphs.environment, (train, val, test), random)


def _by_value(
    splits: Splits,
    index: torch.Tensor,
    values: torch.Tensor | None,
    parts: tuple[tuple[int, ...], int, int],
    random: torch.Generator,
) -> Splits:
    """Parts of the graphs at an index, by a value that each graph has: several in training, one in either other."""
    assert values is not None
    values, (train, val, test) = values.cpu()[index], parts

    def drawn(*wanted: int) -> torch.Tensor:
        rows = torch.isin(values, torch.tensor(wanted)).nonzero().flatten()
        return index[rows[torch.randperm(len(rows), generator=random)]]

    inside = drawn(*train)
    named = {"train": inside[:TRAIN], "id_val": inside[TRAIN:][-SCORED:], "val": drawn(val)[:SCORED]}
    return Splits(splits.graphs, {**named, "test": drawn(test)[:TESTED]}, splits.schema, splits.source)


def _molecules(name: str, dataset: str, device: torch.device, descriptors: bool) -> Splits:
    _, cut, number = name.split("-")
    domain = dataset_of(name)[1]
    changes = {"backbone": {"descriptors": descriptors}}
    by_domain = {
        each: load_splits(RunSpec.make(dataset, "erm", each, "covariate", changes=changes), device)
        for each in ("scaffold", "size")
    }
    splits = by_domain[domain]
    graphs, index = splits.graphs, splits.parts["train"].cpu()
    for other in by_domain.values():  # what one shift tests on, the other may train on
        index = index[torch.isin(index, other.parts["train"].cpu())]
    random = torch.Generator().manual_seed(int(number))
    index = index[torch.randperm(len(index), generator=random)]
    match cut:
        case "cluster":
            rank = rank_of_cluster(dataset, graphs, index, int(number))
        case "scaffold":
            rank = rank_of_group(splits, index, random)
        case _:
            rank = graphs.node_counts.cpu()[index]
    index = index[rank.argsort(stable=True)]
    held_out = int(HELD_OUT * len(index))
    outside, inside = index[:held_out], index[held_out:]
    if domain == "size":
        outside = outside[torch.randperm(held_out, generator=random)]
    inside = inside[torch.randperm(len(inside), generator=random)]
    few = int(INSIDE * len(index))
    halves = {"val": outside[: held_out // 2], "test": outside[held_out // 2 :]}
    return Splits(graphs, {"train": inside[few:], "id_val": inside[:few], **halves}, splits.schema, splits.source)


def rank_of_group(splits: Splits, index: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Random ranks of scaffolds, the common ones last; of environments, which are whole scaffolds, for want of them."""
    graphs = splits.graphs
    groups = graphs.extra.get("scaffold", graphs.environment)
    assert groups is not None
    group = groups.cpu()[index]
    counts = torch.bincount(group)
    ranks = torch.randperm(len(counts), generator=random)
    if "scaffold" in graphs.extra:
        ranks[counts > COMMON * len(index)] += len(counts)
    return ranks[group]


def rank_of_cluster(dataset: str, graphs: PackedGraphs, index: torch.Tensor, number: int) -> torch.Tensor:
    """Random ranks of clusters by descriptors, those last that hardly have one of the classes."""
    changes = {"backbone": {"descriptors": True}}
    values = load_splits(RunSpec.make(dataset, "erm", "scaffold", changes=changes)).graphs.extra["descriptors"][index]
    values = ((values - values.mean(0)) / values.std(0).clamp(min=1e-6)).nan_to_num(0.0).clamp(-5, 5)
    cluster = torch.from_numpy(KMeans(CLUSTERS, n_init=4, random_state=number).fit_predict(values.numpy())).long()
    positive = graphs.y.cpu()[index, 0] > 0.5
    least = torch.minimum(
        torch.bincount(cluster[positive], minlength=CLUSTERS), torch.bincount(cluster[~positive], minlength=CLUSTERS)
    )
    ranks = torch.randperm(CLUSTERS, generator=torch.Generator().manual_seed(number))
    return (ranks + CLUSTERS * (least < LEAST))[cluster]
