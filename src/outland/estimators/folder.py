"""The model folder: safetensors and JSON under one seal, and a card in Markdown. Reading it executes nothing."""

import math
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outland.errors import CannotWrite, OutlandError
from outland.estimators.calibration import Calibration
from outland.estimators.card import card
from outland.estimators.checks import check_model, check_values, featuriser, same_featuriser
from outland.estimators.distance import Familiar
from outland.estimators.model import FittedModel
from outland.graphs import PackedGraphs, Schema
from outland.methods import is_file, method_settings, rebuild_method
from outland.nn import BackboneSettings
from outland.settings import change
from outland.storage.files import read_json, writable_folder
from outland.storage.snapshots import SNAPSHOT_FILES, DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

SCHEMA = 1
KIND = "outland model"
CARD = "README.md"


def check_place(folder: Path, force: bool = False) -> None:
    """Refuse a place where a model cannot be saved: one that is taken, or that cannot be written to.

    What is there already is replaced only with `force`, and only if it is a model and nothing else.
    """
    try:
        if folder.exists():
            if not force:
                raise OutlandError(f"{folder} exists: choose another name, or replace it with --force (force=True)")
            _check_replaceable(folder)
    except OSError as problem:
        raise CannotWrite(f"cannot write {folder}: {problem.strerror or problem}") from None
    writable_folder(folder.parent)


def _check_replaceable(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    if not names:
        return
    if not _is_model(folder):
        raise OutlandError(f"{folder} is not a model folder, and will not be replaced by one")
    others = [name for name in names if name not in (*SNAPSHOT_FILES, CARD)]
    if others:
        raise OutlandError(f"{folder} holds more than a model ({others[0]}), and will not be replaced by one")


def _is_model(folder: Path) -> bool:
    try:
        return bool(read_json(folder / SNAPSHOT_FILES[1])["values"]["kind"] == KIND)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def save_folder(model: FittedModel, folder: Path, force: bool = False) -> Path:
    """Write a model; what is there already is replaced only with `force`, and only if it is a model."""
    check_place(folder, force)
    familiar = model.familiar
    groups = {
        "model": dict(model.method.state_dict()),
        "familiar": {name: getattr(familiar, name) for name in ("centre", "spread", "reference")},
        "sample": model.sample.tensors(),
        "seen": {"hashes": model.seen},
    }
    tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
    write_snapshot(folder, Snapshot(tensors, _plain(_values(model))), {CARD: card(model)})
    return folder


def _values(model: FittedModel) -> dict[str, Any]:
    return {
        "kind": KIND,
        "schema_version": SCHEMA,
        "method": model.method.name,
        "reads": model.kind,
        "schema": model.schema.to_json(),
        "featuriser": featuriser() if model.kind == "molecules" else None,
        "classes": list(model.classes),
        "calibration": asdict(model.calibration),
        "distance": {"unit": model.familiar.unit, "far": model.familiar.far},
        "scale": list(model.scale),
        "about": {**model.about, "versions": _versions()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in ("outland", "torch", "scikit-learn", "rdkit", "numpy", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _plain(value: Any) -> Any:
    """A value as JSON has it: numpy's numbers as Python's, and None for NaN and infinity, which it lacks."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_folder(folder: Path, device: torch.device | str = "cpu") -> FittedModel:
    """Read a model, or say in a sentence why it is none."""
    if not folder.exists():
        raise OutlandError(f"there is no model folder {folder}")
    if not folder.is_dir():
        raise OutlandError(f"{folder} is a file, not a model folder: give the folder that `outland fit` wrote")
    if not any((folder / name).exists() for name in SNAPSHOT_FILES):
        raise OutlandError(f"{folder} is not a model folder: give the folder that `outland fit` wrote")
    saved = read_snapshot(folder)
    try:
        _check(saved.values, folder)
        check_values(saved.values)
        model = _built(saved, device)
        check_model(model)
        return model
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise DamagedSnapshot(f"{folder} does not fit together: {problem}") from None


def _check(values: dict[str, Any], folder: Path) -> None:
    if values.get("kind") != KIND:
        raise OutlandError(f"{folder} holds no model of `outland fit`: runs of `outland train` have another form")
    if values["schema_version"] > SCHEMA:
        raise DamagedSnapshot(
            f"{folder} was written by a newer version of outland (schema {values['schema_version']}, this one reads "
            f"up to {SCHEMA}): upgrade outland"
        )
    if is_file(values["method"]):
        raise OutlandError(f"{folder} names a method in a file, {values['method']}, which loading would have to run")
    if values["reads"] == "molecules" and not same_featuriser(values):
        made = values["about"].get("versions", {}).get("outland", "which made it")
        raise OutlandError(
            f"{folder} was made with other atom features than this version of outland reads: use version {made}, or "
            "fit it again"
        )


def _built(saved: Snapshot, device: torch.device | str) -> FittedModel:
    values, about = saved.values, saved.values["about"]
    familiar: dict[str, Any] = {**saved.group("familiar"), **values["distance"]}
    method = rebuild_method(
        values["method"],
        Schema.from_json(values["schema"]),
        change(BackboneSettings(), about["backbone"], "backbone"),
        method_settings(values["method"], about["settings"]),
        saved.group("model"),
    )
    calibration = values["calibration"]
    return FittedModel(
        method=method.to(device).eval(),
        kind=values["reads"],
        classes=tuple(values["classes"]),
        calibration=Calibration(calibration["temperature"], tuple(calibration["offset"])),
        familiar=Familiar(**familiar),
        scale=tuple(values["scale"]),
        sample=PackedGraphs.from_tensors(saved.group("sample")),
        about=about,
        seen=saved.tensors.get("seen.hashes", torch.zeros(0)).long().flatten().unique(),  # older folders have none
    )
