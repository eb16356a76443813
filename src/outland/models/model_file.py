"""What a model folder holds, and how it becomes a model: values under a strict schema, tensors by name."""

from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from outland.chem.counts import COUNT_NAMES, COUNTS
from outland.chem.descriptors import DESCRIPTOR_NAMES, DESCRIPTORS, FINGERPRINT
from outland.chem.featurizer import ATOM_FIELDS, BOND_FIELDS, CIP_ATOM_FIELDS, CIP_ATOMS
from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema
from outland.methods import is_file, rebuild_method
from outland.models.calibration import Calibration
from outland.models.conformal import Conformal
from outland.models.expected_error import ExpectedError, FlagErrors
from outland.models.gaussian_process import GaussianProcess
from outland.models.knn import KNNDistance
from outland.models.members import Member, Network
from outland.models.model import Kind, TrainedModel
from outland.models.similarity import Neighbours
from outland.models.summary import Assessment, TrainingSummary
from outland.models.tree_tensors import TreeTensors
from outland.models.trees import Trees
from outland.spec import RunSpec
from outland.storage.files import MAX_JSON, checksum, read_bounded
from outland.storage.snapshots import Snapshot

VERSION = 3
FORMAT = "outland model"
SOURCE = "method.py"
_PACKAGES = ("outland", "torch", "scikit-learn", "rdkit", "numpy", "safetensors")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class _NetworkFile(_Strict):
    kind: Literal["network"]
    spec: dict[str, Any]
    offset: list[float]


class _TreesFile(_Strict):
    kind: Literal["forest", "boosting"]
    descriptors: Annotated[int, Field(ge=0, le=10_000)]  # and counts


class _GaussianProcessFile(_Strict):
    kind: Literal["gp"]


class _CalibrationFile(_Strict):
    temperature: list[float]
    offset: list[float]
    reason: str


class _Distance(_Strict):
    unit: float
    far: float


class _FlagFile(_Strict):
    rows: int
    error: float


class _ExpectedErrorFile(_Strict):
    names: list[Literal["dissimilarity", "distance", "spread", "extremity", "uncertainty"]]
    weights: list[float]
    edge: float
    far: float
    by_flag: list[_FlagFile]
    sorts: bool


class _ConformalFile(_Strict):
    least_scale: float


class ModelFile(_Strict):
    """The JSON of a model folder."""

    kind: Literal["outland model"]
    version: int
    reads: Kind
    spec: dict[str, Any]
    schema_: dict[str, Any]
    featurizer: dict[str, list[str]] | None
    classes: list[str] | list[bool] | list[int] | list[float]
    members: list[Annotated[_NetworkFile | _TreesFile | _GaussianProcessFile, Field(discriminator="kind")]]
    weights: list[float]
    calibration: _CalibrationFile
    distance: _Distance | None
    expected_error: _ExpectedErrorFile | None
    conformal: _ConformalFile | None
    training: TrainingSummary
    assessment: Assessment | None
    versions: dict[str, str]


def model_tensors(model: TrainedModel) -> dict[str, Tensor]:
    """All tensors of a model by name: what is saved beside its values."""
    groups: dict[str, dict[str, Tensor]] = {
        **{f"member.{number}": _member_tensors(member) for number, member in enumerate(model.members)},
        "training": {"hashes": model.training_hashes, "elements": model.training_elements},
        "reference": {} if model.reference is None else model.reference.tensors(),
    }
    if model.distance is not None:
        groups["distance"] = {name: getattr(model.distance, name) for name in ("center", "scale", "reference")}
    if model.neighbours is not None:
        groups["neighbours"] = {"fingerprints": model.neighbours.fingerprints}
    if model.expected_error is not None:
        groups["expected_error"] = {"knots": model.expected_error.knots}
    if model.conformal is not None:
        named = {name: getattr(model.conformal, name) for name in ("scores", "labels", "features")}
        groups["conformal"] = {name: tensor for name, tensor in named.items() if tensor is not None}
    return {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}


def _member_tensors(member: Member) -> dict[str, Tensor]:
    if isinstance(member, Network):
        return dict(member.method.state_dict())
    assert isinstance(member, Trees | GaussianProcess)
    return member.tensors()


def _member_values(member: Member) -> dict[str, Any]:
    if isinstance(member, Network):
        return {"kind": "network", "spec": member.spec.to_json(), "offset": list(member.offset)}
    if isinstance(member, GaussianProcess):
        return {"kind": "gp"}
    assert isinstance(member, Trees)
    return {"kind": member.kind, "descriptors": member.numbers}


