"""The model folder: safetensors and JSON under one seal, with a card in Markdown. Reading it executes nothing."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outland.chem.featurizer import are_molecules
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Schema
from outland.models.card import card
from outland.models.checks import check_model
from outland.models.model import TrainedModel
from outland.models.model_file import (
    FORMAT,
    SOURCE,
    VERSION,
    ModelFile,
    featurizer,
    model_of_file,
    model_tensors,
    model_values,
)
from outland.storage.files import read_json, refuse_symlink, writable_folder
from outland.storage.folders import recover_folder
from outland.storage.locks import locked
from outland.storage.snapshots import SNAPSHOT_FILES, DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

CARD = "README.md"


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
    texts = {CARD: card(model)} | ({SOURCE: model.source} if model.source else {})
    write_snapshot(folder, Snapshot(model_tensors(model), _plain(model_values(model))), texts)
    return folder


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
        model = model_of_file(file, saved, folder, trust_code)
        check_model(model)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split()[:40])
        raise DamagedSnapshot(f"{folder} does not fit together: {reason}") from None
    return model.to(find_device(str(device)))


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
    known, written = featurizer(schema.node), file.featurizer or {}
    # Folders from before there were counts name none: their trees do not read them.
    read_here = written in (known, {name: known[name] for name in known if name != "counts"})
    read_here &= are_molecules(schema.node, schema.edge)
    if file.reads == "molecules" and not read_here:
        raise OutlandError(
            f"{folder} was made with other atom features than this version of outland reads: use version "
            f"{file.versions.get('outland', 'which made it')}, or fit it again"
        )
