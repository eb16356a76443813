"""The words that reproduce a cell of a study by hand."""

import shlex
from collections.abc import Sequence

from outland.studies.base import Cell, Study


def command_of(study: Study, cell: Cell, words: Sequence[str] = ()) -> str:
    """The exact command for a cell's runs; what is measured on top of runs is measured by the study itself.

    Args:
        study, cell: which.
        words: the changes that the study ran with.
    """
    if study.measure is not None:
        seeds = ["--seeds", str(len(cell.specs))]
        return shlex.join(["outland", "study", study.name, "--only", cell.name, *seeds, *_sets(words)])
    spec, count = cell.specs[0], len(cell.specs)
    command = ["outland", "train", spec.dataset, "--method", cell.row.method, "--kind", spec.kind]
    own = [f"{group}.{name}={value}" for group, changes in cell.row.changes.items() for name, value in changes.items()]
    command += _sets([*words, *own])
    if study.repeats == "folds":
        folds = f"for fold in $(seq 0 {count - 1}); do "
        return f"{folds}{shlex.join(command)} --domain fold$fold; done"
    return shlex.join([*command, "--domain", spec.domain, "--seeds", str(count)])


def _sets(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in ("--set", word)]
