"""Hyper-parameters by dataset, each with where it comes from: one readable TOML file a dataset."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outland.errors import OutlandError, unknown
from outland.storage.files import read_bounded

Changes = dict[str, dict[str, Any]]
GROUPS = ("backbone", "train", "method")
MAX_RECIPE = 1 << 20  # bytes
_MAX_DOTS = 100  # of names in a line: what a name of many parts takes to read grows with their square
_UNNAMED = re.compile(  # strings and comments; one that does not end goes on to where the parser gives up
    r'''"""(?:[^\\]|\\[\s\S])*?(?:"{3,5}|\\?\Z)|\'{3}[\s\S]*?(?:\'{3,5}|\Z)'''
    r"""|"(?:[^"\\\n]|\\.)*"?|\'[^\'\n]*\'?|\#[^\n]*"""
)


class Entry(BaseModel):
    """A value and where it comes from: `{ value = 0.001, source = "paper" }`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    value: Any
    source: str


class RecipeSetting(NamedTuple):
    """A hyper-parameter as in `--set GROUP.NAME=VALUE`, and its source."""

    group: str
    name: str
    value: Any
    source: str


class Section(BaseModel):
    """Entries of one section, as `[common.train]` or `[size.method.aia]`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    backbone: dict[str, Entry] = {}
    train: dict[str, Entry] = {}
    method: dict[str, dict[str, Entry]] = {}

    def entries(self) -> Iterator[tuple[str, dict[str, Entry]]]:
        """Each group, or group and method, with its entries."""
        yield from {"backbone": self.backbone, "train": self.train}.items()
        yield from ((f"method.{method}", entries) for method, entries in self.method.items())


class DatasetSize(BaseModel):
    """How large a dataset is, for estimates of time.

    Attributes:
        train: training graphs.
        scored: graphs of the other parts, which are scored after every epoch.
        nodes, edges: of a graph, on average; an edge counts in both directions.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    train: int
    scored: int
    nodes: float
    edges: float


class Recipe(BaseModel):
    """The hyper-parameters of a dataset: `common` ones, and sections for a dataset, domain, kind or `domain-kind`.

    Attributes:
        datasets: what it is for.
        about: one line.
        extends: another recipe, whose `common` sections come before this one's.
        expected: the paper's mean and standard deviation of test scores in per cent, by section and method.
        shape: how large datasets are, by section.
        name: of the file, for people.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, Section] = Field(init=False)
    datasets: list[str]
    about: str
    extends: str | None = None
    expected: dict[str, dict[str, list[float]]] = {}
    shape: dict[str, DatasetSize] = {}
    name: str = ""

    @property
    def sections(self) -> dict[str, Section]:
        """All sections by name."""
        return self.__pydantic_extra__ or {}

    def settings_for(self, dataset: str, domain: str, kind: str, method: str) -> list[RecipeSetting]:
        """What is set for a method on a domain; where sections disagree, the more special one counts.

        A preset, as `aia:paper`, has a section of its own or takes the method's.
        """
        settings: dict[tuple[str, str], RecipeSetting] = {}
        has_preset = any(method in section.method for section in self.sections.values())
        name = method if has_preset else method.partition(":")[0]
        for title in ("common", dataset, domain, kind, f"{domain}-{kind}"):
            section = self.sections.get(title, Section())
            groups = {"backbone": section.backbone, "train": section.train, "method": section.method.get(name, {})}
            for group, entries in groups.items():
                for key, entry in entries.items():
                    settings[group, key] = RecipeSetting(group, key, entry.value, entry.source)
        return list(settings.values())

    def changes(self, dataset: str, domain: str, kind: str, method: str) -> Changes:
        """The same, as changes of a `RunSpec`."""
        changes: Changes = {group: {} for group in GROUPS}
        for setting in self.settings_for(dataset, domain, kind, method):
            changes[setting.group][setting.name] = setting.value
        return changes

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Every entry with its path in the file, as `common.train.epochs`."""
        for title, section in self.sections.items():
            for group, entries in section.entries():
                yield from ((f"{title}.{group}.{name}", entry) for name, entry in entries.items())

    def expected_scores(self, dataset: str, domain: str, kind: str) -> dict[str, tuple[float, float]]:
        """The paper's test scores: mean and standard deviation in per cent, by method."""
        rows = self.expected.get(f"{domain}-{kind}", self.expected.get(dataset, {}))
        return {method: (pair[0], pair[-1]) for method, pair in rows.items() if pair}

    def dataset_size(self, dataset: str, domain: str, kind: str) -> DatasetSize | None:
        """How large the dataset is on a domain, where that is known."""
        return self.shape.get(f"{domain}-{kind}", self.shape.get(dataset))

    def extended(self) -> "Recipe":
        """The recipe with the `common` sections of the one it extends."""
        if self.extends is None:
            return self
        base, added = (recipe.sections.get("common", Section()) for recipe in (find_recipe(self.extends), self))
        methods = {
            name: base.method.get(name, {}) | added.method.get(name, {}) for name in {**base.method, **added.method}
        }
        common = Section(backbone=base.backbone | added.backbone, train=base.train | added.train, method=methods)
        return self.model_copy(update={"common": common, "extends": None})


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))


