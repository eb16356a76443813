"""Sets of graphs by name: a part of a benchmark, or a table of molecules."""

from dataclasses import dataclass

from outland.chem.featurizer import ATOMS, BONDS, CIP_ATOMS
from outland.datasets import DataFolder, PartName, TableSettings, is_table, select_part
from outland.errors import OutlandError
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task


@dataclass(frozen=True)
class Sides:
    """Two sets of graphs, and what a person should know about them."""

    first: PackedGraphs
    second: PackedGraphs
    schema: Schema
    labels: bool  # whether both have labels of the same meaning
    notes: tuple[str, ...] = ()


def find_sides(
    first: str,
    second: str,
    table: TableSettings | None = None,
    data: DataFolder | None = None,
    cache: Cache | None = None,
    seed: int = 123,
) -> Sides:
    """Load the two sets of these names.

    A name is `DATASET[/DOMAIN[/KIND]]:PART`, or the file of a table of SMILES, with columns as in `table`; without
    targets tables are compared without labels. `seed` is of a dataset's generator or splitter.
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
    atoms = CIP_ATOMS if all(tables) else ATOMS  # as of parts of datasets
    sides = [
        _molecules(name, columns.smiles, atoms, notes) if is_file else _part(name, loaded, data, cache, seed, notes)
        for name, is_file in zip((first, second), tables, strict=True)
    ]
    (here, schema), (there, other) = sides
    if (schema.node, schema.edge) != (other.node, other.edge):
        raise OutlandError(f"{first} and {second} have different features: they cannot be compared")
    same = not any(tables) and _dataset(first) == _dataset(second)
    if not same and not all(tables):
        notes.append("the labels of the two sets mean different things, or one has none: they are not used")
    return Sides(here, there, schema, same, tuple(dict.fromkeys(notes)))


def _molecules(file: str, smiles: str, atoms: Features, notes: list[str]) -> tuple[PackedGraphs, Schema]:
    """A table of molecules without labels, and its schema; remarks are added to `notes`."""
    from outland.tables.smiles_table import read_unlabelled

    graphs, note = read_unlabelled(file, smiles, atoms)
    notes += note
    return graphs, Schema(atoms, Task("binary", 1, "rocauc"), BONDS)


def _dataset(name: str) -> str:
    return name.partition(":")[0].partition("/")[0]


def _part(
    name: str, loaded: dict[str, Splits], data: DataFolder | None, cache: Cache | None, seed: int, notes: list[str]
) -> tuple[PackedGraphs, Schema]:
    """A part of a dataset, loaded once for both sides; a domain or kind taken by default is added to `notes`."""
    part, where = PartName.parse(name), name.partition(":")[0]
    if where != part.splits and (note := f"{where} is taken to be {part.splits}") not in notes:
        notes.append(note)
    if part.splits not in loaded:
        loaded[part.splits] = part.load(seed, cache, data)
    splits = loaded[part.splits]
    return select_part(splits, part.part, part.splits), splits.schema
