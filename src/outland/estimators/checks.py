"""Whether the values of a model folder fit together, before anybody leans on them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from outland.chem.featurizer import ATOM_FIELDS, ATOMS, BOND_FIELDS, BONDS
from outland.estimators.inputs import Kind
from outland.estimators.model import FittedModel, run_batches
from outland.graphs import Schema, Splits
from outland.settings import shaped

_KINDS: dict[str, Any] = {
    "method": str,
    "reads": Kind,
    "classes": list[str] | list[bool] | list[float],
    "calibration": dict[str, Any],
    "distance": dict[str, float],
    "scale": list[float],
    "about": dict[str, Any],
}
_ABOUT: dict[str, Any] = {  # as far as a folder has them
    "classes": dict[str, list[int]],
    "seed": int,
    "estimator": dict[str, Any],
    "source": dict[str, Any],
    "held_out": dict[str, float | None],
    "scores": list[dict[str, Any]],
}


def featuriser() -> dict[str, list[str]]:
    """What this version reads of a molecule."""
    return {"atoms": list(ATOM_FIELDS), "bonds": list(BOND_FIELDS)}


def same_featuriser(values: Mapping[str, Any]) -> bool:
    """Whether a model of molecules reads of them what this version finds."""
    own = Schema.from_json(values["schema"])
    return values["featuriser"] == featuriser() and (own.node, own.edge) == (ATOMS, BONDS)


def check_values(values: Mapping[str, Any]) -> None:
    """A `ValueError` where values are not of their kinds."""
    about = values["about"]
    for where, kinds, given in (("", _KINDS, values), ("about.", _ABOUT, about)):
        for name, kind in kinds.items():
            if (name in given or not where) and not shaped(given[name], kind):
                raise ValueError(f"{where}{name} is not of the right kind")
    calibration, distance, classes = values["calibration"], values["distance"], len(values["classes"])
    task = Schema.from_json(values["schema"]).task
    wanted = {"binary": (1, 2), "regression": (1, 0), "multiclass": (task.outputs, task.outputs)}[task.kind]
    if (task.outputs, classes) != wanted:
        raise ValueError(f"it has {classes} classes, and not as many outputs")
    offset = calibration["offset"]
    if not (shaped(offset, list[float]) and len(offset) == task.outputs and shaped(calibration["temperature"], float)):
        raise ValueError("its calibration is not of the right kind")
    _check_numbers(positive=[calibration["temperature"], *distance.values()], others=[*offset, *values["scale"]])
    if set(distance) != {"unit", "far"} or len(values["scale"]) != 2:
        raise ValueError("its distances or its scale lack a number")
    counts = about["classes"]
    if any(len(counts[name]) != classes or min(counts[name], default=1) < 1 for name in ("training", "drawn")):
        raise ValueError("its classes were counted otherwise")


def _check_numbers(positive: list[float], others: list[float]) -> None:
    if not all(math.isfinite(float(one)) for one in positive + others) or not all(one > 0 for one in positive):
        raise ValueError("a number of its calibration, distances or scale is impossible")


def check_model(model: FittedModel) -> None:
    """A `ValueError` where the parts of a model do not fit each other; its first kept graph is tried."""
    everyone = torch.arange(len(model.sample))
    if not len(everyone):
        raise ValueError("it has kept no training graph")
    parts = dict.fromkeys(("train", "val", "test"), everyone)
    Splits(model.sample, parts, replace(model.schema, environments=0)).check()
    (embedding,), familiar = run_batches(model.method, model.sample.select(everyone[:1]))[1], model.familiar
    known = (familiar.centre, familiar.spread, familiar.reference[0])
    if familiar.reference.ndim != 2 or any(
        (one.shape, one.dtype) != (embedding.shape, embedding.dtype) for one in known
    ):
        raise ValueError("its distances are of other embeddings")
