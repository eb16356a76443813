"""The command line that reproduces a cell of a study."""

import shlex
from collections.abc import Sequence

from outland.studies.base import Cell, Study


def cell_command(study: Study, cell: Cell, words: Sequence[str] = ()) -> str:
    """The exact command of a cell's runs, which ran with the changes `words`, written `group.name=value`.

    Quantities measured on top of runs need the study itself.
    """
    spec, count = cell.specs[0], len(cell.specs)
    if study.measure is not None:
        command = ["outland", "study", study.name, "--only", cell.name, "--seeds", str(count)]
        return shlex.join([*command, *_set_options(words)])
    command = ["outland", "train", spec.dataset, "--method", cell.row.method, "--kind", spec.kind]
    row_words = [f"{group}.{name}={value}" for group, row in cell.row.changes.items() for name, value in row.items()]
    command += _set_options([*words, *row_words])
    if study.repeats == "folds":
        return f"for fold in $(seq 0 {count - 1}); do {shlex.join(command)} --domain fold$fold; done"
    return shlex.join([*command, "--domain", spec.domain, "--seeds", str(count)])


def _set_options(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in ("--set", word)]
