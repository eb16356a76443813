"""Published numbers for comparison: the paper's, and the GOOD leaderboard's."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from outland.studies import Column, Row, Study
from outland.studies.quantities import Quantity

_LEADERBOARD_NAMES = {"M-Mixup": "Mixup", "CIGA": "CIGAv1"}


@dataclass(frozen=True)
class Published:
    """A published mean, and its standard deviation where that is printed."""

    mean: float
    std: float | None = None


@lru_cache
def _file(name: str) -> Any:
    return json.loads(files("outland.report").joinpath(name).read_text(encoding="utf-8"))


def paper_table(name: str) -> Any:
    """One of the paper's tables, as plain values."""
    return _file("paper-tables.json")[name]


def paper_value(study: Study, row: Row, column: Column, quantity: Quantity) -> Published | None:
    """The paper's value of a cell, from the study's table or else the covariate-shift table; None if it has none."""
    try:
        value = _lookup(study.paper or "covariate_shift", row, column, quantity)
    except KeyError:
        return None
    return value if study.paper or column.kind == "covariate" else None


def _lookup(table: str, row: Row, column: Column, quantity: Quantity) -> Published:
    if table == "cost":
        return _cost(row, column, quantity)
    rows = paper_table(table)["rows"]
    if table == "backbones":
        return Published(**rows[row.group][row.published][column.label])
    if table == "gcs":
        return Published(**rows[row.published][f"{column.label}/{quantity.name.removesuffix('_mean')}"])
    if table == "diversity":
        return Published(**rows[row.published][quantity.name])
    if quantity.name != "test" or row.group:
        raise KeyError(quantity.name)
    return Published(**rows[row.published][column.label])


def _cost(row: Row, column: Column, quantity: Quantity) -> Published:
    if quantity.name == "improvement":
        rows = paper_table("covariate_shift")["rows"]
        return Published(100 * (rows[row.published][column.label]["mean"] / rows["ERM"][column.label]["mean"] - 1))
    name = {"seconds": "seconds_per_run", "parameters": "parameters_millions"}[quantity.name]
    return Published(paper_table("cost")[name][row.published][column.dataset])


def leaderboard_value(row: Row, column: Column, quantity: Quantity) -> Published | None:
    """The leaderboard's test score of a cell, on its own backbones; None if it has none."""
    if quantity.name != "test" or row.group or row.changes:
        return None
    rows = _file("leaderboard.json")["rows"]
    name = _LEADERBOARD_NAMES.get(row.published, row.published)
    value = rows.get(name, {}).get(f"{column.label}-{column.kind}")
    return None if value is None else Published(*value)
