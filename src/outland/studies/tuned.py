"""Cells of a study with the settings that searches have found, when every method was given the same budget."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from outland.errors import OutlandError, printable
from outland.settings import change
from outland.storage.files import read_json
from outland.studies.base import Cell


class SearchedSpec(BaseModel):
    """What a study needs to know about the spec that a search began from."""

    dataset: str
    domain: str
    kind: str
    method: str
    preset: str
    train: Any
    data: Any
    backbone: Any

    @property
    def name(self) -> str:
        """Data and method; a study of ten folds takes the search on the first."""
        return " ".join((self.dataset, self.domain, self.kind, self.method, self.preset)).strip()

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        """Settings by group."""
        named = {"train": self.train, "data": self.data, "backbone": self.backbone}
        return {name: values if isinstance(values, dict) else {} for name, values in named.items()}


class BestTrial(BaseModel):
    """The best trial of a search."""

    model_config = ConfigDict(strict=True)
    params: dict[str, bool | int | float | str | None]


class SearchReport(BaseModel):
    """What a study needs to know about `search.json`."""

    model_config = ConfigDict(strict=True)
    spec: SearchedSpec
    budget: int
    finished: bool
    best: BestTrial | None


def with_tuned_settings(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """The cells with the best settings of the finished searches in a folder; a row's own changes stay."""
    searches = _read(folder)
    names = [SearchedSpec(**cell.specs[0].to_json()).name for cell in cells]
    missing = sorted({_command(cell) for cell, name in zip(cells, names, strict=True) if name not in searches})
    if missing:
        raise OutlandError(
            f"{len(missing)} searches are not there or not finished in {folder}; the first is made by: {missing[0]}"
        )
    budgets = {searches[name].budget for name in names}
    if len(budgets) > 1:
        listed = ", ".join(map(str, sorted(budgets)))
        raise OutlandError(f"these searches had {listed} trials: a fair study gives every method the same number")
    for cell, name in zip(cells, names, strict=True):
        _check_same_settings(cell, searches[name].spec.groups)
    best = [searches[name].best for name in names]
    return [_set(cell, trial.params) for cell, trial in zip(cells, best, strict=True) if trial is not None]


def _check_same_settings(cell: Cell, searched: Mapping[str, dict[str, Any]]) -> None:
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


def _read(folder: Path) -> dict[str, SearchReport]:
    """Finished searches by their data and method."""
    searches: dict[str, SearchReport] = {}
    for path in sorted(folder.glob("*/search.json")):
        try:
            search = SearchReport(**read_json(path))
        except ValidationError as problem:
            where = ".".join(map(str, problem.errors()[0]["loc"]))
            reason = printable(f"{where} is not of the right kind", 200)
            raise OutlandError(f"{path} is not the report of a search ({reason}): run `outland tune` again") from None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise OutlandError(f"{path} is not the report of a search ({problem}): run `outland tune` again") from None
        name = search.spec.name
        if search.finished and search.best is not None:
            if name in searches:
                raise OutlandError(f"{folder} has two searches for {name}: keep one of them in a folder of its own")
            searches[name] = search
    return searches


def _command(cell: Cell) -> str:
    spec = cell.specs[0]
    return f"outland tune {spec.dataset} --domain {spec.domain} --kind {spec.kind} --method {cell.row.method}"
