"""Cells of a study with the settings that searches have found, when every method was given the same budget."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from outland.errors import OutlandError
from outland.settings import change, is_valid
from outland.storage.files import read_json
from outland.studies.base import Cell


def with_tuned_settings(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """The cells with the best settings of the finished searches in a folder; a row's own changes stay."""
    searches = _read(folder)
    names = [_name(cell.specs[0].to_json()) for cell in cells]
    missing = sorted({_command(cell) for cell, name in zip(cells, names, strict=True) if name not in searches})
    if missing:
        raise OutlandError(
            f"{len(missing)} searches are not there or not finished in {folder}; the first is made by: {missing[0]}"
        )
    budgets = {searches[name]["budget"] for name in names}
    if len(budgets) > 1:
        listed = ", ".join(map(str, sorted(budgets)))
        raise OutlandError(f"these searches had {listed} trials: a fair study gives every method the same number")
    for cell, name in zip(cells, names, strict=True):
        _check_same_settings(cell, searches[name]["spec"])
    return [_set(cell, searches[name]["best"]["params"]) for cell, name in zip(cells, names, strict=True)]


def _check_same_settings(cell: Cell, searched: dict[str, Any]) -> None:
    """Raise an error for a search with other settings: the best for two epochs says nothing of a hundred."""
    spec = json.loads(json.dumps(cell.specs[0].to_json()))
    for group in ("train", "data", "backbone"):
        for name, value in spec[group].items():
            if name != "checkpoint_every" and searched[group].get(name) != value:
                raise OutlandError(
                    f"{cell.name} has {group}.{name}={value}, and its search had {searched[group].get(name)}: "
                    "search again with the settings of the study"
                )


def _set(cell: Cell, params: dict[str, Any]) -> Cell:
    fixed = cell.row.changes.get("method", {})
    new = {name: value for name, value in params.items() if name not in fixed}
    row = replace(cell.row, changes={**cell.row.changes, "method": {**new, **fixed}})
    specs = tuple(replace(spec, method_params=change(spec.method_params, new, "method")) for spec in cell.specs)
    return replace(cell, row=row, specs=specs)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """Finished searches by their data and method."""
    searches: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*/search.json")):
        try:
            search = read_json(path)
            name, finished = _name(search["spec"]), search["finished"] and search["best"] is not None
            if finished and not (
                is_valid(search["budget"], int) and is_valid(search["best"]["params"], dict[str, Any])
            ):
                raise ValueError("its budget or its best settings are missing")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise OutlandError(f"{path} is not the report of a search ({problem}): run `outland tune` again") from None
        if finished and name in searches:
            raise OutlandError(f"{folder} has two searches for {name}: keep one of them in a folder of its own")
        if finished:
            searches[name] = search
    return searches


def _name(spec: dict[str, Any]) -> str:
    """Data and method of a search; a study of ten folds takes the search on the first."""
    return " ".join(str(spec[name]) for name in ("dataset", "domain", "kind", "method", "preset")).strip()


def _command(cell: Cell) -> str:
    spec = cell.specs[0]
    return f"outland tune {spec.dataset} --domain {spec.domain} --kind {spec.kind} --method {cell.row.method}"
