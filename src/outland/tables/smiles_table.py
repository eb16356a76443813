"""Any table of SMILES that a person brings: graphs, labels, splits, and a list of the rows that could not be used."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import chain, tee
from pathlib import Path
from typing import Any, ClassVar

import torch

from outland.chem.featurizer import ATOMS, BONDS, rdkit_version
from outland.chem.smiles import MoleculeOptions, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs, Schema, Splits
from outland.graphs.dataset import Dataset
from outland.graphs.shards import Shards
from outland.storage.files import write_text
from outland.storage.raw_files import DataFolder
from outland.tables.labels import survey
from outland.tables.reading import decimal_comma, need, read_rows
from outland.tables.rows import UsableRows
from outland.tables.settings import TableSettings
from outland.tables.splitting import (
    Parts,
    at_random,
    by_group,
    by_size,
    by_time,
    by_words,
    grouped_environments,
    size_environments,
)


class SmilesTable(Dataset):
    """A user's table. Rows that cannot be used are set aside with row, column, value and reason, never dropped unsaid.

    Args:
        settings: the table and its columns.
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "your own table of SMILES: give its file name"
    domains: ClassVar[tuple[str, ...]] = ("scaffold", "size", "cluster", "random", "time", "column")

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings.opened()

    def check(self, domain: str, kind: str) -> None:
        """Refuse a split whose column was not named."""
        super().check(domain, kind)
        for name in ("time", "column"):
            option = "split" if name == "column" else name
            if domain == name and getattr(self.settings, option) is None:
                raise OutlandError(f"the split '{name}' needs a column: name it with --{option}")

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The table under one split."""
        self.check(domain, kind)
        columns = {name: value for name, value in asdict(self.settings).items() if name not in ("file", "strict")}
        name = f"table-{Path(self.settings.file).name.split('.')[0]}"
        recipe = {"name": name, "cluster": domain == "cluster", "rdkit": rdkit_version(), "recipe": 3, **columns}

        def build() -> Iterator[tuple[Mapping[str, Any], Splits]]:
            yield recipe, self._read(recipe)

        found = (cache or Cache()).load_or_build(recipe, build)
        if self.settings.strict and found.source["quarantine"]:
            row, column, value, reason = found.source["quarantine"][0]
            count = len(found.source["quarantine"])
            raise OutlandError(
                f"{count} rows cannot be used; the first: row {row}, column '{column}': {reason} ({value!r})"
            )
        return self._split(found, domain, seed)

    def smiles(self, graphs: PackedGraphs, data: DataFolder) -> list[str]:
        """The SMILES of these graphs, from the table."""
        wanted = set(graphs.extra["row"].tolist())
        rows = enumerate(read_rows(Path(self.settings.file)), 1)
        found = {place: row[self.settings.smiles] for place, row in rows if place in wanted}
        return [found[row] for row in graphs.extra["row"].tolist()]

    def _read(self, recipe: dict[str, Any]) -> Splits:
        path = Path(self.settings.file)
        labels = survey(read_rows(path), self.settings.targets, self.settings.task, decimal_comma(path))
        usable = UsableRows(self.settings, labels)
        _take(usable, MoleculeOptions(canonical=True, fingerprint=recipe["cluster"]))
        graphs = usable.graphs()
        about = {**recipe, **usable.findings(), "classes": list(labels.classes), "task": asdict(labels.task)}
        schema = Schema(ATOMS, labels.task, BONDS)
        return Splits(graphs, {"all": torch.arange(len(graphs))}, schema, about)

    def _split(self, found: Splits, domain: str, seed: int) -> Splits:
        graphs, settings = found.graphs, self.settings
        parts = _parts(graphs, domain, seed, settings, found.source)
        for part in ("train", "val", "test"):
            if not len(parts.get(part, ())):
                reasons = Counter(refusal[-1] for refusal in found.source["quarantine"])
                aside = "".join(f"; set aside: {number} rows ({why})" for why, number in reasons.most_common(2))
                raise OutlandError(
                    f"the split by {domain} leaves none of {len(graphs)} rows for '{part}': "
                    f"too few rows, or too many of one kind; try --domain random{aside}"
                )
        train = parts["train"]
        environment = None if graphs.environment is None else _training_first(graphs.environment, train)
        if environment is None and domain in ("scaffold", "cluster"):
            environment = grouped_environments(graphs.extra[domain], train)
        elif environment is None:
            environment = size_environments(graphs.node_counts, train)
        count = len(environment[train].unique())
        source = {
            **found.source,
            "dataset": Path(settings.file).name,
            "domain": domain,
            "kind": "none" if domain == "random" else "covariate",
            "seed": seed,
            "environments": "column" if graphs.environment is not None else domain if domain in _GROUPED else "size",
        }
        return Splits(
            replace(graphs, environment=environment), parts, replace(found.schema, environments=count), source
        )


_GROUPED = ("scaffold", "cluster")


def _training_first(environment: torch.Tensor, train: torch.Tensor) -> torch.Tensor:
    """The same environments, numbered so that those of the training part come first."""
    known = set(environment[train].tolist())
    order = [*sorted(known), *sorted(set(environment.tolist()) - known)]
    numbers = {name: number for number, name in enumerate(order)}
    return torch.tensor([numbers[name] for name in environment.tolist()])


def _parts(graphs: PackedGraphs, domain: str, seed: int, settings: TableSettings, source: Mapping[str, Any]) -> Parts:
    match domain:
        case "scaffold" | "cluster":
            return by_group(graphs.extra[domain])
        case "size":
            return by_size(graphs.node_counts)
        case "random":
            return at_random(graphs.extra["molecule"], seed)
        case "time":
            return by_time(graphs.extra["time"])
        case _:
            words = [source["split_words"][code] for code in graphs.extra["split"].tolist()]
            return by_words(words, settings.split or "")


def _take(usable: UsableRows, wanted: MoleculeOptions) -> None:
    """Read all rows of a table."""
    path = Path(usable.settings.file)
    rows, again = tee(read_rows(path))
    for chunk in read_molecules((row[usable.settings.smiles] for row in rows), wanted, f"Reading {path.name}"):
        usable.take(chunk, again)


def read_labelled(files: list[str], settings: TableSettings) -> tuple[list[PackedGraphs], Schema, list[str]]:
    """The molecules of several tables with the same columns, whose labels are read as those of one table.

    Returns:
        Each table's graphs, what their numbers mean, and a note for each table that has rows that cannot be used.
    """
    tables = [replace(settings, file=file).opened() for file in files]
    paths = [Path(file) for file in files]
    rows = chain.from_iterable(read_rows(path) for path in paths)
    labels = survey(rows, settings.targets, settings.task, all(decimal_comma(path) for path in paths))
    found, notes = [], []
    for table, path in zip(tables, paths, strict=True):
        usable = UsableRows(table, labels)
        _take(usable, MoleculeOptions(scaffold=True, canonical=True))
        found.append(usable.graphs())
        if usable.refused:
            row, _, value, reason = usable.refused[0]
            notes.append(
                f"{path.name}: {len(usable.refused)} rows set aside; the first: row {row}, {reason} ({value!r})"
            )
    return found, Schema(ATOMS, labels.task, BONDS), notes


def read_unlabelled(file: str, smiles: str) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table that has no labels, or whose labels are of no interest; and a note on other rows."""
    path = Path(file)
    need(path, [smiles])
    sets, failures = Shards(), []
    for chunk in read_molecules(
        (row[smiles] for row in read_rows(path)), MoleculeOptions(scaffold=False), f"Reading {path.name}"
    ):
        failures += chunk.failures
        if chunk.molecules:
            sets.add(pack_molecules(chunk.molecules, torch.full((len(chunk.molecules), 1), torch.nan)))
    if not failures:
        return sets.joined(), []
    first = f"row {failures[0][0] + 1}, {failures[0][1]}"
    if not sets:
        raise OutlandError(f"no row of {file} can be used; the first: {first}")
    return sets.joined(), [f"{path.name}: {len(failures)} rows set aside; the first: {first}"]


def write_quarantine(splits: Splits, path: Path) -> int:
    """Write the rows that could not be used as a table; how many they are."""
    refused = splits.source.get("quarantine", [])
    if refused:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["row", "column", "value", "reason"])
        writer.writerows(refused)
        write_text(path, text.getvalue())
    return len(refused)
