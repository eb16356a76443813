"""Everything that determines a run, and its name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from outland.datasets import find_dataset
from outland.files import canonical_json, digest
from outland.methods import MethodSettings, method_settings
from outland.nn import BackboneSettings
from outland.settings import change, parse_assignments
from outland.training.settings import TrainSettings

GROUPS = ("method", "backbone", "train", "data")


@dataclass(frozen=True)
class DataSettings:
    """Which graphs.

    Args:
        seed: of the dataset's generator or splitter.
        limit: at most so many graphs a part; None takes them all.
    """

    seed: int = 123
    limit: int | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run, fully spelled out. Two runs with equal specs give equal results.

    Args:
        dataset, shift, kind: the data, what shifts in it, and how.
        method: its name; `settings` are its hyper-parameters.
        seed: of initial weights, batch order, dropout and the method's own draws.
    """

    dataset: str
    shift: str
    kind: str
    method: str
    settings: MethodSettings
    backbone: BackboneSettings
    train: TrainSettings
    data: DataSettings
    seed: int

    @classmethod
    def make(
        cls,
        dataset: str,
        method: str,
        shift: str | None = None,
        kind: str | None = None,
        seed: int = 0,
        changes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "RunSpec":
        """Fill in defaults: the dataset's recommendations first, then `changes`, by group and name."""
        source = find_dataset(dataset)
        shift, kind = shift or source.domains[0], kind or source.kinds[0]
        source.check(shift, kind)
        values: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
        for path, value in source.recommended.items():
            group, _, name = path.partition(".")
            values[group][name] = value
        for group, given in (changes or {}).items():
            values[group] |= given
        return cls(
            dataset=dataset,
            shift=shift,
            kind=kind,
            method=method.partition(":")[0],
            settings=method_settings(method, values["method"]),
            backbone=change(BackboneSettings(), values["backbone"], "backbone"),
            train=change(TrainSettings(), values["train"], "train"),
            data=change(DataSettings(), values["data"], "data"),
            seed=seed,
        )

    @classmethod
    def from_words(cls, dataset: str, method: str, words: list[str], **rest: Any) -> "RunSpec":
        """As `make`, with changes written `group.name=value`."""
        return cls.make(dataset, method, changes=parse_assignments(words, GROUPS), **rest)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @property
    def key(self) -> str:
        """Hash of everything above."""
        return digest(canonical_json(self.to_json()))[:12]

    @property
    def slug(self) -> str:
        """A readable, unique name for a folder."""
        return f"{self.dataset}-{self.shift}-{self.kind}-{self.method}-seed{self.seed}-{self.key}"
