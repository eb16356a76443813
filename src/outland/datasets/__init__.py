"""Sources of graphs, one file each."""

from importlib import import_module

from outland.datasets.base import Dataset
from outland.errors import unknown

# name -> module:class, imported when asked for
DATASETS = {"motif": "outland.datasets.motif:Motif"}


def find_dataset(name: str) -> Dataset:
    """The dataset of that name."""
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    module, _, attribute = DATASETS[name].partition(":")
    dataset: Dataset = getattr(import_module(module), attribute)()
    return dataset


__all__ = ["DATASETS", "Dataset", "find_dataset"]
