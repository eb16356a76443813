"""The result of a run: one JSON file that is written once, whole."""

import json
import math
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from outland.errors import OutlandError
from outland.settings import is_valid
from outland.spec import RESULTS
from outland.storage.files import read_json, write_text

FORMAT = 2
NUMBERS = dict[str, int | float | None]
CURVES = list[dict[str, int | NUMBERS | dict[str, NUMBERS]]]
_NESTED = {
    "curves": CURVES,
    "selection": dict[str, NUMBERS],
    "timing": dict[str, float | str | list[float]],
}


class RunRecord(BaseModel):
    """The result of a run.

    The curves hold loss terms, diagnostics of the method, and scores of every epoch; where averaged weights are kept,
    also the scores of the plain ones, as `unaveraged`.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    key: str  # hash of the spec
    spec: dict[str, Any]
    metric: str  # what the scores are
    data: dict[str, Any]  # where the graphs came from, and how many there are in each part
    curves: list[dict[str, Any]]
    selection: dict[str, dict[str, Any]]  # epoch and scores under every rule
    selected: str  # the rule that selected the saved model
    masks: dict[str, dict[str, float]]  # how well the method's masks find the truth, by part, where both are there
    parameters: dict[str, int]  # how many there are, in all and by part
    platform: dict[str, str]  # versions and device
    timing: dict[str, Any]  # seconds of the device in all and of each epoch; all that differs between equal runs
    format: int = FORMAT

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, kind in _NESTED.items():
            if not is_valid(getattr(self, name), kind):
                raise ValueError(f"{name} is not of the right kind")
        if self.selected not in self.selection or "total" not in self.parameters or "seconds" not in self.timing:
            raise ValueError("the selected rule, the parameters or the seconds are missing")
        counts = self.data.get("class_counts", {})
        if not is_valid(counts, dict[str, list[int]]) or any(len(c) != 2 or min(c) < 0 for c in counts.values()):
            raise ValueError("the numbers of both classes are not of the right kind")
        return self

    def write(self, path: Path) -> None:
        """Write the record in one piece."""
        write_text(path, json.dumps(self.model_dump(), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> "RunRecord":
        """Read a record, or say why it is none."""
        try:
            return cls.from_json(read_json(path))
        except (OSError, ValueError) as problem:
            reason = str(problem)
        raise OutlandError(f"{path} is not a run record ({reason}); start the run again with --force")

    @classmethod
    def from_json(cls, plain: Any) -> "RunRecord":
        """A record from plain values; a `ValueError` where it is none."""
        try:
            if plain.get("format", 0) > FORMAT:
                raise ValueError("it was written by a newer version of outland")
            return cls(**plain)
        except ValidationError as problem:
            error = problem.errors()[0]
            where = ".".join(map(str, error["loc"]))
            raise ValueError(f"{where} is not of the right kind: {error['msg']}") from None
        except (TypeError, AttributeError) as problem:
            raise ValueError(str(problem)) from None

    @property
    def test_score(self) -> float:
        """The test score of the selected model; NaN where it could not be computed."""
        score = self.selection[self.selected]["test"]
        return math.nan if score is None else float(score)


def describe_platform(device: torch.device) -> dict[str, str]:
    """Versions of what a result may depend on, and the device."""
    versions = {"python": platform.python_version(), "device": str(device), "machine": platform.machine()}
    versions["results"] = str(RESULTS)
    if device.type == "cuda":
        versions["device"] = torch.cuda.get_device_name(device)
    else:
        versions["threads"] = str(torch.get_num_threads())
    for package in ("outland", "torch", "torch-geometric", "numpy", "rdkit", "scikit-image"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
