"""Published numbers to stand beside ours: the paper's, and the GOOD leaderboard's."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from outland.studies import Column, Row, Study
from outland.studies.quantities import Quantity

_ON_LEADERBOARD = {"M-Mixup": "Mixup", "CIGA": "CIGAv1"}


@dataclass(frozen=True)
class Published:
    """A published mean, and its standard deviation where that is printed."""

    mean: float
    std: float | None = None


@lru_cache
def _file(name: str) -> Any:
    return json.loads(files("outland.report").joinpath(name).read_text(encoding="utf-8"))


def paper_table(name: str) -> dict[str, Any]:
    """One of the paper's tables, as plain values."""
    table: dict[str, Any] = _file("paper-tables.json")[name]
    return table


def in_paper(study: Study, row: Row, column: Column, quantity: Quantity) -> Published | None:
    """The paper's number of a cell; what a study has no table for may be in the paper's first one."""
    try:
        found = _lookup(study.paper or "covariate_shift", row, column, quantity)
    except KeyError:
        return None
    return found if study.paper or column.kind == "covariate" else None


def _lookup(table: str, row: Row, column: Column, quantity: Quantity) -> Published:
    if table == "cost":
        return _cost(row, column, quantity)
    rows = paper_table(table)["rows"]
    if table == "backbones":
        return Published(**rows[row.group][row.label][column.label])
    if table == "gcs":
        return Published(**rows[row.label][f"{column.label}/{quantity.name}"])
    if table == "diversity":
        return Published(**rows[row.label][quantity.name])
    if quantity.name != "test" or row.group:
        raise KeyError(quantity.name)
    return Published(**rows[row.label][column.label])


def _cost(row: Row, column: Column, quantity: Quantity) -> Published:
    if quantity.name == "improvement":
        rows = paper_table("covariate_shift")["rows"]
        return Published(100 * (rows[row.label][column.label]["mean"] / rows["ERM"][column.label]["mean"] - 1))
    name = {"seconds": "seconds_per_run", "parameters": "parameters_millions"}[quantity.name]
    return Published(paper_table("cost")[name][row.label][column.dataset])


def on_leaderboard(row: Row, column: Column, quantity: Quantity) -> Published | None:
    """The leaderboard's number of a cell: test scores of methods it has, on its own backbones."""
    if quantity.name != "test" or row.group or row.changes:
        return None
    rows = _file("leaderboard.json")["rows"]
    name = _ON_LEADERBOARD.get(row.label, row.label)
    found = rows.get(name, {}).get(f"{column.label}-{column.kind}")
    return None if found is None else Published(*found)
