"""Whether a recipe sets what runs have, to values that they take."""

from typing import Any

from outland.errors import OutlandError
from outland.methods import is_file, method_settings
from outland.nn import BackboneSettings
from outland.recipes import Recipe, recipe_error
from outland.settings import change
from outland.training import TrainSettings

_FIXED: dict[str, Any] = {"backbone": BackboneSettings, "train": TrainSettings}


def check_recipe(recipe: Recipe) -> Recipe:
    """The recipe, if every line of it can be carried out; else one error that tells all mistakes.

    What is set of a method in a file of its own is not looked at: the file would have to be run.
    """
    sections: dict[str, dict[str, Any]] = {}
    for path, entry in recipe.entries():
        section, _, name = path.rpartition(".")
        sections.setdefault(section, {})[name] = entry.value
    mistakes = [words for place, values in sections.items() for words in _mistakes(place, values)]
    if mistakes:
        raise recipe_error(recipe.name, mistakes)
    return recipe


def _mistakes(place: str, values: dict[str, Any]) -> list[str]:
    """What is wrong with one section."""
    _, group, *rest = place.split(".")
    method = ".".join(rest)
    if is_file(method):
        return []
    try:
        start: Any = _FIXED[group]() if group in _FIXED else method_settings(method, {})
    except OutlandError as problem:
        return [f"[{place}]: {problem}"]
    found = []
    for name, value in values.items():
        try:
            change(start, {name: value}, group)
        except OutlandError as problem:
            found.append(f"[{place}] {name}: {problem}")
    return found
