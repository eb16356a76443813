"""A table predicted as it streams by: memory stays flat, rows keep their order, bad rows stay with a reason."""

import csv
import glob
import gzip
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from typing import IO, Any, cast

import torch
from filelock import FileLock, Timeout

from outland.chem.featurizer import Molecule
from outland.chem.smiles import Chunk, MoleculeOptions, pack_molecules, read_molecules
from outland.errors import CannotWrite, OutlandError
from outland.estimators.base import QUICK_SHIFT
from outland.estimators.model import FittedModel
from outland.estimators.seen import were_seen
from outland.graphs import PackedGraphs
from outland.shift import ShiftResult, measure_shift
from outland.storage.files import remove_scratch, scratch_path, writable_folder
from outland.tables.reading import Cells, column_names, read_rows, require_smiles_column

_SAMPLE = 500  # new molecules that the shift is measured on
_FEWEST = 20


@dataclass
class TableReport:
    """What became of a table.

    Args:
        out: the file written.
        rows, bad: how many rows there were, and how many could not be read; `problems` counts the reasons, and
            `first` says in which row, from 1, each was met first.
        seen: how many of the readable rows the model was trained with.
        classes, flags: how many rows were called what, and how unusual they are.
        shift: from the model's training graphs to a sample of the table; None where that was not measured.
    """

    out: Path
    rows: int = 0
    bad: int = 0
    seen: int = 0
    first: dict[str, int] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    shift: ShiftResult | None = None
    seconds: float = 0.0

    def share(self, *flags: str) -> float:
        """Share of the readable rows with one of these flags."""
        return sum(self.flags[flag] for flag in flags) / max(1, self.rows - self.bad)


def new_columns(model: FittedModel) -> list[str]:
    """The columns that a prediction adds."""
    answer = ["outland_probability", "outland_class"] if model.classes else ["outland_prediction"]
    return [*answer, "outland_distance", "outland_flag", "outland_problem"]


def predict_table(
    model: FittedModel,
    path: Path,
    out: Path,
    *,
    smiles: str = "smiles",
    shift: bool = True,
    force: bool = False,
    workers: int | None = None,
) -> TableReport:
    """Write a copy of a table with a prediction beside each row.

    Args:
        model: of molecules.
        path: the table.
        out: the copy, a CSV file; gzip'd if its name ends in `.gz`.
        smiles: the column of SMILES.
        shift: measure how far the table is from the training molecules.
        force: replace `out` if it exists.
        workers: processes that read molecules; by default one a core for large tables.
    """
    started = time.perf_counter()
    _check(model, path, out, smiles, force)
    report, reservoir = TableReport(out), Reservoir(_SAMPLE)
    rows, again = tee(read_rows(path))
    texts = (row.get(smiles, "") for row in rows)
    with _written(out) as stream:
        writer = csv.DictWriter(stream, [*column_names(path), *new_columns(model)], extrasaction="ignore")
        writer.writeheader()
        wanted = MoleculeOptions(scaffold=False)
        for chunk in read_molecules(texts, wanted, f"Predicting {path.name}", workers=workers):
            reservoir.see(chunk.molecules)
            writer.writerows(_answered(model, chunk, again, report, smiles))
        if report.bad == report.rows:
            reason = report.problems.most_common(1)[0][0]
            raise OutlandError(
                f"none of the {report.rows:,} rows of {path} can be read ({reason}): "
                f"is '{smiles}' its column of SMILES?"
            )
    if shift and len(reservoir.kept) >= _FEWEST:
        report.shift = measured(model, reservoir.graphs())
    report.seconds = time.perf_counter() - started
    return report


def measured(model: FittedModel, graphs: PackedGraphs) -> ShiftResult:
    """How far graphs are from the training graphs kept with the model."""
    return measure_shift(model.sample, graphs, schema=model.schema, labels=False, settings=QUICK_SHIFT)


