"""Predictions for a table as it streams by: memory stays flat, rows keep their order, bad rows stay with a reason."""

import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch

from outland.chem.featurizer import Molecule
from outland.chem.packing import pack_molecules
from outland.chem.smiles import Batch, Chunk, MoleculeOptions, read_batches, read_molecules
from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.models.conformal import LikelihoodRatio
from outland.models.model import TrainedModel
from outland.models.predicted_rows import Coverage, new_columns, prediction_cells, target_suffixes
from outland.models.scored_rows import MOST_SCORED, ScoredRows
from outland.models.uncertainty import FEWEST_NEW, shift_ratio
from outland.progress import track
from outland.tables.columns import find_smiles_column
from outland.tables.duplicates import text_hash
from outland.tables.reading import (
    Cells,
    column_names,
    read_rows,
    require_smiles_column,
    smiles_text,
    smiles_texts,
    unchanged,
)
from outland.tables.writing import check_out, written_table
from outland.workers import AHEAD, available_cores

T = TypeVar("T")
_SAMPLE = 500  # new molecules that a shift is measured on
_ROWS = 1024  # predicted at once: a few blocks of rows for trees, a few batches for networks
# Of rows read ahead: in one batch, in all, and what a cell takes besides its characters.
_BYTES, _ALL_BYTES, _CELL = 1 << 23, 1 << 28, 100
_VECTORS = MoleculeOptions(scaffold=False, vector=True, counts=False, graph=False)  # fingerprint and descriptors
_NUMBERS = tuple(
    f"outland_{name}"
    for name in ("probability", "prediction", "low", "high", "distance", "similarity", "expected_error")
)


@dataclass
class TableReport:
    """What became of a table.

    Args:
        out: the file written.
        smiles: the column of SMILES.
        rows, bad: how many rows there were, and how many could not be read; `problems` counts the reasons, and
            `first` says in which row, from 1, each was met first.
        training_rows: how many of the readable rows the model was trained on.
        classes: how many rows were called what, by target.
        flags: how unusual rows are.
        unseen: in how many rows there is an element that no training molecule has, by its symbol.
        with_unseen: in how many there is any.
        sample: molecules of the table, to measure a shift on.
        weighted: whether sets and intervals are weighted for the shift from training.
        scored: the labels beside the predictions, where the table has those of all targets.
    """

    out: Path
    smiles: str = ""
    rows: int = 0
    bad: int = 0
    training_rows: int = 0
    first: dict[str, int] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    classes: dict[str, Counter[str]] = field(default_factory=dict)
    flags: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    with_unseen: int = 0
    sample: "Reservoir[Molecule]" = field(default_factory=lambda: Reservoir(_SAMPLE))
    seconds: float = 0.0
    weighted: bool = False
    scored: ScoredRows | None = None

    def sample_graphs(self) -> PackedGraphs:
        """The sample, packed."""
        return pack_molecules(self.sample.items, torch.zeros(len(self.sample.items), 1))

    def share(self, *flags: str) -> float:
        """Share of the readable rows with one of these flags."""
        return sum(self.flags[flag] for flag in flags) / max(1, self.rows - self.bad)


def predict_table(
    model: TrainedModel,
    path: Path,
    out: Path,
    *,
    smiles: str = "",
    force: bool = False,
    safe: bool = False,
    workers: int | None = None,
    coverage: float | None = None,
    graphs: bool = False,
) -> TableReport:
    """Write a copy of a table with a prediction beside each row.

    Args:
        model: of molecules.
        path: the table.
        out: the copy, in the format that its name ends in; `-` is CSV on standard output.
        smiles: the column of SMILES; by default that of the training, else the one that can be read as such.
        force: replace `out` if it exists.
        safe: put an apostrophe before CSV cells that a spreadsheet would take for formulas.
        workers: processes that read molecules; by default one a core for large tables.
        coverage: how often sets of classes, or intervals of numbers, are to hold the truth; by default classes get no
            sets, and intervals hold it in 90 %.
        graphs: whether the report's sample needs atoms and bonds even where the model reads none (trees do not).

    The table is read once; where scores are weighted for a shift, a sample of its molecules is taken before.
    """
    started = time.perf_counter()
    asked = Coverage(coverage)
    smiles = _check_table(model, path, out, smiles, force, asked)
    with unchanged(path):
        if (coverage is not None or not model.classes) and model.conformal is not None:
            asked = Coverage(coverage, _table_ratio(model, path, smiles))
        report, names, added = TableReport(out, smiles), column_names(path), new_columns(model, asked)
        report.weighted = asked.ratio is not None
        report.scored = ScoredRows(model, path) if set(model.targets) <= set(names) else None
        numbers = [name for name in added if name.startswith(_NUMBERS)]
        with written_table(out, [*names, *added], smiles, safe, numbers) as write:
            rows, training = deque[Cells](), set(model.training_hashes.tolist())
            options = _options(model, graphs, report.scored is not None)
            batches = _batches(path, smiles, rows, available_cores() if workers is None else workers)
            chunks = read_batches(batches, options, workers)
            for chunk in track(chunks, f"Predicting {path.name}", None):
                report.sample.add(chunk.molecules)
                for row in _predicted_rows(model, chunk, rows, report, training, asked):
                    write(row)
            _check_any(report, path, smiles)
    report.seconds = time.perf_counter() - started
    return report


