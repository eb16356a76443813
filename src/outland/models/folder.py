"""The model folder: safetensors and JSON under one seal, with a card in Markdown. Reading it executes nothing."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from outland.chem.featurizer import ATOM_FIELDS, ATOMS, BOND_FIELDS, BONDS
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import PackedGraphs, Schema
from outland.methods import is_file, rebuild_method
from outland.models.calibration import Calibration
from outland.models.card import card
from outland.models.checks import check_model
from outland.models.knn import KNNDistance
from outland.models.model import Kind, TrainedModel
from outland.models.summary import Assessment, TrainingSummary
from outland.spec import RunSpec
from outland.storage.files import MAX_JSON, checksum, read_bounded, read_json, refuse_symlink, writable_folder
from outland.storage.folders import recover_folder
from outland.storage.locks import locked
from outland.storage.snapshots import SNAPSHOT_FILES, DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

VERSION = 2
FORMAT = "outland model"
CARD, SOURCE = "README.md", "method.py"
_PACKAGES = ("outland", "torch", "scikit-learn", "rdkit", "numpy", "safetensors")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class _Temperature(_Strict):
    temperature: list[float]
    offset: list[float]


class _Distance(_Strict):
    unit: float
    far: float


class ModelFile(_Strict):
    """The JSON of a model folder."""

    kind: Literal["outland model"]
    version: int
    reads: Kind
    spec: dict[str, Any]
    schema_: dict[str, Any]
    featurizer: dict[str, list[str]] | None
    classes: list[str] | list[bool] | list[int] | list[float]
    calibration: _Temperature
    distance: _Distance | None
    training: TrainingSummary
    assessment: Assessment | None
    versions: dict[str, str]


def check_writable(folder: Path, force: bool = False) -> None:
    """Refuse a path where a model cannot be saved: one that is taken, or that cannot be written to.

    What is there already is replaced only with `force`, and only if it is a model and nothing else.
    """
    if folder.name in ("", ".."):
        raise OutlandError(f"{folder} cannot become a model folder: name a new one in it")
    try:
        recover_folder(folder)
        if folder.exists():
            if not force:
                raise OutlandError(f"{folder} exists: choose another name, or replace it with --force (force=True)")
            _check_replaceable(folder)
    except OSError as problem:
        raise CannotWrite(f"cannot write {folder}: {problem.strerror or problem}") from None
    writable_folder(folder.parent)


@contextmanager
def reserved(folder: Path, force: bool = False) -> Iterator[None]:
    """Hold the name of a model folder that is to be written, while its model is trained; see `check_writable`."""
    check_writable(folder, force)
    lock = folder.with_name(f".{folder.name}.lock")
    with locked(lock, timeout=0, busy=f"another process is making the model {folder}: choose another name, or wait"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _check_replaceable(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    if not names:
        return
    if not _is_model(folder):
        raise OutlandError(f"{folder} is not a model folder, and will not be replaced by one")
    others = [name for name in names if name not in (*SNAPSHOT_FILES, CARD, SOURCE)]
    if others:
        raise OutlandError(f"{folder} holds more than a model ({others[0]}), and will not be replaced by one")


def _is_model(folder: Path) -> bool:
    try:
        return bool(read_json(folder / SNAPSHOT_FILES[1])["values"]["kind"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def save_model(model: TrainedModel, folder: Path | str, force: bool = False) -> Path:
    """Write a model folder; what is there already is replaced only with `force`, and only if it is a model."""
    folder = Path(folder)
    check_writable(folder, force)
    groups: dict[str, dict[str, Tensor]] = {
        "model": dict(model.method.state_dict()),
        "training": {"hashes": model.training_hashes},
        "reference": {} if model.reference is None else model.reference.tensors(),
    }
    if model.distance is not None:
        groups["distance"] = {name: getattr(model.distance, name) for name in ("center", "scale", "reference")}
    tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
    texts = {CARD: card(model)} | ({SOURCE: model.source} if model.source else {})
    write_snapshot(folder, Snapshot(tensors, _plain(_values(model))), texts)
    return folder


def _values(model: TrainedModel) -> dict[str, Any]:
    distance = model.distance
    return {
        "kind": FORMAT,
        "version": VERSION,
        "reads": model.kind,
        "spec": model.spec.to_json(),
        "schema_": model.schema.to_json(),
        "featurizer": _featurizer() if model.kind == "molecules" else None,
        "classes": list(model.classes),
        "calibration": asdict(model.calibration),
        "distance": None if distance is None else {"unit": distance.unit, "far": distance.far},
        "training": model.training.model_dump(),
        "assessment": None if model.assessment is None else model.assessment.model_dump(),
        "versions": {package: _version(package) for package in _PACKAGES},
    }


def _featurizer() -> dict[str, list[str]]:
    """What this version reads of a molecule."""
    return {"atoms": list(ATOM_FIELDS), "bonds": list(BOND_FIELDS)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _plain(value: Any) -> Any:
    """A value as JSON has it: numpy's numbers as Python's, and None for NaN and infinity, which it lacks."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_model(folder: Path | str, device: torch.device | str = "cpu", trust_code: bool = False) -> TrainedModel:
    """Read a model folder, or that of a finished run.

    Args:
        folder: what `outland train`, `outland fit` or `save` wrote.
        device: `cpu`, `cuda`, or `auto`.
        trust_code: run the method's source, where that is in a file of its own, which the folder keeps; nothing in a
            folder is executed otherwise.
    """
    folder = _model_path(Path(folder))
    saved = read_snapshot(folder)
    try:
        _check_format(saved.values, folder)
        file = ModelFile(**saved.values)
        _check_featurizer(file, folder)
        plain = _trusted_spec(file.spec, folder, trust_code)
        model = _built(file, _read_spec(plain), saved, folder)
        check_model(model)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split()[:40])
        raise DamagedSnapshot(f"{folder} does not fit together: {reason}") from None
    return replace(model, method=model.method.to(find_device(str(device))).eval())


