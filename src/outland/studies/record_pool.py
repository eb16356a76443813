"""The runs of several record files as one pool, from which every study takes its own."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from outland.errors import OutlandError
from outland.studies.base import Study
from outland.studies.record_file import parse_line, read_lines
from outland.studies.results import Results
from outland.studies.transfer import FinishedRun, sentence

SUFFIX = ".jsonl.xz"  # of a record file


def read_pool(files: Iterable[Path]) -> dict[str, FinishedRun]:
    """The runs of the files by key; an error where one is not of today's settings.

    A run that several files hold is there once, with all measurements of it.
    """
    pool = dict[str, FinishedRun]()
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            try:
                run = FinishedRun.from_json(parse_line(line))
            except (OutlandError, ValueError) as problem:
                raise OutlandError(f"{file}: run {number} cannot be used: {sentence(problem)}") from None
            known = pool.get(run.spec.key, run)
            record = known.record or run.record
            pool[run.spec.key] = FinishedRun(run.spec, record, {**run.measurements, **known.measurements})
    return pool


def pool_results(study: Study, pool: Mapping[str, FinishedRun]) -> Results:
    """The results of a study from the runs of a pool alone."""
    results = Results(study, study.cells())
    for cell in results.cells:
        for index, spec in enumerate(cell.specs):
            if spec.key not in pool:
                continue
            record, measurement = pool[spec.key].record, pool[spec.key].measurements.get(study.name)
            if record is not None and cell.row.trained:
                results.records.setdefault(cell.name, {})[index] = record
            if measurement is not None:
                results.measurements.setdefault(cell.name, {})[index] = measurement
    return results
