"""Records that travel: finished runs into one file, and out of it on another machine. Models stay where they are."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from outland.datasets import find_dataset
from outland.errors import CannotWrite, OutlandError, printable
from outland.methods import METHODS, method_settings
from outland.spec import RESULTS, RunSpec, spec_key
from outland.storage.files import read_json
from outland.studies import STUDIES, find_study
from outland.studies.base import Measurement
from outland.studies.record_file import format_line, from_columns, parse_line, read_lines, to_columns, write_lines
from outland.studies.run_store import RunStore
from outland.training import RunRecord
from outland.training.run_folder import RunFolder

_RESULT = {"key", "metric", "curves", "selection", "selected", "masks", "parameters"}
_SEEDS = range(2**63)


class Superseded(OutlandError):
    """The spec of a run gives another key today: settings were added, removed or renamed since."""


@dataclass(frozen=True)
class FinishedRun:
    """A run as it travels: its record, unless nothing was trained, and measurements on top of it by study."""

    spec: RunSpec
    record: RunRecord | None
    measurements: dict[str, Measurement]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the spec and the key, which the record holds too, are there once."""
        record = None
        if self.record is not None:
            record = self.record.model_dump(exclude={"key", "spec"})
            record["curves"] = to_columns(record["curves"])
        measured = {name: asdict(measurement) for name, measurement in self.measurements.items()}
        return {"key": self.spec.key, "spec": self.spec.to_json(), "record": record, "measured": measured}

    @classmethod
    def from_json(cls, plain: Any) -> "FinishedRun":
        """The inverse of `to_json`; an `OutlandError` or a `ValueError` where it is not the result of its spec."""
        try:
            spec = _checked_spec(plain["spec"], plain["key"])
            record = plain["record"]
            if record is not None:
                curves = from_columns(record["curves"])
                record = RunRecord.from_json({**record, "curves": curves, "key": plain["key"], "spec": plain["spec"]})
                _check_results(record)
            measured = {name: Measurement(**values) for name, values in plain["measured"].items()}
        except (ArithmeticError, AttributeError, LookupError, TypeError) as problem:
            raise ValueError(f"it is not of the form of a run: {type(problem).__name__} {problem}") from None
        if not measured.keys() <= set(STUDIES) or (record is None and not measured):
            raise ValueError("it has neither a record nor the measurement of a study")
        return cls(spec, record, measured)


@dataclass
class ExportResult:
    """How many runs were exported, and the names and reasons of those that were left out."""

    exported: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class ImportResult:
    """What became of the runs of a file.

    Args:
        imported: folders of the runs that are new here, or have a new measurement.
        already_here: how many gave the same here.
        different: folders of runs that gave something else here, which stays.
        superseded: how many had settings that have changed since.
        refused: which runs were refused, and why.
    """

    imported: list[str] = field(default_factory=list)
    already_here: int = 0
    different: list[str] = field(default_factory=list)
    superseded: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def export_records(
    out: Path,
    file: Path,
    studies: Sequence[str] = (),
    seeds: int | None = None,
    words: Iterable[str] = (),
    only: Iterable[str] = (),
) -> ExportResult:
    """Write the finished runs in a folder of studies to a file.

    Args:
        out: folder of studies.
        file: to write.
        studies: names of studies, whose rows since the paper count too; without any, all runs are taken.
        seeds, words, only: which runs of these studies, as in `Study.cells`.
    """
    words, only = list(words), list(only)
    cells = [cell for name in studies for cell in find_study(name).with_newer().cells(seeds, words, only)]
    slugs = {spec.slug for cell in cells for spec in cell.specs} if studies else None
    result, lines = ExportResult(), list[str]()
    for folder in sorted(path.parent for path in (out / "runs").glob("*/spec.json")):
        if slugs is None or folder.name in slugs:
            try:
                run = _read_run(folder, studies or STUDIES)
                lines += [] if run is None else [format_line(run.to_json())]
            except (OutlandError, ValueError, OSError) as problem:
                result.left_out.append((folder.name, sentence(problem)))
    if not lines:
        of = f" of {', '.join(studies)} with these settings" if studies else ""
        reason = f" ({result.left_out[0][0]}: {result.left_out[0][1]})" if result.left_out else ""
        raise OutlandError(f"no finished run{of} in {out / 'runs'} can be exported{reason}")
    write_lines(file, lines)
    result.exported = len(lines)
    return result


def _read_run(folder: Path, studies: Iterable[str]) -> FinishedRun | None:
    """The finished run in a folder; None where neither a record nor a measurement is there yet."""
    record_path = folder / "record.json"
    paths = {name: folder / f"measured-{name}.json" for name in studies}
    paths = {name: path for name, path in paths.items() if path.exists()}
    if not record_path.exists() and not paths:
        return None
    record = RunRecord.read(record_path) if record_path.exists() else None
    plain = read_json(folder / "spec.json") if record is None else record.spec
    spec = _checked_spec(plain, spec_key(plain) if record is None else record.key)
    if spec.slug != folder.name:
        raise ValueError(f"it is the run {spec.slug} in another's folder")
    if record is not None:
        _check_results(record)
    stores = {name: RunStore(find_study(name), folder.parent.parent) for name in paths}
    measured = {name: store.measurement(spec) for name, store in stores.items()}
    return FinishedRun(spec, record, {name: value for name, value in measured.items() if value is not None})


