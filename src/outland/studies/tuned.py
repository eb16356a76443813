"""Studies with the settings that searches have found, when every method was given the same budget."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from outland.errors import OutlandError
from outland.settings import change, shaped
from outland.storage.files import read_json
from outland.studies.base import Cell


def tuned(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """The cells with the best settings found; what a row is about stays as it is.

    Args:
        cells: of a study.
        folder: of finished searches, one for each pair of a method and a dataset under its shift.
    """
    found = _read(folder)
    missing = sorted({_command(cell) for cell in cells if _name(cell.specs[0].to_json()) not in found})
    if missing:
        raise OutlandError(
            f"{len(missing)} searches are not there or not finished in {folder}; the first is made by: {missing[0]}"
        )
    budgets = {found[_name(cell.specs[0].to_json())]["budget"] for cell in cells}
    if len(budgets) > 1:
        told = ", ".join(map(str, sorted(budgets)))
        raise OutlandError(f"these searches had {told} trials: a fair study gives every method the same number")
    for cell in cells:
        _check_frame(cell, found[_name(cell.specs[0].to_json())]["spec"])
    return [_set(cell, found[_name(cell.specs[0].to_json())]["best"]["params"]) for cell in cells]


def _check_frame(cell: Cell, searched: dict[str, Any]) -> None:
    """Refuse a search in another frame: what is best for two epochs of a small net says nothing of a hundred."""
    wanted = json.loads(json.dumps(cell.specs[0].to_json()))
    for group in ("train", "data", "backbone"):
        for name, value in wanted[group].items():
            if name != "checkpoint_every" and searched[group].get(name) != value:
                raise OutlandError(
                    f"{cell.name} has {group}.{name}={value}, and its search had {searched[group].get(name)}: "
                    "search again with the settings of the study"
                )


def _set(cell: Cell, params: dict[str, Any]) -> Cell:
    kept = cell.row.changes.get("method", {})
    new = {name: value for name, value in params.items() if name not in kept}
    row = replace(cell.row, changes={**cell.row.changes, "method": {**new, **kept}})
    specs = tuple(replace(spec, method_params=change(spec.method_params, new, "method")) for spec in cell.specs)
    return replace(cell, row=row, specs=specs)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """Finished searches by what they are for."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*/search.json")):
        try:
            search = read_json(path)
            name, whole = _name(search["spec"]), search["finished"] and search["best"] is not None
            if whole and not (shaped(search["budget"], int) and shaped(search["best"]["params"], dict[str, Any])):
                raise ValueError("its budget or its best settings are missing")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise OutlandError(f"{path} is not the report of a search ({problem}): run `outland tune` again") from None
        if whole and name in found:
            raise OutlandError(f"{folder} has two searches for {name}: keep one of them in a folder of its own")
        if whole:
            found[name] = search
    return found


def _name(spec: dict[str, Any]) -> str:
    """What a search is for; a study of ten folds takes the search on the first."""
    return " ".join(str(spec[name]) for name in ("dataset", "domain", "kind", "method", "preset")).strip()


def _command(cell: Cell) -> str:
    spec = cell.specs[0]
    return f"outland tune {spec.dataset} --domain {spec.domain} --kind {spec.kind} --method {cell.row.method}"
