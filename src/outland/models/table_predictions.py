"""Predictions for a table as it streams by: memory stays flat, rows keep their order, bad rows stay with a reason."""

import csv
import glob
import gzip
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast

import torch
from filelock import FileLock, Timeout

from outland.chem.featurizer import Molecule
from outland.chem.smiles import Chunk, MoleculeOptions, pack_molecules, read_molecules
from outland.errors import CannotWrite, OutlandError
from outland.graphs import PackedGraphs
from outland.models.conformal import LikelihoodRatio
from outland.models.model import TrainedModel
from outland.models.predicted_rows import Coverage, new_columns, predict_molecules, target_suffixes
from outland.models.uncertainty import FEWEST_NEW, shift_ratio
from outland.storage.files import remove_scratch, scratch_path, writable_folder
from outland.tables.duplicates import are_training_rows
from outland.tables.reading import Cells, column_names, read_rows, require_smiles_column

T = TypeVar("T")
_SAMPLE = 500  # new molecules that a shift is measured on


@dataclass
class TableReport:
    """What became of a table.

    Args:
        out: the file written.
        rows, bad: how many rows there were, and how many could not be read; `problems` counts the reasons, and
            `first` says in which row, from 1, each was met first.
        training_rows: how many of the readable rows the model was trained on.
        classes: how many rows were called what, by target.
        flags: how unusual rows are.
        sample: molecules of the table, to measure a shift on.
        weighted: whether sets and intervals are weighted for the shift from training.
    """

    out: Path
    rows: int = 0
    bad: int = 0
    training_rows: int = 0
    first: dict[str, int] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    classes: dict[str, Counter[str]] = field(default_factory=dict)
    flags: Counter[str] = field(default_factory=Counter)
    sample: "Reservoir[Molecule]" = field(default_factory=lambda: Reservoir(_SAMPLE))
    seconds: float = 0.0
    weighted: bool = False

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
    smiles: str = "smiles",
    force: bool = False,
    workers: int | None = None,
    coverage: float | None = None,
) -> TableReport:
    """Write a copy of a table with a prediction beside each row.

    Args:
        model: of molecules.
        path: the table.
        out: the copy, a CSV file; gzip'd if its name ends in `.gz`.
        smiles: the column of SMILES.
        force: replace `out` if it exists.
        workers: processes that read molecules; by default one a core for large tables.
        coverage: how often sets of classes, or intervals of numbers, are to hold the truth; by default classes get no
            sets, and intervals hold it in 90 %.
    """
    started = time.perf_counter()
    asked = Coverage(coverage)
    _check_table(model, path, out, smiles, force, asked)
    if (coverage is not None or not model.classes) and model.conformal is not None:
        asked = Coverage(coverage, _table_ratio(model, path, smiles))
    report = TableReport(out, weighted=asked.ratio is not None)
    rows, again = tee(read_rows(path))
    texts = (row.get(smiles, "") for row in rows)
    with written_csv(out, [*column_names(path), *new_columns(model, asked)]) as writer:
        options = MoleculeOptions(scaffold=False, vector=True)
        for chunk in read_molecules(texts, options, f"Predicting {path.name}", workers=workers):
            report.sample.add(chunk.molecules)
            writer.writerows(_predicted_rows(model, chunk, again, report, smiles, asked))
        if report.bad == report.rows:
            reason = report.problems.most_common(1)[0][0]
            raise OutlandError(
                f"none of the {report.rows:,} rows of {path} can be read ({reason}): "
                f"is '{smiles}' its column of SMILES?"
            )
    report.seconds = time.perf_counter() - started
    return report


def check_out(out: Path, force: bool, source: Path | None = None, option: str = "--out") -> None:
    """Refuse a file that rows cannot be written to as CSV."""
    if not out.name.removesuffix(".gz").endswith(".csv"):
        raise OutlandError(f"rows are written as CSV: {option} must end in .csv or .csv.gz, not {out.name}")
    same = out.exists() and source is not None and source.exists() and out.samefile(source)
    if out.exists() and (same or not force):
        hint = f"choose another {option}" if same else f"choose another {option}, or replace it with --force"
        raise OutlandError(f"{out} exists: {hint}")


def _check_table(model: TrainedModel, path: Path, out: Path, smiles: str, force: bool, coverage: Coverage) -> None:
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: name a part of a dataset, as motif/base:test")
    require_smiles_column(path, smiles)
    check_out(out, force, path)
    coverage.check(model)
    taken = set(column_names(path)) & set(new_columns(model, coverage))
    if taken:
        raise OutlandError(f"{path} has a column '{min(taken)}' already: take it away, or predict the original table")


def _table_ratio(model: TrainedModel, path: Path, smiles: str) -> LikelihoodRatio | None:
    """Likelihood ratio of a table's molecules to those that conformal scores are of, by a sample of its rows."""
    if model.conformal is None or model.conformal.features is None:
        return None
    sample = Reservoir[str](2 * _SAMPLE)
    sample.add([row.get(smiles, "") for row in read_rows(path)])
    chunks = read_molecules(sample.items, MoleculeOptions(scaffold=False, vector=True), f"Sampling {path.name}")
    molecules = [molecule for chunk in chunks for molecule in chunk.molecules]
    if len(molecules) < FEWEST_NEW:
        return None
    return shift_ratio(model, pack_molecules(molecules, torch.zeros(len(molecules), 1)).extra["descriptors"])


@contextmanager
def written_csv(out: Path, names: list[str]) -> Iterator["csv.DictWriter[str]"]:
    """A CSV file with a header that is whole or absent. Bytes that are not UTF-8 go out as they came in."""
    writable_folder(out.parent)
    lock = out.with_name(f".{out.name}.lock")
    scratch = scratch_path(out)
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
    try:
        with FileLock(lock, timeout=0):
            try:
                remove_scratch(out.parent, glob.escape(out.name))
                with cast(IO[str], (gzip.open if out.suffix == ".gz" else open)(scratch, "xt", **text)) as stream:
                    writer = csv.DictWriter(stream, names, extrasaction="ignore")
                    writer.writeheader()
                    yield writer
                scratch.replace(out)
            finally:
                scratch.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
    except Timeout:
        raise OutlandError(f"another process is writing {out}: choose another --out, or wait for it") from None
    except OSError as problem:
        raise CannotWrite(f"cannot write {out}: {problem.strerror or problem}") from None


def _predicted_rows(
    model: TrainedModel, chunk: Chunk, rows: Iterator[Cells], report: TableReport, smiles: str, coverage: Coverage
) -> Iterator[Cells]:
    """The rows of a chunk with the model's predictions."""
    failures = dict(chunk.failures)
    predicted = iter(predict_molecules(model, chunk.molecules, coverage))
    table_rows = list(islice(rows, len(chunk.indices) + len(failures)))
    known = are_training_rows([row.get(smiles, "") for row in table_rows], model.training_hashes)
    for index, (row, is_training) in enumerate(zip(table_rows, known, strict=True), _first_row(chunk)):
        report.rows += 1
        prediction: Cells = {"outland_problem": failures[index]} if index in failures else next(predicted)
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
    for target, suffix in zip(model.targets, target_suffixes(model), strict=True):
        if model.classes:
            report.classes.setdefault(target, Counter())[prediction[f"outland_class{suffix}"]] += 1


def _first_row(chunk: Chunk) -> int:
    return min([*chunk.indices[:1], *(index for index, _ in chunk.failures[:1])])


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
