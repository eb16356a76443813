"""Sources of graphs, one file each."""

from importlib import import_module

from outland.datasets.base import Dataset
from outland.datasets.own import own_splits
from outland.datasets.sources import DataFolder
from outland.datasets.table_rows import TableSettings
from outland.errors import OutlandError, unknown

# name -> module:class, imported when asked for
DATASETS = {
    "motif": "outland.datasets.motif:Motif",
    "cmnist": "outland.datasets.cmnist:CMNIST",
    "molbbbp": "outland.datasets.molecules:Molbbbp",
    "molhiv": "outland.datasets.molecules:Molhiv",
    "mutag": "outland.datasets.tu:MUTAG",
    "nci1": "outland.datasets.tu:NCI1",
    "proteins": "outland.datasets.tu:PROTEINS",
    "collab": "outland.datasets.tu:COLLAB",
    "imdb-binary": "outland.datasets.tu:IMDBBinary",
    "imdb-multi": "outland.datasets.tu:IMDBMulti",
}


def find_dataset(name: str, table: TableSettings | None = None) -> Dataset:
    """The dataset of that name, or the user's own table."""
    if table is not None:
        from outland.datasets.table import SmilesTable

        return SmilesTable(table)
    if name not in DATASETS:
        if "." in name or "/" in name:
            raise OutlandError(f"there is no file {name}")
        raise unknown("dataset", name, DATASETS)
    module, _, attribute = DATASETS[name].partition(":")
    dataset: Dataset = getattr(import_module(module), attribute)()
    return dataset


__all__ = ["DATASETS", "DataFolder", "Dataset", "TableSettings", "find_dataset", "own_splits"]
