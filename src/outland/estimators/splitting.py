"""Validation rows cut out of the training set so that they lie beyond it as new rows will."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from outland.errors import unknown
from outland.estimators.inputs import BadInput, Inputs
from outland.tables.splitting import at_random, by_group, by_size, grouped_environments, size_environments

Shift = Literal["auto", "scaffold", "size", "cluster", "random", "environment"]
SHIFTS = ("scaffold", "size", "cluster", "random", "environment")
_OF_MOLECULES = ("scaffold", "cluster")


def chosen_shift(shift: str, kind: str) -> str:
    """The shift to prepare for: unless it is named, new scaffolds for molecules, smaller graphs for others."""
    if shift == "auto":
        return "scaffold" if kind == "molecules" else "size"
    if shift not in SHIFTS:
        raise unknown("shift", shift, ("auto", *SHIFTS))
    if shift in _OF_MOLECULES and kind != "molecules":
        raise BadInput(f"only molecules have a {shift}: take shift='size', 'random' or 'environment' for graphs")
    return shift


def carve(inputs: Inputs, shift: str, share: float, environments: Any, seed: int) -> dict[str, Tensor]:
    """Train and validation rows: whole scaffolds, clusters or environments, the rare ones; or the smallest graphs."""
    if not 0 < share < 1:
        raise BadInput(f"validation must be a share of the rows between 0 and 1, not {share:g}")
    fractions = (1 - share, share, 0.0)
    if shift == "environment" and environments is None:
        raise BadInput("shift='environment' needs environments: fit(X, y, environments=...)")
    match shift:
        case "scaffold" | "cluster":
            parts = by_group(inputs.groups[shift], fractions)
        case "environment":
            parts = by_group(environment_codes(environments, len(inputs.graphs)), fractions)
        case "size":
            parts = by_size(inputs.graphs.node_counts, fractions)
        case _:
            parts = at_random(inputs.groups["molecule"], seed, fractions)
    found = {"train": parts["train"], "val": torch.cat([parts["val"], parts["test"]]).sort().values}
    for name, index in found.items():
        if not len(index):
            way, advice = f"by {shift}", "too few rows, or too many of one kind; take shift='random'"
            if shift == "random":
                way, advice = "at random", "too few rows, or too few that differ"
            raise BadInput(f"holding out {way} leaves none of {len(inputs.graphs)} rows for '{name}': {advice}")
    return found


def environment_codes(environments: Any, rows: int) -> Tensor:
    """Numbers for names of environments, one a row."""
    values = np.asarray(environments.cpu() if isinstance(environments, Tensor) else environments)
    if values.shape != (rows,):
        raise BadInput(f"there are {len(values) if values.ndim else 0} environments for {rows} rows")
    return torch.from_numpy(np.unique(values.astype(str), return_inverse=True)[1].reshape(-1).astype(np.int64))


def training_environments(inputs: Inputs, shift: str, train: Tensor, environments: Any) -> tuple[Tensor, int]:
    """An environment for every row, those of the training rows numbered from 0, and how many of these there are.

    Without names of their own, training rows are parted by scaffold or cluster, else by size.
    """
    if environments is None:
        if shift in _OF_MOLECULES:
            found = grouped_environments(inputs.groups[shift], train)
        else:
            found = size_environments(inputs.graphs.node_counts, train)
        return found, len(found[train].unique())
    codes = environment_codes(environments, len(inputs.graphs))
    known = codes[train].unique()
    order = torch.cat([known, torch.tensor([code for code in codes.unique().tolist() if code not in known])]).long()
    places = torch.empty(int(order.max()) + 1, dtype=torch.long)
    places[order] = torch.arange(len(order))
    return places[codes], len(known)