def _options(model: TrainedModel, graphs: bool, is_labelled: bool) -> MoleculeOptions:
    """What the model reads of a molecule, and its scaffold where rows are scored."""
    return replace(
        _VECTORS,
        scaffold=is_labelled,
        most_scaffolds=MOST_SCORED,
        graph=graphs or model.network is not None,
        counts=model.reads_counts,
        atoms=model.schema.node,
    )


def _batches(path: Path, smiles: str, rows: deque[Cells], workers: int) -> Iterator[Batch]:
    """The SMILES of a table in batches of a thousand, or fewer where rows are long; the rows are added to `rows`."""
    batch, size, most = Batch(), 0, min(_BYTES, _ALL_BYTES // (AHEAD * max(1, workers)))
    for index, row in enumerate(read_rows(path)):
        rows.append(row)
        batch.append((index, smiles_text(row, smiles)))
        size += _CELL * len(row) + sum(map(len, row.values()))
        if len(batch) == _ROWS or size > most:
            yield batch
            batch, size = Batch(), 0
    if batch:
        yield batch


def _check_any(report: TableReport, path: Path, smiles: str) -> None:
    """Refuse a table of which no row can be read."""
    if report.bad == report.rows:
        reason = report.problems.most_common(1)[0][0]
        raise OutlandError(
            f"none of the {report.rows:,} rows of {path} can be read ({reason}): is '{smiles}' its column of SMILES?"
        )


def _check_table(model: TrainedModel, path: Path, out: Path, smiles: str, force: bool, coverage: Coverage) -> str:
    """The table's column of SMILES; refuse a table that cannot be predicted, or written."""
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: name a part of a dataset, as motif/base:test")
    smiles = smiles or find_smiles_column(path, model.targets, trained_column(model))
    require_smiles_column(path, smiles)
    check_out(out, force, path)
    coverage.check(model)
    taken = set(column_names(path)) & set(new_columns(model, coverage))
    if taken:
        raise OutlandError(f"{path} has a column '{min(taken)}' already: take it away, or predict the original table")
    return smiles


def trained_column(model: TrainedModel) -> str:
    """The column of SMILES of the table that the model was trained on; empty where there was none."""
    return model.spec.table.smiles if model.spec.table is not None else ""


def _table_ratio(model: TrainedModel, path: Path, smiles: str) -> LikelihoodRatio | None:
    """Likelihood ratio of a table's molecules to those that conformal scores are of, by a sample of its rows."""
    if model.conformal is None or model.conformal.features is None:
        return None
    sample = Reservoir[str](2 * _SAMPLE)
    sample.add(smiles_texts(path, smiles))
    chunks = read_molecules(sample.items, _VECTORS, f"Sampling {path.name}")
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    if len(molecules) < FEWEST_NEW:
        return None
    return shift_ratio(model, pack_molecules(molecules, torch.zeros(len(molecules), 1)).extra["descriptors"])


def _predicted_rows(
    model: TrainedModel,
    chunk: Chunk,
    rows: deque[Cells],
    report: TableReport,
    training: set[int],
    coverage: Coverage,
) -> Iterator[Cells]:
    """The rows of a chunk with the model's predictions; `training` are hashes of the rows it was trained on."""
    failures, cells = dict(chunk.failures), list[Cells]()
    if chunk.molecules:
        predictions = model.predict(pack_molecules(chunk.molecules, torch.zeros(len(chunk.molecules), 1)))
        cells = prediction_cells(model, predictions, coverage)
        if report.scored is not None:
            labelled = (rows[index - report.rows] for index in chunk.indices)
            report.scored.add(labelled, chunk.indices, chunk.scaffolds, predictions)
    predicted = iter(cells)
    for index in sorted([*chunk.indices, *failures]):
        row = rows.popleft()
        report.rows += 1
        prediction: Cells = {"outland_problem": failures[index]} if index in failures else next(predicted)
        is_training = text_hash(row.get(report.smiles, "")) in training
        report.training_rows += is_training and "outland_problem" not in prediction
        count_prediction(model, prediction, report, index)
        yield {**row, **prediction}


def count_prediction(model: TrainedModel, prediction: Cells, report: TableReport, index: int = 0) -> None:
    """Add a predicted row, or one with a problem, to the counts of a report."""
    reason = prediction.get("outland_problem")
    if reason:
        report.bad += 1
        report.problems[reason] += 1
        report.first.setdefault(reason, index + 1)
        return
    report.flags[prediction.get("outland_flag", "")] += 1
    unseen = prediction.get("outland_unseen_elements", "").split()
    report.unseen.update(unseen)
    report.with_unseen += bool(unseen)
    for target, suffix in zip(model.targets, target_suffixes(model), strict=True):
        if model.classes:
            report.classes.setdefault(target, Counter())[prediction[f"outland_class{suffix}"]] += 1


class Reservoir(Generic[T]):
    """A uniform sample of a stream of unknown length."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.count = size, 0
        self.items: list[T] = []
        self._generator = random.Random(seed)

    def add(self, items: Iterable[T]) -> None:
        """Offer more of the stream."""
        for item in items:
            self.count += 1
            if len(self.items) < self.size:
                self.items.append(item)
            elif (index := self._generator.randrange(self.count)) < self.size:
                self.items[index] = item
