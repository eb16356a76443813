"""`outland list`: what there is."""

from typing import Any

from rich.table import Table
from rich.text import Text

from outland.errors import unknown

_COST = "cost: time of a training step on Motif (width 300, batch 32), measured on a CPU, relative to ERM"


def datasets() -> Table:
    """Datasets and their shifts."""
    from outland.datasets import DATASETS, find_dataset

    table = _table("dataset", "shifts", "kinds", "what it is")
    for name in DATASETS:
        dataset = find_dataset(name)
        table.add_row(name, ", ".join(dataset.domains), ", ".join(dataset.kinds), dataset.summary)
    return table


def methods() -> Table:
    """Methods, what they need and what they cost."""
    from outland.methods import METHODS, find_method
    from outland.studies.durations import method_costs

    table = _table("method", "family", "paper", "env.", "masks", "cost", caption=_COST)
    costs = method_costs()
    for name in METHODS:
        method = find_method(name)
        needs = "needed" if method.needs_environments else ""
        masks = "yes" if method.has_masks else ""
        cost = f"{costs[name]:.1f}" if name in costs else ""
        table.add_row(name, method.family, method.citation, needs, masks, cost)
        for preset in method.presets:
            table.add_row(f"{name}:{preset}", "", "", "", "", "")
    return table


def backbones() -> Table:
    """Backbones."""
    from outland.nn import BACKBONES

    table = _table("backbone", "what it is")
    for name, backbone in BACKBONES.items():
        table.add_row(name, Text((backbone.__doc__ or "").partition("\n")[0]))
    return table


def settings(of: str | None = None) -> Table:
    """Settings of a group, of a method or preset, or all of them."""
    from outland.methods import METHODS, method_settings, split_name
    from outland.nn import BackboneSettings
    from outland.settings import describe
    from outland.training import DataSettings, TrainSettings

    fixed: dict[str, Any] = {"data": DataSettings(), "backbone": BackboneSettings(), "train": TrainSettings()}
    if of is None:
        chosen = fixed | {name: method_settings(name, {}) for name in METHODS}
    elif of in fixed:
        chosen = {of: fixed[of]}
    elif split_name(of)[0] in METHODS or ".py" in of:
        chosen = {of: method_settings(of, {})}
    else:
        raise unknown("group of settings", of, [*fixed, *METHODS])
    table = _table("setting", "default", "meaning", title="For --set GROUP.NAME=VALUE; a dataset may start from others")
    for group, values in chosen.items():
        table.add_section()
        usual = {name: value for name, value, _ in describe(type(values)())}
        for name, value, meaning in describe(values):
            label = f"{group}.{name}" if group in fixed else f"method.{name}" + (f" ({group})" if of is None else "")
            table.add_row(label, Text(value, "bold" if usual[name] != value else ""), Text(meaning))
    return table


def recipes(of: str | None = None) -> Table:
    """The recipes; or one of them, line by line."""
    from outland.recipes import find_recipe, recipe_names

    if of is None:
        table = _table("recipe", "datasets", "what it is")
        for name in recipe_names():
            recipe = find_recipe(name)
            table.add_row(name, ", ".join(recipe.datasets), recipe.about)
        return table
    table = _table("where", "setting", "value", "source", title="--set comes after it")
    last = ""
    for path, entry in find_recipe(of).entries():
        section, _, name = path.rpartition(".")
        table.add_row("" if section == last else section, name, str(entry.value), Text(entry.source))
        last = section
    return table


def _table(*columns: str, **rest: Any) -> Table:
    """A table that folds long words and never cuts them, and whose first column has names to be typed as they are."""
    table = Table(**rest)
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table
