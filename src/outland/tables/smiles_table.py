"""A user's table of SMILES as a dataset: graphs, labels, splits, environments, and a quarantine of unusable rows."""

from collections import Counter
from dataclasses import asdict, replace
from itertools import chain, tee
from pathlib import Path
from typing import ClassVar

import torch

from outland.chem.descriptors import VECTOR
from outland.chem.featurizer import ATOMS, BONDS
from outland.chem.prepared import load_molecules
from outland.chem.smiles import MoleculeOptions, pack_molecules, read_molecules
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs, Schema, Splits
from outland.graphs.cache import Key
from outland.graphs.dataset import Dataset
from outland.graphs.shards import Shards
from outland.storage.raw_files import DataFolder
from outland.tables.labels import LabelReader, infer_labels
from outland.tables.reading import has_decimal_comma, read_rows, require_columns
from outland.tables.rows import QuarantinedRow, RowCollector
from outland.tables.settings import TableSettings
from outland.tables.splitting import MOLECULE_GROUPS, Parts, assign_environments, split_by_name, split_rows


class SmilesTable(Dataset):
    """A user's table. Rows that cannot be used go to quarantine with row, column, value and reason."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "your own table of SMILES: give its file name"
    domains: ClassVar[tuple[str, ...]] = ("scaffold", "size", "cluster", "random", "time", "column")

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings.opened()
        if settings.sha256 not in (None, self.settings.sha256):
            raise OutlandError(f"{settings.file} has changed since it was first read: begin again with the new one")

    def check(self, domain: str, kind: str) -> None:
        """Refuse a split whose column was not named."""
        super().check(domain, kind)
        option = {"time": "time", "column": "split"}.get(domain)
        if option and getattr(self.settings, option) is None:
            raise OutlandError(f"the split '{domain}' needs a column: name it with --{option}")

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The table split by `domain`."""
        self.check(domain, kind)
        columns = {name: value for name, value in asdict(self.settings).items() if name not in ("file", "strict")}
        name = f"table-{Path(self.settings.file).name.split('.')[0]}"
        recipe = {"name": name, "cluster": domain == "cluster", "recipe": 4, **VECTOR, **columns}
        table = load_molecules(cache or Cache(), recipe, self._read, has_raw=True)
        quarantine = table.source["quarantine"]
        if self.settings.strict and quarantine:
            raise OutlandError(f"{len(quarantine)} rows cannot be used; the first: {QuarantinedRow(*quarantine[0])}")
        return self._split(table, domain, seed)

    def smiles(self, graphs: PackedGraphs, data: DataFolder) -> list[str]:
        """The SMILES of these graphs, from the table."""
        indices = graphs.extra["row"].tolist()
        rows, selected = enumerate(read_rows(Path(self.settings.file)), 1), set(indices)
        texts = {index: row[self.settings.smiles] for index, row in rows if index in selected}
        return [texts[index] for index in indices]

    def _read(self, key: Key) -> Splits:
        """All usable rows as one part, with what is known of the table in `source`."""
        path = Path(self.settings.file)
        labels = infer_labels(read_rows(path), self.settings.targets, self.settings.task, has_decimal_comma(path))
        rows = _collect(self.settings, labels, MoleculeOptions(canonical=True, fingerprint=key["cluster"], vector=True))
        graphs = rows.graphs()
        source = {**key, **rows.summary(), "classes": list(labels.classes), "task": asdict(labels.task)}
        return Splits(graphs, {"all": torch.arange(len(graphs))}, Schema(ATOMS, labels.task, BONDS), source)

    def _split(self, table: Splits, domain: str, seed: int) -> Splits:
        graphs = table.graphs
        columns = {**graphs.extra, "size": graphs.node_counts}
        if domain == "column":
            names = [table.source["split_words"][code] for code in columns["split"].tolist()]
            parts = split_by_name(names, self.settings.split or "")
        else:
            parts = split_rows(domain, columns, seed)
        _check_parts(parts, domain, table)
        environment, count = assign_environments(domain, columns, parts["train"], graphs.environment)
        divided_by = domain if domain in MOLECULE_GROUPS else "size"
        source = {
            **table.source,
            "dataset": Path(self.settings.file).name,
            "domain": domain,
            "kind": "none" if domain == "random" else "covariate",
            "seed": seed,
            "environments": divided_by if graphs.environment is None else "column",
        }
        schema = replace(table.schema, environments=count)
        return Splits(replace(graphs, environment=environment), parts, schema, source)


def _check_parts(parts: Parts, domain: str, table: Splits) -> None:
    for part in ("train", "val", "test"):
        if not len(parts.get(part, ())):
            reasons = Counter(QuarantinedRow(*row).reason for row in table.source["quarantine"])
            aside = "".join(f"; set aside: {count} rows ({reason})" for reason, count in reasons.most_common(2))
            raise OutlandError(
                f"the split by {domain} leaves none of {len(table.graphs)} rows for '{part}': "
                f"too few rows, or too many of one kind; try --domain random{aside}"
            )


def _collect(settings: TableSettings, labels: LabelReader, options: MoleculeOptions) -> RowCollector:
    """All rows of a table."""
    path, collector = Path(settings.file), RowCollector(settings, labels)
    rows, same_rows = tee(read_rows(path))
    for chunk in read_molecules((row[settings.smiles] for row in rows), options, f"Reading {path.name}"):
        collector.add(chunk, same_rows)
    return collector


def read_labelled(files: list[str], settings: TableSettings) -> tuple[list[PackedGraphs], Schema, list[str]]:
    """Each table's graphs, their schema, and notes on unusable rows; labels are read as those of one table."""
    tables = [replace(settings, file=file).opened() for file in files]
    paths = [Path(file) for file in files]
    rows = chain.from_iterable(map(read_rows, paths))
    labels = infer_labels(rows, settings.targets, settings.task, all(map(has_decimal_comma, paths)))
    read = [read_with_labels(table, labels) for table in tables]
    notes = [note for _, table_notes in read for note in table_notes]
    return [graphs for graphs, _ in read], Schema(ATOMS, labels.task, BONDS), notes


def read_with_labels(settings: TableSettings, labels: LabelReader) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table whose labels are read by `labels`, and a note if some rows cannot be used."""
    collector = _collect(settings.opened(), labels, MoleculeOptions(canonical=True, vector=True))
    if not collector.quarantine:
        return collector.graphs(), []
    row, _, value, reason = collector.quarantine[0]
    name, count = Path(settings.file).name, len(collector.quarantine)
    return collector.graphs(), [f"{name}: {count} rows set aside; the first: row {row}, {reason} ({value!r})"]


def read_unlabelled(file: str, smiles: str) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table without their labels, and a note if some rows cannot be used."""
    path = Path(file)
    require_columns(path, [smiles])
    shards, failures, texts = Shards(), list[tuple[int, str]](), (row[smiles] for row in read_rows(path))
    for chunk in read_molecules(texts, MoleculeOptions(scaffold=False, vector=True), f"Reading {path.name}"):
        failures += chunk.failures
        if chunk.molecules:
            shards.add(pack_molecules(chunk.molecules, torch.full((len(chunk.molecules), 1), torch.nan)))
    if not failures:
        return shards.concatenate(), []
    first = f"row {failures[0][0] + 1}, {failures[0][1]}"
    if not shards:
        raise OutlandError(f"no row of {file} can be used; the first: {first}")
    return shards.concatenate(), [f"{path.name}: {len(failures)} rows set aside; the first: {first}"]
