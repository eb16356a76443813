"""Which settings the runs in a folder have, where these are not the ones asked for."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outland.errors import counted
from outland.studies.base import Cell, Study
from outland.training import RunSpec

_GROUPS = {"method": "method_params", "backbone": "backbone", "train": "train", "data": "data"}
Changes = tuple[str, ...]


def other_settings(study: Study, cells: Iterable[Cell], out: Path) -> str:
    """A sentence on the finished runs of this study that have other settings than `cells`; empty without any."""
    known = [_plain(cell.specs[0]) for cell in study.cells(1)]
    asked = {_changes(study, _plain(cell.specs[0]), known) for cell in cells}
    found: Counter[Changes] = Counter()
    for path in sorted((out / "runs").glob("*/spec.json")):
        changes = _read(study, path, known)
        if changes is not None and changes not in asked:
            found[changes] += 1
    told = [f"{_words(changes)} ({counted(number, 'run')})" for changes, number in found.most_common()]
    return f"{out / 'runs'} has finished runs of this study in other settings: {'; '.join(told)}" if told else ""


def _words(changes: Changes) -> str:
    return " ".join(f"--set {word}" for word in changes) or "the paper's own"


def _read(study: Study, path: Path, known: Iterable[dict[str, Any]]) -> Changes | None:
    """The changes that a finished run was made with; None where it is not one of this study."""
    try:
        if any((path.parent / name).exists() for name in ("record.json", f"measured-{study.name}.json")):
            return _changes(study, json.loads(path.read_text()), known)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _changes(study: Study, plain: dict[str, Any], known: Iterable[dict[str, Any]]) -> Changes | None:
    """In what a run differs from the cell of the study that it is nearest to; None where it is of no cell."""
    same = ["dataset", "kind", "method", "preset", *(["domain"] if study.repeats == "seeds" else [])]
    near = [one for one in known if all(one[name] == plain[name] for name in same)]
    return min((_differences(one, plain) for one in near), key=len, default=None)


def _differences(wanted: dict[str, Any], found: dict[str, Any]) -> Changes:
    return tuple(
        f"{group}.{name}={value}"
        for group, key in _GROUPS.items()
        for name, value in found[key].items()
        if wanted[key].get(name) != value
    )


def _plain(spec: RunSpec) -> dict[str, Any]:
    """A spec as it is read back from its file."""
    plain: dict[str, Any] = json.loads(json.dumps(spec.to_json()))
    return plain