@lru_cache
def recipe_for(dataset: str) -> Recipe | None:
    """The recipe of a dataset, if there is one; a user's own table is the dataset `table`."""
    recipes = (_packaged(name) for name in recipe_names())
    return next((recipe for recipe in recipes if dataset in recipe.datasets), None)


def find_recipe(name: str) -> Recipe:
    """A recipe by its own name, by that of its dataset, or from a TOML file."""
    if name.endswith(".toml"):
        try:
            return _read(name, read_bounded(Path(name), MAX_RECIPE, follow=True).decode("utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            raise OutlandError(f"the recipe {name} cannot be read: {problem}") from None
    if name in recipe_names():
        return _packaged(name)
    recipe = recipe_for(name)
    if recipe is None:
        raise unknown("recipe", name, recipe_names())
    return recipe


def _folder() -> Any:
    return files("outland.recipes")


@lru_cache
def _packaged(name: str) -> Recipe:
    return _read(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _read(name: str, text: str) -> Recipe:
    """Parse a recipe; all its mistakes are in one error."""
    try:
        if max(map(_dots, _UNNAMED.sub('""', text).split("\n"))) > _MAX_DOTS:
            raise recipe_error(
                name, [f"more than {_MAX_DOTS} dots in the names of a line; write [common.train] and the like"]
            )
        recipe = Recipe(**{**tomllib.loads(text), "name": name})
    except ValidationError as problem:
        raise recipe_error(name, list(dict.fromkeys(map(_mistake, problem.errors())))) from None
    except (ValueError, RecursionError) as problem:
        raise OutlandError(f"the recipe {name} is not TOML: {problem}") from None
    return recipe.extended()


def _dots(line: str) -> int:
    """The dots in names of more than two parts, if they may be too many; a number has one dot."""
    if line.count(".") <= _MAX_DOTS:
        return 0
    dots = (part.count(".") for part in re.split(r"[=,\[\]{}]", line))
    return sum(number for number in dots if number > 1)


def _mistake(error: Any) -> str:
    """A pydantic error as a sentence about the file."""
    section, *path = (str(word) for word in error["loc"])
    if error["type"] == "missing" and not path:
        return f"it must say its {section}, as in {section} = ..."
    if section in Recipe.model_fields:
        return f"{section} has not the form that it has in the recipes of the package"
    if not path:
        return f"'{section}' is not a section; write [common.train] and the like"
    if path[0] not in GROUPS:
        return str(unknown(f"group of settings in [{section}]", path[0], GROUPS))
    depth = 3 if path[0] == "method" else 2
    if len(path) < depth:
        title = ".".join([section, *path])
        return f"'{title}' is not a section; write [{title}]"
    return f'{".".join([section, *path[:depth]])} must be written {{ value = ..., source = "..." }}'


def recipe_error(name: str, mistakes: Sequence[str]) -> OutlandError:
    """All that is wrong with a recipe, in one sentence, or a line each."""
    if len(mistakes) == 1:
        return OutlandError(f"the recipe {name}: {mistakes[0]}")
    return OutlandError("\n- ".join([f"the recipe {name} has {len(mistakes)} mistakes:", *mistakes]))
