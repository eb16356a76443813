"""A check that a recipe sets only settings that runs have, to values that they take."""

from typing import Any

from outland.errors import OutlandError
from outland.methods import is_file, method_settings
from outland.nn import BackboneSettings
from outland.recipes import Recipe, recipe_error
from outland.settings import change
from outland.spec import TrainSettings

_FIXED: dict[str, Any] = {"backbone": BackboneSettings, "train": TrainSettings}


def check_recipe(recipe: Recipe) -> Recipe:
    """The recipe, if all of its entries can be set; else one error that lists all mistakes.

    Settings of a method in a file of its own are not checked: the file would have to be run.
    """
    sections: dict[str, dict[str, Any]] = {}
    for path, entry in recipe.entries():
        section, _, name = path.rpartition(".")
        sections.setdefault(section, {})[name] = entry.value
    mistakes = [mistake for section, values in sections.items() for mistake in _mistakes(section, values)]
    if mistakes:
        raise recipe_error(recipe.name, mistakes)
    return recipe


def _mistakes(section: str, values: dict[str, Any]) -> list[str]:
    _, group, *rest = section.split(".")
    method = ".".join(rest)
    if is_file(method):
        return []
    try:
        defaults: Any = _FIXED[group]() if group in _FIXED else method_settings(method, {})
    except OutlandError as problem:
        return [f"[{section}]: {problem}"]
    mistakes = []
    for name, value in values.items():
        try:
            change(defaults, {name: value}, group)
        except OutlandError as problem:
            mistakes.append(f"[{section}] {name}: {problem}")
    return mistakes
