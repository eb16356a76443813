"""Everything that determines a run, and its name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from outland.datasets import TableSettings, find_dataset
from outland.errors import unknown
from outland.methods import MethodSettings, is_file, method_settings, resolve_method_file, split_name
from outland.nn import BackboneSettings
from outland.recipes import Recipe
from outland.settings import Count, PositiveInt, change, check_ranges, parse_assignments, settings
from outland.storage.files import canonical_json, checksum, digest
from outland.training.settings import TrainSettings

GROUPS = ("method", "backbone", "train", "data")


@settings("data")
class DataSettings:
    """Which graphs.

    Args:
        seed: of the dataset's generator or splitter.
        limit: at most so many graphs a part; None takes them all.
    """

    seed: Count = 123
    limit: PositiveInt | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run, fully spelled out. Two runs with equal specs give equal results.

    Args:
        dataset, domain, kind: the data, the domain that shifts (scaffold, size, base, colour), and the kind of shift.
        method: its name; `method_params` are its hyper-parameters.
        table: the user's own table, where that is the data.
        preset: the named settings that `method_params` started from, for the reader.
        code: checksum of the method's file, where it is in a file of its own.
        seed: of initial weights, batch order, dropout and the method's own draws.
    """

    dataset: str
    domain: str
    kind: str
    method: str
    method_params: MethodSettings
    backbone: BackboneSettings
    train: TrainSettings
    data: DataSettings
    seed: int
    table: TableSettings | None = None
    preset: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, "run", seed=(0, None))

    @classmethod
    def make(
        cls,
        dataset: str,
        method: str,
        domain: str | None = None,
        kind: str | None = None,
        seed: int = 0,
        changes: Mapping[str, Mapping[str, Any]] | None = None,
        table: TableSettings | None = None,
        recipe: Recipe | None = None,
    ) -> "RunSpec":
        """Fill in defaults: the dataset's recommendations first, then the recipe, then `changes`, by group and name."""
        if table is not None:
            table = table.opened()
            dataset = Path(table.file).name.split(".")[0]
        source = find_dataset(dataset, table)
        domain, kind = domain or source.domains[0], kind or source.kinds[0]
        source.check(domain, kind)
        values: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
        for path, value in source.recommended.items():
            group, _, name = path.partition(".")
            values[group][name] = value
        if recipe is not None:
            for group, advised in recipe.changes(dataset, domain, kind, method).items():
                values[group] |= advised
        for group, given in (changes or {}).items():
            if group not in values:
                raise unknown("group of settings", group, values)
            values[group] |= given
        return cls(
            dataset=dataset,
            domain=domain,
            kind=kind,
            method=resolve_method_file(method) if is_file(method) else split_name(method)[0],
            method_params=method_settings(method, values["method"]),
            backbone=change(BackboneSettings(), values["backbone"], "backbone"),
            train=change(TrainSettings(), values["train"], "train"),
            data=change(DataSettings(), values["data"], "data"),
            seed=seed,
            table=table,
            preset=split_name(method)[1],
            code=checksum(Path(method.rpartition(":")[0])) if is_file(method) else "",
        )

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "RunSpec":
        """The inverse of `to_json`."""
        table = plain["table"]
        return cls(
            **{name: plain[name] for name in ("dataset", "domain", "kind", "method", "seed", "preset")},
            code=plain.get("code", ""),
            method_params=method_settings(plain["method"], plain["method_params"]),
            backbone=change(BackboneSettings(), plain["backbone"], "backbone"),
            train=change(TrainSettings(), plain["train"], "train"),
            data=change(DataSettings(), plain["data"], "data"),
            table=None if table is None else change(TableSettings(table["file"]), table, "table"),
        )

    @classmethod
    def from_words(cls, dataset: str, method: str, words: list[str], **rest: Any) -> "RunSpec":
        """As `make`, with changes written `group.name=value`."""
        return cls.make(dataset, method, changes=parse_assignments(words, GROUPS), **rest)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @cached_property
    def key(self) -> str:
        """Hash of everything above; of a table and of a method's file the content counts, not the place."""
        plain = self.to_json()
        plain.pop("preset")
        if is_file(self.method):
            plain["method"] = self.method.rpartition(":")[2]
        else:
            plain.pop("code")
        if self.table is not None:
            plain["table"] = {name: value for name, value in plain["table"].items() if name not in ("file", "strict")}
        return digest(canonical_json(plain))[:12]

    @property
    def slug(self) -> str:
        """A readable, unique name for a folder."""
        plain = self.method.rpartition(":")[2] if is_file(self.method) else self.method
        method = f"{plain}-{self.preset}" if self.preset else plain
        return f"{self.dataset}-{self.domain}-{self.kind}-{method}-seed{self.seed}-{self.key}"
