"""Hyper-parameters by dataset, each with where it comes from: one readable TOML file a dataset."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from outland.errors import OutlandError, unknown
from outland.settings import shaped

Changes = dict[str, dict[str, Any]]
_GROUPS = ("backbone", "train", "method")
_TOP = ("datasets", "about", "expected", "shape")


@dataclass(frozen=True)
class Ingredient:
    """One hyper-parameter.

    Args:
        group, name: as in `--set GROUP.NAME=VALUE`.
        value: what it is set to.
        source: where the value comes from.
    """

    group: str
    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class Shape:
    """How large a dataset is, for estimates of time.

    Args:
        train: training graphs.
        scored: graphs of the other parts, which are scored after every epoch.
        nodes, edges: of a graph, on average; an edge counts in both directions.
    """

    train: int
    scored: int
    nodes: float
    edges: float


@dataclass(frozen=True)
class Recipe:
    """The hyper-parameters of a dataset.

    Args:
        name: for people.
        plain: the file as it was read.
    """

    name: str
    plain: Mapping[str, Any]

    @property
    def datasets(self) -> tuple[str, ...]:
        """What it is for."""
        return tuple(self.plain["datasets"])

    @property
    def about(self) -> str:
        """One line."""
        return str(self.plain["about"])

    def ingredients(self, dataset: str, domain: str, kind: str, method: str) -> list[Ingredient]:
        """What is set for a method under a shift; where sections disagree, the more special one counts.

        A preset, as `aia:paper`, has a section of its own or takes the method's.
        """
        found: dict[tuple[str, str], Ingredient] = {}
        for section in ("common", dataset, domain, kind, f"{domain}-{kind}"):
            groups = self.plain.get(section, {})
            own = groups.get("method", {})
            named = own.get(method, {} if self._has(method) else own.get(method.partition(":")[0], {}))
            for group, rows in (
                ("backbone", groups.get("backbone", {})),
                ("train", groups.get("train", {})),
                ("method", named),
            ):
                for name, row in rows.items():
                    found[group, name] = Ingredient(group, name, row["value"], row["source"])
        return list(found.values())

    def lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every line: its place in the file, its value and source."""
        yield from _entries(self.plain, [])

    def _has(self, method: str) -> bool:
        """Whether any section speaks of this method or preset itself."""
        return any(method in part.get("method", {}) for name, part in self.plain.items() if name not in _TOP)

    def changes(self, dataset: str, domain: str, kind: str, method: str) -> Changes:
        """The same, as changes of a `RunSpec`."""
        changes: Changes = {group: {} for group in _GROUPS}
        for one in self.ingredients(dataset, domain, kind, method):
            changes[one.group][one.name] = one.value
        return changes

    def expected(self, dataset: str, domain: str, kind: str) -> dict[str, tuple[float, float]]:
        """The paper's test scores: mean and standard deviation in per cent, by method."""
        known = self.plain.get("expected", {})
        rows = known.get(f"{domain}-{kind}", known.get(dataset, {}))
        return {method: (pair[0], pair[-1]) for method, pair in rows.items() if pair}

    def shape(self, dataset: str, domain: str, kind: str) -> Shape | None:
        """How large the dataset is under a shift, where that is known."""
        known = self.plain.get("shape", {})
        row = known.get(f"{domain}-{kind}", known.get(dataset))
        return None if row is None else Shape(**row)


_FORM: dict[str, Any] = {
    "datasets": list[str],
    "about": str,
    "expected": dict[str, dict[str, list[float]]],
    "shape": dict[str, Shape],
}


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))


@lru_cache
def recipe_for(dataset: str) -> Recipe | None:
    """The recipe of a dataset, if there is one."""
    for name in recipe_names():
        recipe = _read(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
        if dataset in recipe.datasets:
            return recipe
    return None


def find_recipe(name: str) -> Recipe:
    """A recipe by its own name, by that of its dataset, or from a TOML file."""
    if name.endswith(".toml"):
        try:
            return _read(name, Path(name).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            raise OutlandError(f"the recipe {name} cannot be read: {problem}") from None
    if name in recipe_names():
        return _read(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    found = recipe_for(name)
    if found is None:
        raise unknown("recipe", name, recipe_names())
    return found


def _folder() -> Any:
    return files("outland.recipes")


def _read(name: str, text: str) -> Recipe:
    """A recipe, every line of it checked for its form; all mistakes are told at once."""
    try:
        plain = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise OutlandError(f"the recipe {name} is not TOML: {problem}") from None
    mistakes = [f"it must say its {word}, as in {word} = ..." for word in ("datasets", "about") if word not in plain]
    for word, kind in _FORM.items():
        if word in plain and not shaped(plain[word], kind):
            mistakes.append(f"{word} has not the form that it has in the recipes of the package")
    for place, row in _entries(plain, mistakes):
        if not shaped(row, dict[str, Any]) or set(row) != {"value", "source"} or not isinstance(row["source"], str):
            mistakes.append(f'{place} must be written {{ value = ..., source = "..." }}')
    if mistakes:
        raise recipe_error(name, mistakes)
    return Recipe(name, plain)


def recipe_error(name: str, mistakes: Sequence[str]) -> OutlandError:
    """All that is wrong with a recipe, in one sentence, or a line each."""
    if len(mistakes) == 1:
        return OutlandError(f"the recipe {name}: {mistakes[0]}")
    return OutlandError("\n- ".join([f"the recipe {name} has {len(mistakes)} mistakes:", *mistakes]))


def _entries(plain: Mapping[str, Any], mistakes: list[str]) -> Iterator[tuple[str, Any]]:
    """Every line and its place; what is not where lines can be is added to `mistakes`."""
    for section, groups in plain.items():
        if section in _TOP:
            continue
        if not isinstance(groups, dict):
            mistakes.append(f"'{section}' is not a section; write [common.train] and the like")
            continue
        for group, rows in groups.items():
            if group not in _GROUPS:
                mistakes.append(str(unknown(f"group of settings in [{section}]", group, _GROUPS)))
                continue
            named = rows.items() if group == "method" and isinstance(rows, dict) else [("", rows)]
            for method, own in named:
                place = ".".join(filter(None, (section, group, method)))
                if isinstance(own, dict):
                    yield from ((f"{place}.{key}", row) for key, row in own.items())
                else:
                    mistakes.append(f"'{place}' is not a section; write [{place}]")
