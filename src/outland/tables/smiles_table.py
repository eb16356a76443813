"""A user's table of SMILES as a dataset: graphs, labels, splits, environments, and a quarantine of unusable rows."""

from collections import Counter
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

import torch

from outland.chem.featurizer import BONDS, CIP_ATOMS, VECTOR
from outland.chem.packing import pack_molecules
from outland.chem.prepared import load_molecules
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.errors import OutlandError, counted
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits
from outland.graphs.cache import Key
from outland.graphs.dataset import Dataset
from outland.graphs.shards import Shards
from outland.storage.raw_files import DataFolder
from outland.tables.columns import find_smiles_column
from outland.tables.labels import LabelReader, infer_labels
from outland.tables.reading import has_decimal_comma, read_rows, require_columns, smiles_texts, unchanged
from outland.tables.rows import QuarantinedRow, RowCollector
from outland.tables.settings import TableSettings
from outland.tables.splitting import MOLECULE_GROUPS, Parts, assign_environments, split_by_name, split_rows


class SmilesTable(Dataset):
    """A user's table. Rows that cannot be used go to quarantine with row, column, value and reason."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "your own table of SMILES: give its file name"
    domains: ClassVar[tuple[str, ...]] = ("scaffold", "size", "cluster", "random", "time", "column")

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings.opened() if settings.sha256 is None else settings

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
        return self._split(self._rows(domain, cache), domain, seed)

    def load_with_descriptors(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """As `load`: the molecules of every table have descriptors."""
        return self.load(domain, kind, seed, cache, data)

    def load_rows(self, domain: str, kind: str, cache: Cache | None = None) -> Splits:
        """All usable rows to learn from, as the part `train`, with environments as the user named them, if any.

        Under the domain `column` the rows that the user calls `test` are a part of their own.
        """
        self.check(domain, kind)
        table = self._rows(domain, cache)
        parts = {"train": torch.arange(len(table.graphs))}
        if domain == "column":
            parts = self._named_parts(table)
            parts["train"] = torch.cat([parts.pop(name) for name in [*parts] if name != "test"]).sort().values
        source = {**table.source, "dataset": Path(self.settings.file).name, "domain": domain, "kind": kind}
        return replace(table, parts=parts, source=source)

    def _rows(self, domain: str, cache: Cache | None) -> Splits:
        """All usable rows as one part, from the cache where they were read before."""
        columns = {name: value for name, value in asdict(self.settings).items() if name not in ("file", "strict")}
        name = f"table-{Path(self.settings.file).name.split('.')[0]}"
        recipe = {"name": name, "cluster": domain == "cluster", "recipe": 5, **VECTOR, **columns}
        table = load_molecules(cache or Cache(), recipe, self._read, has_raw=True)
        quarantine = table.source["quarantine"]
        if self.settings.strict and quarantine:
            raise OutlandError(f"{len(quarantine)} rows cannot be used; the first: {QuarantinedRow(*quarantine[0])}")
        return table

    def _named_parts(self, table: Splits) -> Parts:
        """The parts that the user's column names."""
        names = [table.source["split_words"][code] for code in table.graphs.extra["split"].tolist()]
        parts = split_by_name(names, self.settings.split or "")
        _check_parts(parts, "column", table)
        return parts

    def smiles(self, graphs: PackedGraphs, data: DataFolder) -> list[str]:
        """The SMILES of these graphs, from the table."""
        indices = graphs.extra["row"].tolist()
        self._check_file()
        rows = enumerate(read_rows(Path(self.settings.file), [self.settings.smiles]), 1)
        selected = set(indices)
        texts = {index: row[self.settings.smiles] for index, row in rows if index in selected}
        return [texts[index] for index in indices]

    def _check_file(self) -> None:
        """Refuse another file than the one that was opened first; a prepared table does not need its file."""
        if self.settings.opened().sha256 != self.settings.sha256:
            raise OutlandError(
                f"{self.settings.file} has changed since it was first read: begin again with the new one"
            )

    def _read(self, key: Key) -> Splits:
        """All usable rows as one part, with what is known of the table in `source`."""
        self._check_file()
        with unchanged(Path(self.settings.file), self.settings.sha256):
            labels = _infer([self.settings.file], self.settings)
            options = MoleculeOptions(
                canonical=True, fingerprint=key["cluster"], vector=True, atoms=self.settings.atoms
            )
            rows = _collect(self.settings, labels, options)
        graphs = rows.graphs()
        source = {**key, **rows.summary(), "classes": list(labels.classes), "task": asdict(labels.task)}
        schema = Schema(self.settings.atoms, labels.task, BONDS)
        return Splits(graphs, {"all": torch.arange(len(graphs))}, schema, source)

    def _split(self, table: Splits, domain: str, seed: int) -> Splits:
        graphs = table.graphs
        columns = {**graphs.extra, "size": graphs.node_counts}
        parts = self._named_parts(table) if domain == "column" else split_rows(domain, columns, seed)
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