def _check(model: FittedModel, path: Path, out: Path, smiles: str, force: bool) -> None:
    if model.kind != "molecules":
        raise OutlandError("this model reads graphs, not molecules: use it from Python")
    require_smiles_column(path, smiles)
    if not out.name.removesuffix(".gz").endswith(".csv"):
        raise OutlandError(f"predictions are written as CSV: --out must end in .csv or .csv.gz, not {out.name}")
    if out.exists() and (not force or out.samefile(path)):
        hint = "choose another --out" if out.samefile(path) else "choose another --out, or replace it with --force"
        raise OutlandError(f"{out} exists: {hint}")
    taken = set(column_names(path)) & set(new_columns(model))
    if taken:
        raise OutlandError(f"{path} has a column '{min(taken)}' already: take it away, or predict the original table")


@contextmanager
def _written(out: Path) -> Iterator[IO[str]]:
    """A file that is whole or absent. Bytes that are not UTF-8 go out as they came in."""
    writable_folder(out.parent)
    lock = out.with_name(f".{out.name}.lock")
    place = scratch_path(out)
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
    try:
        with FileLock(lock, timeout=0):
            try:
                remove_scratch(out.parent, glob.escape(out.name))
                with cast(IO[str], (gzip.open if out.suffix == ".gz" else open)(place, "xt", **text)) as stream:
                    yield stream
                place.replace(out)
            finally:
                place.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
    except Timeout:
        raise OutlandError(f"another process is writing {out}: choose another --out, or wait for it") from None
    except OSError as problem:
        raise CannotWrite(f"cannot write {out}: {problem.strerror or problem}") from None


def _answered(
    model: FittedModel, chunk: Chunk, rows: Iterator[Cells], report: TableReport, smiles: str
) -> Iterator[Cells]:
    """The rows of a chunk with what the model says."""
    failures = dict(chunk.failures)
    said = iter(answers_of(model, chunk.molecules))
    own = list(islice(rows, len(chunk.indices) + len(failures)))
    known = were_seen([row.get(smiles, "") for row in own], model.seen)
    for place, (row, seen) in enumerate(zip(own, known, strict=True), chunk_start(chunk)):
        reason = failures.get(place)
        report.rows += 1
        if reason is not None:
            report.bad += 1
            report.problems[reason] += 1
            report.first.setdefault(reason, place + 1)
            yield {**row, "outland_problem": reason}
            continue
        answer = next(said)
        report.seen += seen
        report.flags[answer["outland_flag"]] += 1
        report.classes[answer.get("outland_class", "")] += 1
        yield {**row, **answer}


def chunk_start(chunk: Chunk) -> int:
    """The place of a chunk's first row."""
    return min([*chunk.indices[:1], *(place for place, _ in chunk.failures[:1])])


def answers_of(model: FittedModel, molecules: list[Molecule]) -> list[Cells]:
    """What the model says of molecules, as the columns it adds."""
    if not molecules:
        return []
    answers = model.answer(pack_molecules(molecules, torch.zeros(len(molecules), 1)))
    flags, distances = model.familiar.flags(answers.distances), answers.distances.tolist()
    if not model.classes:
        said = [{"outland_prediction": f"{one:.6g}"} for one in model.numbers(answers)]
    else:
        probabilities, chosen = model.probabilities(answers), model.decisions(answers)
        shown = probabilities[:, 1] if len(model.classes) == 2 else probabilities[range(len(chosen)), chosen]
        said = [
            {"outland_probability": f"{one:.6f}", "outland_class": str(model.classes[place])}
            for one, place in zip(shown, chosen, strict=True)
        ]
    unusual = (
        {"outland_distance": f"{one:.4f}", "outland_flag": flag} for one, flag in zip(distances, flags, strict=True)
    )
    return [{**one, **other} for one, other in zip(said, unusual, strict=True)]


class Reservoir:
    """A sample of a stream of unknown length, every item with the same chance to be in it."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.seen = size, 0
        self.kept: list[Molecule] = []
        self._random = random.Random(seed)

    def see(self, molecules: list[Molecule]) -> None:
        """Molecules go by."""
        for molecule in molecules:
            self.seen += 1
            if len(self.kept) < self.size:
                self.kept.append(molecule)
            elif (place := self._random.randrange(self.seen)) < self.size:
                self.kept[place] = molecule

    def graphs(self) -> PackedGraphs:
        """The sample, packed."""
        return pack_molecules(self.kept, torch.zeros(len(self.kept), 1))
