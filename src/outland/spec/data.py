"""The data of a run."""

from dataclasses import replace

import torch

from outland.datasets import DataFolder, find_dataset
from outland.errors import OutlandError
from outland.graphs import Cache, Splits
from outland.spec.run import RunSpec


def load_splits(
    spec: RunSpec, device: torch.device | str = "cpu", cache: Cache | None = None, data: DataFolder | None = None
) -> Splits:
    """The splits that a spec names, checked, on a device."""
    dataset = find_dataset(spec.dataset, spec.table)
    load = dataset.load_with_descriptors if spec.backbone.descriptors else dataset.load
    splits = load(spec.domain, spec.kind, spec.data.seed, cache, data)
    if spec.data.limit is not None:
        splits = splits.limit(spec.data.limit, spec.data.seed)
    return splits.check().to(device)


def data_key(spec: RunSpec) -> object:
    """What `load_splits` depends on: specs with equal keys have equal splits."""
    return spec.dataset, spec.domain, spec.kind, spec.data, spec.table, spec.backbone.descriptors


def load_rows(spec: RunSpec, cache: Cache | None = None) -> Splits:
    """All rows of a spec's table that there is to learn from, as the part `train`, and perhaps the user's own `test`.

    `data.limit` draws so many rows of each.
    """
    from outland.tables.smiles_table import SmilesTable

    if spec.table is None:
        raise OutlandError(f"{spec.dataset} is not a table: give the file of one")
    rows = SmilesTable(spec.table).load_rows(spec.domain, spec.kind, cache)
    if spec.data.limit is not None:
        rows = rows.limit(spec.data.limit, spec.data.seed)
    every_row = torch.arange(len(rows.graphs))
    replace(rows, parts=dict.fromkeys(("train", "val", "test"), every_row)).check()
    return rows