def _model_path(folder: Path) -> Path:
    recover_folder(folder)
    refuse_symlink(folder / "model")
    if not folder.exists():
        raise OutlandError(f"there is no model folder {folder}")
    if not folder.is_dir():
        raise OutlandError(f"{folder} is a file, not a model folder: give the folder that `outland fit` wrote")
    if (folder / "record.json").exists() and not (folder / "model").exists():
        raise OutlandError(
            f"{folder} has the record of a run and no model, as records from another machine have none: "
            "train it here by `outland train ... --force`"
        )
    if (folder / "spec.json").exists() and not (folder / "model").exists():
        raise OutlandError(f"the run in {folder} is not finished: go on with it by `outland train ... --resume`")
    inner = folder / "model"
    if inner.is_dir():
        return inner
    if not any((folder / name).exists() for name in SNAPSHOT_FILES):
        raise OutlandError(
            f"{folder} is not a model folder: give the folder that `outland train` or `outland fit` wrote"
        )
    return folder


def _check_format(values: dict[str, Any], folder: Path) -> None:
    if values.get("kind") != FORMAT:
        raise OutlandError(f"{folder} holds no model of outland")
    number = int(values.get("version", values.get("schema_version", 0)))
    if number > VERSION:
        raise DamagedSnapshot(
            f"{folder} was written by a newer version of outland (format {number}, this one reads {VERSION}): "
            "upgrade outland"
        )
    if number < VERSION:
        raise OutlandError(f"{folder} was written by an older version of outland (format {number}): fit it again")


def _check_featurizer(file: ModelFile, folder: Path) -> None:
    schema = Schema.from_json(file.schema_)
    read_here = file.featurizer == _featurizer() and (schema.node, schema.edge) == (ATOMS, BONDS)
    if file.reads == "molecules" and not read_here:
        raise OutlandError(
            f"{folder} was made with other atom features than this version of outland reads: use version "
            f"{file.versions.get('outland', 'which made it')}, or fit it again"
        )


def _trusted_spec(spec: dict[str, Any], folder: Path, trust_code: bool) -> dict[str, Any]:
    """The spec, with a method in a file of its own found in the folder; an error unless its code is trusted."""
    if not is_file(spec["method"]):
        return spec
    name = str(spec["method"]).rpartition(":")[2]
    if not trust_code:
        raise OutlandError(
            f"the method {name} of {folder} is in a file of its own, which loading has to run: read {folder / SOURCE}, "
            "and if you trust it say so with --trust-code (trust_code=True)"
        )
    if checksum(folder / SOURCE, follow=False) != spec["code"]:
        raise ValueError(f"{SOURCE} is not the file that it was trained with")
    return {**spec, "method": f"{(folder / SOURCE).resolve()}:{name}"}


def _read_spec(plain: dict[str, Any]) -> RunSpec:
    """The spec; a `ValueError` where a setting is impossible."""
    try:
        return RunSpec.from_json(plain)
    except OutlandError as problem:
        raise ValueError(str(problem)) from None


def _built(file: ModelFile, spec: RunSpec, saved: Snapshot, folder: Path) -> TrainedModel:
    schema = Schema.from_json(file.schema_)
    method = rebuild_method(spec.method, schema, spec.backbone, spec.method_params, saved.group("model"))
    reference, source = saved.group("reference"), folder / SOURCE
    distance = None
    if file.distance is not None:
        distance = KNNDistance(**saved.group("distance"), **file.distance.model_dump())  # type: ignore[arg-type]
    return TrainedModel(
        method=method.eval(),
        spec=spec,
        classes=tuple(file.classes),
        calibration=Calibration(tuple(file.calibration.temperature), tuple(file.calibration.offset)),
        training=file.training,
        distance=distance,
        assessment=file.assessment,
        reference=PackedGraphs.from_tensors(reference) if reference else None,
        training_hashes=saved.tensors["training.hashes"].long().flatten().unique(),
        source=read_bounded(source, MAX_JSON).decode("utf-8") if source.exists() else "",
    )
