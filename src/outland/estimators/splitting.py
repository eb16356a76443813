"""Validation rows held out of the training rows under the shift that new rows will have."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.errors import unknown
from outland.estimators.inputs import BadInput, Inputs
from outland.tables.splitting import MOLECULE_GROUPS, assign_environments, split_rows

Domain = Literal["auto", "scaffold", "size", "cluster", "random", "environment"]
DOMAINS = ("scaffold", "size", "cluster", "random", "environment")


def resolve_domain(domain: str, kind: str) -> str:
    """The domain that will shift: `auto` is new scaffolds for molecules, smaller graphs for others."""
    if domain == "auto":
        return "scaffold" if kind == "molecules" else "size"
    if domain not in DOMAINS:
        raise unknown("domain", domain, ("auto", *DOMAINS))
    if domain in MOLECULE_GROUPS and kind != "molecules":
        raise BadInput(f"only molecules have a {domain}: take domain='size', 'random' or 'environment' for graphs")
    return domain


def split_validation(
    inputs: Inputs, domain: str, share: float, environments: npt.NDArray[np.str_] | None, seed: int
) -> dict[str, Tensor]:
    """Indices of `train` and `val`: rare scaffolds, clusters or environments validate, or the smallest graphs."""
    if not 0 < share < 1:
        raise BadInput(f"validation must be a share of the rows between 0 and 1, not {share:g}")
    columns = dict(inputs.columns)
    if domain == "environment":
        if environments is None:
            raise BadInput("domain='environment' needs environments: fit(X, y, environments=...)")
        columns["environment"] = _codes(environments)
    split = split_rows(domain, columns, seed, (1 - share, share, 0.0))
    parts = {"train": split["train"], "val": torch.cat([split["val"], split["test"]]).sort().values}
    for name, index in parts.items():
        if not len(index):
            way, advice = f"by {domain}", "too few rows, or too many of one kind; take domain='random'"
            if domain == "random":
                way, advice = "at random", "too few rows, or too few that differ"
            raise BadInput(f"holding out {way} leaves none of {len(inputs.graphs)} rows for '{name}': {advice}")
    return parts


def environment_names(environments: Any, rows: int) -> npt.NDArray[np.str_] | None:
    """Names of the environments `[rows]`; None where there are none."""
    if environments is None:
        return None
    names = np.asarray(environments.cpu() if isinstance(environments, Tensor) else environments)
    if names.shape != (rows,):
        raise BadInput(f"there are {len(names) if names.ndim else 0} environments for {rows} rows")
    return names.astype(str)


def _codes(names: npt.NDArray[np.str_]) -> Tensor:
    """Codes of names, in sorted order."""
    return torch.from_numpy(np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64))


def training_environments(
    inputs: Inputs, domain: str, train: Tensor, environments: npt.NDArray[np.str_] | None
) -> tuple[Tensor, int]:
    """Environment of each row, those of the training rows numbered from 0, and how many of these there are."""
    named = None if environments is None else _codes(environments)
    return assign_environments(domain, inputs.columns, train, named)
