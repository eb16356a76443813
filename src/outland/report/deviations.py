"""Where our numbers differ from the paper's by more than chance would, and what is known of the cause."""

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from outland.errors import OutlandError
from outland.report.published import Published, paper_table, paper_value
from outland.studies.results import Results
from outland.studies.statistics import Summary

_MIN_ERRORS = 2.0  # standard errors of the difference from which on a cell is listed


@dataclass(frozen=True)
class Deviation:
    """A cell beside the paper's, with the standard error of their difference."""

    cell: str
    ours: Summary
    paper: Published
    error: float

    @property
    def difference(self) -> float:
        """Ours less the paper's."""
        return self.ours.mean - self.paper.mean

    @property
    def is_large(self) -> bool:
        """Whether it is more than two standard errors."""
        return abs(self.difference) > _MIN_ERRORS * self.error


def deviations(results: Results) -> list[Deviation]:
    """Every cell with all its runs, several, that the paper has too, the largest difference first."""
    study = results.study
    quantity, runs = study.quantities[0], paper_table(study.paper)["runs"]
    deviations = []
    for cell in results.cells:
        ours = results.whole_summary(cell.row, cell.column, quantity)
        paper = paper_value(study, cell.row, cell.column, quantity)
        if ours is not None and ours.count > 1 and paper is not None and paper.std is not None:
            error = math.hypot(ours.error, paper.std / math.sqrt(runs - 1))  # its ± is the population's
            deviations.append(Deviation(cell.name, ours, paper, error))
    return sorted(deviations, key=lambda deviation: -abs(deviation.difference))


@dataclass(frozen=True)
class Remark:
    """What is known of cells, which patterns ROW/COLUMN name."""

    cells: tuple[str, ...]
    text: str

    def names(self, cell: str) -> bool:
        """Whether it is on a cell."""
        return any(fnmatchcase(cell, pattern) for pattern in self.cells)


def read_remarks(file: Path, results: Results) -> list[Remark]:
    """The remarks in a TOML file; an error for one that names no cell of the study.

    A remark's `measured` is a JSON file beside it, whose numbers stand in its text as `{measured[name][name]:.1f}`.
    """
    try:
        plain = tomllib.loads(file.read_text(encoding="utf-8"))["remarks"]
        remarks = [Remark(tuple(one["cells"]), _filled(one, file.parent)) for one in plain]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise OutlandError(f"{file} is not a file of remarks, each with `cells` and `text`: {problem}") from None
    for remark in remarks:
        for pattern in remark.cells:
            if not any(fnmatchcase(cell.name, pattern) for cell in results.cells):
                raise OutlandError(f"{file}: '{pattern}' names no cell of the study {results.study.name}")
    return remarks


def _filled(plain: dict[str, Any], folder: Path) -> str:
    """A remark's text with the numbers of its JSON file, if it has one."""
    text: str = plain["text"]
    if "measured" not in plain:
        return text
    return text.format(measured=json.loads((folder / plain["measured"]).read_text(encoding="utf-8")))


def remark_on(cell: str, remarks: Sequence[Remark]) -> Remark | None:
    """The first remark that names a cell."""
    return next((remark for remark in remarks if remark.names(cell)), None)