def model_values(model: TrainedModel) -> dict[str, Any]:
    """The plain values of a model, as `ModelFile` has them."""
    distance = model.distance
    return {
        "kind": FORMAT,
        "version": VERSION,
        "reads": model.kind,
        "spec": model.spec.to_json(),
        "schema_": model.schema.to_json(),
        "featurizer": featurizer(model.schema.node) if model.kind == "molecules" else None,
        "classes": list(model.classes),
        "members": [_member_values(member) for member in model.members],
        "weights": list(model.weights),
        "calibration": asdict(model.calibration),
        "distance": None if distance is None else {"unit": distance.unit, "far": distance.far},
        "expected_error": None if model.expected_error is None else model.expected_error.to_json(),
        "conformal": None if model.conformal is None else {"least_scale": model.conformal.least_scale},
        "training": model.training.model_dump(),
        "assessment": None if model.assessment is None else model.assessment.model_dump(),
        "versions": {package: _version(package) for package in _PACKAGES},
    }


def featurizer(atoms: Features) -> dict[str, list[str]]:
    """What this version reads of a molecule, by name; `atoms` are the features of atoms."""
    vector = {
        "fingerprint": [FINGERPRINT],
        "descriptors": [DESCRIPTORS, *DESCRIPTOR_NAMES],
        "counts": [COUNTS, *COUNT_NAMES],
    }
    atom_fields = CIP_ATOM_FIELDS if atoms == CIP_ATOMS else ATOM_FIELDS
    return {"atoms": list(atom_fields), "bonds": list(BOND_FIELDS), **vector}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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


def _read_spec(plain: dict[str, Any], folder: Path, trust_code: bool) -> RunSpec:
    """The spec; a `ValueError` where a setting is impossible."""
    trusted = _trusted_spec(plain, folder, trust_code)
    try:
        return RunSpec.from_json(trusted)
    except OutlandError as problem:
        raise ValueError(str(problem)) from None


def _read_member(
    file: _NetworkFile | _TreesFile | _GaussianProcessFile,
    schema: Schema,
    tensors: dict[str, Tensor],
    folder: Path,
    trust_code: bool,
) -> Member:
    if isinstance(file, _NetworkFile):
        spec = _read_spec(file.spec, folder, trust_code)
        method = rebuild_method(spec.method, schema, spec.backbone, spec.method_params, tensors)
        return Network(method.eval(), spec, tuple(file.offset))
    if isinstance(file, _GaussianProcessFile):
        return GaussianProcess(schema.task, **tensors)
    column, base = tensors.pop("column"), tensors.pop("base")
    return Trees(file.kind, schema.task, TreeTensors(**tensors), column, base, file.descriptors)


def _read_expected_error(file: ModelFile, saved: Snapshot) -> ExpectedError | None:
    if file.expected_error is None:
        return None
    plain = file.expected_error.model_dump()
    lists = {"names": tuple(plain["names"]), "weights": tuple(plain["weights"])}
    by_flag = tuple(FlagErrors(**flag) for flag in plain["by_flag"])
    return ExpectedError(**{**plain, **lists, "by_flag": by_flag, **saved.group("expected_error")})


def _read_conformal(file: ModelFile, saved: Snapshot) -> Conformal | None:
    if file.conformal is None:
        return None
    values: dict[str, Any] = {**file.conformal.model_dump(), **saved.group("conformal")}
    return Conformal(**values)


def model_of_file(file: ModelFile, saved: Snapshot, folder: Path, trust_code: bool) -> TrainedModel:
    """The model of a folder whose values are `file`; errors of any kind where they do not fit its tensors."""
    schema = Schema.from_json(file.schema_)
    reference, source = saved.group("reference"), folder / SOURCE
    distance = None
    if file.distance is not None:
        distance = KNNDistance(**saved.group("distance"), **file.distance.model_dump())  # type: ignore[arg-type]
    calibration, neighbours = file.calibration, saved.group("neighbours")
    return TrainedModel(
        members=tuple(
            _read_member(member, schema, saved.group(f"member.{number}"), folder, trust_code)
            for number, member in enumerate(file.members)
        ),
        weights=tuple(file.weights),
        schema=schema,
        spec=_read_spec(file.spec, folder, trust_code),
        classes=tuple(file.classes),
        calibration=Calibration(tuple(calibration.temperature), tuple(calibration.offset), calibration.reason),
        training=file.training,
        distance=distance,
        neighbours=Neighbours(**neighbours) if neighbours else None,
        expected_error=_read_expected_error(file, saved),
        conformal=_read_conformal(file, saved),
        assessment=file.assessment,
        reference=PackedGraphs.from_tensors(reference) if reference else None,
        training_hashes=saved.tensors["training.hashes"].long().flatten().unique(),
        # Folders from before they were kept have none.
        training_elements=saved.group("training").get("elements", torch.zeros(0)).long().flatten().unique(),
        source=read_bounded(source, MAX_JSON).decode("utf-8") if source.exists() else "",
    )
