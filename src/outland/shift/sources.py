"""Sets of graphs by name: a part of a benchmark, or a table of molecules."""

from dataclasses import dataclass
from pathlib import Path

from outland.chem.featurizer import ATOMS, BONDS
from outland.datasets import DataFolder, TableSettings, find_dataset
from outland.errors import OutlandError, unknown
from outland.graphs import Cache, PackedGraphs, Schema, Splits, Task

_FORM = "write it as DATASET/DOMAIN:PART, as in motif/base:train, or give the file of a table"


@dataclass(frozen=True)
class Sides:
    """Two sets of graphs.

    Args:
        first, second: the sets.
        schema: what their numbers mean.
        labels: whether both have labels of the same meaning.
        notes: what a person should know.
    """

    first: PackedGraphs
    second: PackedGraphs
    schema: Schema
    labels: bool
    notes: tuple[str, ...] = ()


def is_table(name: str) -> bool:
    """Whether the name of a set is that of a table's file."""
    return bool(Path(name).suffix) and ":" not in Path(name).name


def find_sides(
    first: str,
    second: str,
    table: TableSettings | None = None,
    data: DataFolder | None = None,
    cache: Cache | None = None,
    seed: int = 123,
) -> Sides:
    """Load the two sets of these names.

    Args:
        first, second: `DATASET[/DOMAIN[/KIND]]:PART`, or the file of a table of SMILES.
        table: columns of the tables; without targets they are compared without labels.
        data: folder of raw files.
        cache: of prepared datasets.
        seed: of a dataset's generator or splitter.
    """
    columns = table or TableSettings("")
    tables = [is_table(name) for name in (first, second)]
    if any(columns.targets) and not all(tables):
        raise OutlandError("--target is for two tables: of a dataset's part the labels are known")
    if all(tables) and any(columns.targets):
        from outland.tables.smiles_table import read_labelled

        (here, there), schema, notes = read_labelled([first, second], columns)
        return Sides(here, there, schema, True, tuple(notes))
    notes = []
    loaded: dict[str, Splits] = {}
    sides = [
        _molecules(name, columns.smiles, notes) if is_file else _part(name, loaded, data, cache, seed, notes)
        for name, is_file in zip((first, second), tables, strict=True)
    ]
    (here, schema), (there, other) = sides
    if (schema.node, schema.edge) != (other.node, other.edge):
        raise OutlandError(f"{first} and {second} have different features: they cannot be compared")
    same = not any(tables) and _dataset(first) == _dataset(second)
    if not same and not all(tables):
        notes.append("the labels of the two sets mean different things, or one has none: they are not used")
    return Sides(here, there, schema, same, tuple(dict.fromkeys(notes)))


def _molecules(file: str, smiles: str, notes: list[str]) -> tuple[PackedGraphs, Schema]:
    """A table of molecules without labels, and its schema; remarks are added to `notes`."""
    from outland.tables.smiles_table import read_unlabelled

    graphs, note = read_unlabelled(file, smiles)
    notes += note
    return graphs, Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS)


def _dataset(name: str) -> str:
    return name.partition(":")[0].partition("/")[0]


def _part(
    name: str, loaded: dict[str, Splits], data: DataFolder | None, cache: Cache | None, seed: int, notes: list[str]
) -> tuple[PackedGraphs, Schema]:
    """A part of a dataset, loaded once for both sides; a domain or kind taken by default is added to `notes`."""
    where, colon, part = name.partition(":")
    words = where.split("/")
    if not (colon and part) or len(words) > 3:
        raise OutlandError(f"'{name}' does not name a set of graphs: {_FORM}")
    source = find_dataset(words[0])
    domain = words[1] if len(words) > 1 else source.domains[0]
    kind = words[2] if len(words) > 2 else source.kinds[0]
    source.check(domain, kind)
    key = f"{words[0]}/{domain}/{kind}"
    if where != key and (note := f"{where} is taken to be {key}") not in notes:
        notes.append(note)
    if key not in loaded:
        loaded[key] = source.load(domain, kind, seed, cache, data)
    splits = loaded[key]
    if part not in splits:
        raise unknown(f"part of {key}", part, splits.parts)
    return splits.part(part), splits.schema
