"""Everything that determines a run, and its name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from outland.chem.descriptors import DESCRIPTORS
from outland.datasets import TableSettings, find_dataset
from outland.errors import OutlandError, unknown
from outland.methods import MethodSettings, is_file, method_settings, resolve_method_file, split_name
from outland.nn import BackboneSettings
from outland.recipes import Recipe, recipe_for
from outland.settings import GeneratorSeed, PositiveInt, Seed, change, parse, parse_assignments, settings
from outland.spec.train import TrainSettings
from outland.storage.files import canonical_json, checksum, digest

RESULTS = 1  # version of what specs give: raised by hand when a change of the code gives other results for equal specs
_LATER = ("descriptors", "unit_readout", "masked_readout")  # of the backbone, off in specs from before they were there
_BEFORE: dict[str, Any] = {"chirality": "tags"}  # settings of tables, as in specs from before they were there
GROUPS = ("method", "backbone", "train", "data")
Changes = Mapping[str, Mapping[str, Any]]


@settings("data")
class DataSettings:
    """Which graphs.

    Args:
        seed: of the dataset's generator or splitter.
        limit: at most so many graphs a part; None takes them all.
    """

    seed: GeneratorSeed = 123
    limit: PositiveInt | None = None


@dataclass(frozen=True)
class RunSpec:
    """A run, fully spelled out. Two runs with equal specs give equal results.

    Args:
        dataset, domain, kind: the data, the domain that shifts (scaffold, size, base, colour), and the kind of shift.
        method: its name; `method_params` are its hyper-parameters.
        backbone, train, data: settings of the network, the training loop and the dataset.
        seed: of initial weights, batch order, dropout and the method's own draws.
        table: the user's own table, where that is the data.
        preset: the named settings that `method_params` started from, for the reader.
        code: checksum of the method's file, where it is in a file of its own.
        data_checksum: of graphs that were given in memory.
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
    data_checksum: str = ""

    def __post_init__(self) -> None:
        parse(self.seed, Seed, "run.seed")

    @classmethod
    def make(
        cls,
        dataset: str,
        method: str,
        domain: str | None = None,
        kind: str | None = None,
        seed: int = 0,
        changes: Changes | None = None,
        table: TableSettings | None = None,
        recipe: Recipe | Literal["auto"] | None = "auto",
        data_checksum: str = "",
    ) -> "RunSpec":
        """Fill in defaults: the recipe first, then `changes`.

        Args:
            dataset, domain, kind, seed, table, data_checksum: as above; without a domain or kind, the dataset's first.
            method: NAME, NAME:PRESET or FILE.py:CLASS.
            changes: of settings, by group and name.
            recipe: `auto` for the dataset's own (`table` for a user's table and for graphs in memory); None for the
                defaults of the settings.
        """
        if table is not None:
            table = table.opened()
            dataset = Path(table.file).name.split(".")[0]
        if not data_checksum:
            source = find_dataset(dataset, table)
            domain, kind = domain or source.domains[0], kind or source.kinds[0]
            source.check(domain, kind)
        which = (dataset if table is None and not data_checksum else "table", domain or "", kind or "", method)
        if recipe == "auto":
            recipe = recipe_for(which[0])
        values = _merged({} if recipe is None else recipe.changes(*which), changes or {})
        return cls(
            dataset=dataset,
            domain=which[1],
            kind=which[2],
            method=resolve_method_file(method) if is_file(method) else split_name(method)[0],
            method_params=method_settings(method, values["method"]),
            backbone=change(BackboneSettings(), values["backbone"], "backbone"),
            train=change(TrainSettings(), values["train"], "train"),
            data=change(DataSettings(), values["data"], "data"),
            seed=seed,
            table=table,
            preset=split_name(method)[1],
            code=checksum(Path(method.rpartition(":")[0])) if is_file(method) else "",
            data_checksum=data_checksum,
        )

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "RunSpec":
        """The inverse of `to_json`."""
        table = plain["table"]
        return cls(
            **{name: plain[name] for name in ("dataset", "domain", "kind", "method", "seed", "preset")},
            **{name: plain.get(name, "") for name in ("code", "data_checksum")},
            method_params=method_settings(plain["method"], plain["method_params"]),
            backbone=change(BackboneSettings(), plain["backbone"], "backbone"),
            train=change(TrainSettings(), plain["train"], "train"),
            data=change(DataSettings(), plain["data"], "data"),
            table=None if table is None else change(TableSettings(table["file"], **_BEFORE), table, "table"),
        )

    @classmethod
    def from_words(cls, dataset: str, method: str, words: list[str], **rest: Any) -> "RunSpec":
        """As `make`, with changes written `group.name=value`; one without an effect is refused."""
        changes = parse_assignments(words, GROUPS)
        spec = cls.make(dataset, method, changes=changes, **rest)
        for name in ("readout", "pool"):
            readout = getattr(spec.method_params, name, "backbone")
            if "pool" in changes["backbone"] and readout != "backbone":
                raise OutlandError(
                    f"the readout of {method} is method.{name}={readout}, so that backbone.pool has no effect: set "
                    f"method.{name}=backbone, too, or method.{name} alone"
                )
        return spec

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @cached_property
    def key(self) -> str:
        """Hash of everything above that a result depends on; of a table and of a method's file the content counts."""
        return spec_key(self.to_json())

    @property
    def slug(self) -> str:
        """A readable, unique name for a folder."""
        plain = self.method.rpartition(":")[2] if is_file(self.method) else self.method
        method = f"{plain}-{self.preset}" if self.preset else plain
        return f"{self.dataset}-{self.domain}-{self.kind}-{method}-seed{self.seed}-{self.key}"


def spec_key(plain: Mapping[str, Any]) -> str:
    """The key of a spec as `to_json` gives it, whose settings need not be those of today."""
    hashed = {name: value for name, value in plain.items() if name != "preset"}
    hashed["train"] = {name: value for name, value in plain["train"].items() if name != "checkpoint_every"}
    if is_file(hashed["method"]):
        hashed["method"] = hashed["method"].rpartition(":")[2]
    else:
        hashed.pop("code", None)
    hashed["backbone"] = {name: value for name, value in plain["backbone"].items() if value or name not in _LATER}
    if hashed["table"] is None and not plain.get("data_checksum") and hashed["backbone"].get("descriptors"):
        hashed["backbone"]["descriptors"] = DESCRIPTORS  # a benchmark's are of this version
    if hashed["table"] is not None:
        table = {name: value for name, value in hashed["table"].items() if name not in ("file", "strict")}
        hashed["table"] = {name: value for name, value in table.items() if (name, value) not in _BEFORE.items()}
    return digest(canonical_json(hashed))[:12]


def _merged(recipe: Changes, changes: Changes) -> dict[str, dict[str, Any]]:
    """Settings by group, `changes` after the recipe; `epochs` among them switch a recipe's `total_samples` off."""
    for group in changes:
        if group not in GROUPS:
            raise unknown("group of settings", group, GROUPS)
    given = {group: dict(changes.get(group, {})) for group in GROUPS}
    if "epochs" in given["train"]:
        given["train"].setdefault("total_samples", None)
    return {group: {**recipe.get(group, {}), **given[group]} for group in GROUPS}