def import_records(file: Path, out: Path, compare: bool = True, keys: Collection[str] | None = None) -> ImportResult:
    """Take the runs of a file into a folder of studies, where they are then as if they had been carried out there.

    The file may be anybody's: it is read within limits, nothing in it is executed, and the folder of a run is named by
    its settings, not by the file. What is here already stays, and is not even read without `compare`. With `keys`, only
    the runs with one of these are taken.
    """
    result = ImportResult()
    here = (
        set[str]()
        if compare
        else {path.parent.name.rpartition("-")[2] for path in (out / "runs").glob("*/record.json")}
    )
    for number, line in enumerate(read_lines(file), start=1):
        name = f"run {number}"
        try:
            plain = parse_line(line)
            if keys is not None and not (isinstance(plain, dict) and str(plain.get("key")) in keys):
                continue
            if isinstance(plain, dict) and str(plain.get("key")) in here and not plain.get("measured"):
                result.already_here += 1
                continue
            run = FinishedRun.from_json(plain)
            name = run.spec.slug
            _import_run(run, out, result)
        except Superseded:
            result.superseded += 1
        except CannotWrite:
            raise
        except (OutlandError, ValueError, RecursionError) as problem:
            result.refused.append((name, sentence(problem)))
    return result


def _import_run(run: FinishedRun, out: Path, result: ImportResult) -> None:
    """Write what is new of a run; an error where another process is working in its folder."""
    spec, folder = run.spec, RunFolder(out / "runs", run.spec)
    stores = {name: RunStore(find_study(name), out) for name in run.measurements}
    with folder.claimed(resume=True, force=False):
        record = folder.read_record() if folder.record_path.exists() else None
        measured = {name: store.measurement(spec) for name, store in stores.items()}
        missing = [name for name, measurement in measured.items() if measurement is None]
        pairs = [(run.record, record), *((run.measurements[name], measured[name]) for name in stores)]
        if any(None not in pair and _result(pair[0]) != _result(pair[1]) for pair in pairs):
            result.different.append(spec.slug)  # and a measurement of another model than the one here is of no use
        elif missing or (run.record is not None and record is None):
            if run.record is not None and record is None:
                folder.adopt(run.record)  # first: a measurement alone would later be taken for that of a model here
                (folder.path / "failure.json").unlink(missing_ok=True)
            for name in missing:
                stores[name].save_measurement(spec, run.measurements[name])
                stores[name].failure_path(spec, measuring=True).unlink(missing_ok=True)
            result.imported.append(spec.slug)
        else:
            result.already_here += 1


def _result(result: RunRecord | Measurement | None) -> str:
    """What equal runs have in common, whenever and wherever they are carried out."""
    if isinstance(result, RunRecord):
        return result.model_dump_json(include=_RESULT)
    return "" if result is None else json.dumps(asdict(result))


def _checked_spec(plain: Any, key: str) -> RunSpec:
    """The spec of a run of a benchmark; raises nothing but `OutlandError` and `ValueError`.

    All parts of the name of its folder are then outland's own words, or numbers.
    """
    try:
        if plain["table"] is not None or plain.get("data_checksum") or plain["method"] not in METHODS:
            raise ValueError("only runs of benchmarks, with methods of outland's own, travel")
        if not isinstance(plain["seed"], int) or spec_key(plain) != key:
            raise ValueError("its key is not that of its settings: it is the record of another run")
        if plain["seed"] not in _SEEDS:
            raise ValueError("its seed is not from 0 to 2**63 - 1")
        find_dataset(plain["dataset"]).check(plain["domain"], plain["kind"])
        if plain["preset"]:
            method_settings(f"{plain['method']}:{plain['preset']}", {})
        return _todays_spec(plain, key)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as problem:
        raise ValueError(f"its settings are not those of a run: {type(problem).__name__} {problem}") from None


def _todays_spec(plain: dict[str, Any], key: str) -> RunSpec:
    """The spec with settings as they are today; `Superseded` where they have changed."""
    try:
        spec = RunSpec.from_json(plain)
    except OutlandError as problem:
        raise Superseded(f"its settings are not those of today: {problem}") from None
    if spec.key != key:
        raise Superseded("its settings are not those of today: some were added since")
    return spec


def _check_results(record: RunRecord) -> None:
    version = record.platform.get("results", "1")  # which the first records do not name
    if version != str(RESULTS):
        raise ValueError(f"its results are of version {version}, and this outland gives version {RESULTS}")


def sentence(problem: BaseException) -> str:
    """The words of an error, safe to print though they may quote a stranger's file."""
    text = "it is nested too deeply" if isinstance(problem, RecursionError) else " ".join(str(problem).split())
    return printable(text, 300)
