"""The command line that reproduces a cell of a study."""

import shlex
from collections.abc import Sequence

from outland.studies.base import Cell, Study


def cell_command(study: Study, cell: Cell, words: Sequence[str] = ()) -> str:
    """The exact command of a cell's runs; quantities measured on top of runs need the study itself.

    Args:
        study, cell: of the runs.
        words: the changes that the study ran with, written `group.name=value`.
    """
    if study.measure is not None:
        seeds = ["--seeds", str(len(cell.specs))]
        return shlex.join(["outland", "study", study.name, "--only", cell.name, *seeds, *_set_options(words)])
    spec, count = cell.specs[0], len(cell.specs)
    command = ["outland", "train", spec.dataset, "--method", cell.row.method, "--kind", spec.kind]
    row_words = [f"{group}.{name}={value}" for group, row in cell.row.changes.items() for name, value in row.items()]
    command += _set_options([*words, *row_words])
    if study.repeats == "folds":
        folds = f"for fold in $(seq 0 {count - 1}); do "
        return f"{folds}{shlex.join(command)} --domain fold$fold; done"
    return shlex.join([*command, "--domain", spec.domain, "--seeds", str(count)])


def _set_options(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in ("--set", word)]
