"""The settings of a study's finished runs that differ from those asked for."""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from outland.errors import counted
from outland.spec import RunSpec
from outland.storage.files import read_json
from outland.studies import STUDIES, find_study
from outland.studies.base import Cell, Study

_GROUPS = {"method": "method_params", "backbone": "backbone", "train": "train", "data": "data"}
Differences = tuple[str, ...]  # as `group.name=value`


def describe_other_settings(study: Study, cells: Iterable[Cell], out: Path) -> str:
    """A sentence on the finished runs of this study that have other settings than `cells`; empty without any.

    Runs of other studies as they stand are no such runs.
    """
    specs = [_plain(cell.specs[0]) for cell in study.cells(1)]
    others = (cell for name in STUDIES if name != study.name for cell in find_study(name).with_newer().cells())
    elsewhere = {spec.slug for cell in others for spec in cell.specs}
    asked = {_nearest(study, _plain(cell.specs[0]), specs) for cell in cells}
    counts: Counter[Differences] = Counter()
    for path in sorted((out / "runs").glob("*/spec.json")):
        if path.parent.name in elsewhere:
            continue
        differences = _read(study, path, specs)
        if differences is not None and differences not in asked:
            counts[differences] += 1
    listed = [f"{_options(differences)} ({counted(number, 'run')})" for differences, number in counts.most_common()]
    return f"{out / 'runs'} has finished runs of this study in other settings: {'; '.join(listed)}" if listed else ""


def _options(differences: Differences) -> str:
    return " ".join(f"--set {word}" for word in differences) or "the paper's own"


def _read(study: Study, path: Path, specs: Iterable[dict[str, Any]]) -> Differences | None:
    """The differences of a finished run's spec file; None where it is not a run of this study."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if any((path.parent / name).exists() for name in ("record.json", f"measured-{study.name}.json")):
            return _nearest(study, read_json(path), specs)
    return None


def _nearest(study: Study, plain: dict[str, Any], specs: Iterable[dict[str, Any]]) -> Differences | None:
    """The fewest differences of a spec from one of the study's; None where it belongs to no cell."""
    same = ["dataset", "kind", "method", "preset", *(["domain"] if study.repeats == "seeds" else [])]
    candidates = [spec for spec in specs if all(spec[name] == plain[name] for name in same)]
    return min((_differences(spec, plain) for spec in candidates), key=len, default=None)


def _differences(spec: dict[str, Any], other: dict[str, Any]) -> Differences:
    return tuple(
        f"{group}.{name}={value}"
        for group, key in _GROUPS.items()
        for name, value in other[key].items()
        if spec[key].get(name) != value
    )


def _plain(spec: RunSpec) -> dict[str, Any]:
    """A spec as it is read back from its file."""
    plain: dict[str, Any] = json.loads(json.dumps(spec.to_json()))
    return plain
