"""The data of a run."""

import torch

from outland.datasets import DataFolder, find_dataset
from outland.graphs import Cache, Splits
from outland.spec.run import RunSpec


def load_splits(
    spec: RunSpec, device: torch.device | str = "cpu", cache: Cache | None = None, data: DataFolder | None = None
) -> Splits:
    """The splits that a spec names, checked, on a device."""
    splits = find_dataset(spec.dataset, spec.table).load(spec.domain, spec.kind, spec.data.seed, cache, data)
    if spec.data.limit is not None:
        splits = splits.limit(spec.data.limit, spec.data.seed)
    return splits.check().to(device)
