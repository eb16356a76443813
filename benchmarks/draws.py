"""Draws of datasets that are not the published ones: what a method of our own is developed on.

`VAL-TEST` is Motif with two of its five bases held out, as in `wheel-tree`, and trains on the other three, of which it
has as many graphs; `middle` and `large` train on Motif's smaller graphs and are tested on the larger. Their graphs are
those of another seed than the published one. (No more than 15 trees with a motif differ, so scores on them go by
steps.)

Motif's graphs are few where they are small: of the published test graphs of Motif-base, which are paths, 88 % have an
equal one in a draw that is tested on paths. So nothing is to be decided by such a draw. Of `large` it is 4 %.

`bbbp-scaffold-N` and `bbbp-size-N` divide the molecules that Molbbbp trains on under both shifts, and no other: held
out are molecules of rare scaffolds, or the smallest, halved at random in validation and test by the number N.
"""

import torch

from outland.datasets.motif_shapes import BASES
from outland.graphs import Splits
from outland.spec import RunSpec, load_splits

SIZES = {"middle": ((0, 1), 2, 3), "large": ((0, 1, 2), 3, 4)}  # environments: train, val, test
TRAIN, SCORED, TESTED = 12000, 1500, 3000
HELD_OUT, INSIDE = 0.3, 0.1  # shares of the molecules: in validation and test together, and in id validation


def dataset_of(name: str) -> tuple[str, str]:
    """The dataset of a draw, and the domain whose recipe its runs have."""
    if name.startswith("bbbp"):
        return "molbbbp", name.split("-")[1]
    return "motif", "size" if name in SIZES else "base"


def make_draw(name: str, seed: int, device: torch.device) -> Splits:
    """The parts of a draw."""
    return _molecules(name, device) if name.startswith("bbbp") else _motif(name, seed, device)


def _motif(name: str, seed: int, device: torch.device) -> Splits:
    domain, kind = ("size", "covariate") if name in SIZES else ("base", "none")
    splits = load_splits(RunSpec.make("motif", "erm", domain, kind, changes={"data": {"seed": seed}}), device)
    random = torch.Generator().manual_seed(seed)
    if name in SIZES:
        values, (train, val, test) = splits.graphs.environment, SIZES[name]
    else:
        val, test = (BASES.index(base) for base in name.split("-"))
        values, train = splits.graphs.extra["base"], tuple({0, 1, 2, 3, 4} - {val, test})
    assert values is not None

    def drawn(*wanted: int) -> torch.Tensor:
        index = torch.isin(values.cpu(), torch.tensor(wanted)).nonzero().flatten()
        return index[torch.randperm(len(index), generator=random)]

    inside = drawn(*train)
    parts = {"train": inside[:TRAIN], "id_val": inside[TRAIN:][-SCORED:], "val": drawn(val)[:SCORED]}
    return Splits(splits.graphs, {**parts, "test": drawn(test)[:TESTED]}, splits.schema, splits.source)


def _molecules(name: str, device: torch.device) -> Splits:
    _, domain, number = name.split("-")
    by_domain = {
        each: load_splits(RunSpec.make("molbbbp", "erm", each, "covariate"), device) for each in ("scaffold", "size")
    }
    splits = by_domain[domain]
    graphs, index = splits.graphs, splits.parts["train"].cpu()
    for other in by_domain.values():  # what one shift tests on, the other may train on
        index = index[torch.isin(index, other.parts["train"].cpu())]
    random = torch.Generator().manual_seed(int(number))
    index = index[torch.randperm(len(index), generator=random)]
    if domain == "scaffold":
        scaffold = graphs.extra["scaffold"].cpu()[index]
        rank = torch.bincount(scaffold)[scaffold]
    else:
        rank = graphs.node_counts.cpu()[index]
    index = index[rank.argsort(stable=True)]
    held_out = int(HELD_OUT * len(index))
    outside = index[:held_out][torch.randperm(held_out, generator=random)]
    inside = index[held_out:][torch.randperm(len(index) - held_out, generator=random)]
    few = int(INSIDE * len(index))
    halves = {"val": outside[: held_out // 2], "test": outside[held_out // 2 :]}
    return Splits(graphs, {"train": inside[few:], "id_val": inside[:few], **halves}, splits.schema, splits.source)
