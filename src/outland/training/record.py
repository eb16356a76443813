"""Everything that came out of a run, in one JSON file that is written once, whole."""

import json
import math
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from outland.errors import OutlandError
from outland.settings import shaped
from outland.storage.files import read_json, write_text

FORMAT = 1
_FORM: dict[str, Any] = {
    **dict.fromkeys(("key", "metric", "selected"), str),
    **dict.fromkeys(("spec", "data"), dict[str, Any]),
    "curves": list[dict[str, int | dict[str, float | None]]],
    **dict.fromkeys(("selection", "masks"), dict[str, dict[str, float | None]]),
    "parameters": dict[str, int],
    "platform": dict[str, str],
    "timing": dict[str, float | str | list[float]],
}


@dataclass(frozen=True)
class RunRecord:
    """The result of a run.

    Args:
        key: hash of the spec.
        spec: the spec, as plain values.
        metric: what the scores are.
        data: where the graphs came from, and how many there are in each part.
        curves: loss terms, what the method watches, and scores of every epoch; where averaged weights are kept, also
            the scores of the plain ones, as `unaveraged`.
        selection: epoch and scores under every rule.
        selected: the rule that selected the saved model.
        masks: how well the method's masks find the truth, by part, where both are there.
        parameters: how many there are, in all and by part.
        platform: versions and device.
        timing: seconds in all and of each epoch; the one field that differs between equal runs.
    """

    key: str
    spec: dict[str, Any]
    metric: str
    data: dict[str, Any]
    curves: list[dict[str, Any]]
    selection: dict[str, dict[str, Any]]
    selected: str
    masks: dict[str, dict[str, float]]
    parameters: dict[str, int]
    platform: dict[str, str]
    timing: dict[str, Any]
    format: int = FORMAT

    def write(self, path: Path) -> None:
        """Write the record in one piece."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> "RunRecord":
        """Read a record, or say why it is none."""
        try:
            plain = read_json(path)
            if plain.get("format", 0) > FORMAT:
                raise OutlandError(f"{path} was written by a newer version of outland")
            return cls(**plain)._checked()
        except (OSError, ValueError, TypeError, AttributeError) as problem:
            raise OutlandError(f"{path} is not a run record ({problem}); start the run again with --force") from None

    def _checked(self) -> "RunRecord":
        """This record, if all of it has the form that `write` gives it."""
        wrong = [name for name, kind in _FORM.items() if not shaped(getattr(self, name), kind)]
        if wrong:
            raise ValueError(f"{wrong[0]} is not of the right kind")
        if self.selected not in self.selection or "total" not in self.parameters or "seconds" not in self.timing:
            raise ValueError("the selected rule, the parameters or the seconds are missing")
        classes = self.data.get("classes", {})
        if not shaped(classes, dict[str, list[int]]) or any(len(c) != 2 or min(c) < 0 for c in classes.values()):
            raise ValueError("the numbers of both classes are not of the right kind")
        return self

    @property
    def test_score(self) -> float:
        """The test score of the chosen model; NaN where it could not be taken."""
        score = self.selection[self.selected]["test"]
        return math.nan if score is None else float(score)


def describe_platform(device: torch.device) -> dict[str, str]:
    """Versions of what a result may depend on, and the device."""
    found = {"python": platform.python_version(), "device": str(device), "machine": platform.machine()}
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
    else:
        found["threads"] = str(torch.get_num_threads())
    for package in ("outland", "torch", "torch-geometric", "numpy", "rdkit", "scikit-image"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