def _infer(files: list[str], settings: TableSettings) -> LabelReader:
    """The reader of the labels of some tables, as of one."""
    paths = [Path(file) for file in files]
    rows = chain.from_iterable(read_rows(path, settings.targets) for path in paths)
    comma = all(map(has_decimal_comma, paths))
    return infer_labels(rows, settings.targets, settings.task, comma, settings.merge_labels, settings.censored)


def _collect(settings: TableSettings, labels: LabelReader, options: MoleculeOptions) -> RowCollector:
    """All rows of a table, which is read twice side by side: molecules are ahead of what else is in their rows."""
    path, collector = Path(settings.file), RowCollector(settings, labels)
    rows = read_rows(path, settings.columns)
    for chunk in read_molecules(smiles_texts(path, settings.smiles), options, f"Reading {path.name}"):
        collector.add(chunk, rows)
    return collector


def read_labelled(files: list[str], settings: TableSettings) -> tuple[list[PackedGraphs], Schema, list[str]]:
    """Each table's graphs, their schema, and notes on unusable rows; labels are read as those of one table."""
    tables = [replace(settings, file=file).opened() for file in files]
    labels = _infer(files, settings)
    read = [read_with_labels(table, labels) for table in tables]
    notes = [note for _, table_notes in read for note in table_notes]
    return [graphs for graphs, _ in read], Schema(settings.atoms, labels.task, BONDS), notes


def read_with_labels(settings: TableSettings, labels: LabelReader) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table whose labels are read by `labels`, and a note if some rows cannot be used."""
    opened = settings.opened()
    with unchanged(Path(settings.file)):
        collector = _collect(opened, labels, MoleculeOptions(canonical=True, vector=True, atoms=settings.atoms))
    if not collector.quarantine:
        return collector.graphs(), []
    row, _, value, reason = collector.quarantine[0]
    name, aside = Path(settings.file).name, counted(len(collector.quarantine), "row")
    return collector.graphs(), [f"{name}: {aside} set aside; the first: row {row}, {reason} ({value!r})"]


def read_unlabelled(file: str, smiles: str = "", atoms: Features = CIP_ATOMS) -> tuple[PackedGraphs, list[str]]:
    """The molecules of a table without their labels, and a note if some rows cannot be used."""
    path = Path(file)
    smiles = smiles or find_smiles_column(path)
    require_columns(path, [smiles])
    shards, failures = Shards(), list[tuple[int, str]]()
    options = MoleculeOptions(scaffold=False, vector=True, atoms=atoms)
    with unchanged(path):
        for chunk in read_molecules(smiles_texts(path, smiles), options, f"Reading {path.name}"):
            failures += chunk.failures
            if chunk.molecules:
                shards.add(pack_molecules(chunk.molecules, torch.full((len(chunk.molecules), 1), torch.nan)))
    if not failures:
        return shards.concatenate(), []
    first = f"row {failures[0][0] + 1}, {failures[0][1]}"
    if not shards:
        raise OutlandError(f"no row of {file} can be used; the first: {first}")
    return shards.concatenate(), [f"{path.name}: {counted(len(failures), 'row')} set aside; the first: {first}"]
