"""A description of a dataset in sentences, to read before training."""

from collections import Counter
from pathlib import Path

import torch

from outland.errors import counted
from outland.graphs import Splits
from outland.progress import echo
from outland.report.summaries import problem_lines
from outland.storage.files import writable_folder
from outland.tables.rows import write_quarantine

_WIDE = 1e4  # largest number by smallest, from which on logarithms are suggested


def describe_dataset(splits: Splits) -> list[str]:
    """Sizes, labels, and for a user's table the rows set aside, duplicates and contradictions."""
    source, task = splits.source, splits.schema.task
    sizes = ", ".join(f"{part} {len(index):,}" for part, index in splits.parts.items())
    lines = [f"{source.get('dataset', 'graphs')}: {sizes}"]
    if "superpixels" in source:
        lines.append(f"superpixels: {source['superpixels']}")
    if "rows" not in source:
        return lines
    quarantined = len(source["quarantine"])
    lines.append(f"{source['used']:,} of {source['rows']:,} rows are usable; {quarantined:,} set aside")
    reasons = {row: f"column '{column}': {reason}" for row, column, _, reason in source["quarantine"]}
    lines += problem_lines(Counter(reasons.values()), {reason: row for row, reason in reversed(reasons.items())})
    lines.append(f"task: {task.kind}, scored by {task.metric}; {_balance(splits)}")
    lines += _unscorable(splits) + _log_hint(splits)
    if source["duplicates"]:
        lines.append(
            f"{_of(source['duplicates'], 'row', 'repeats', 'repeat')} a molecule; "
            f"{_of(source['contradictions'], 'molecule', 'has', 'have')} rows that disagree on the label (all are kept)"
        )
    if source["fragments"]:
        salts = _of(source["fragments"], "molecule", "is a salt or mixture", "are salts or mixtures")
        lines.append(f"{salts} of several fragments (kept whole)")
    atoms = splits.graphs.node_counts
    scaffolds = len(splits.graphs.extra["scaffold"].unique())
    lines.append(
        f"{counted(scaffolds, 'scaffold')}; from {int(atoms.min())} to {int(atoms.max())} atoms, half of them up to "
        f"{int(atoms.median())}"
    )
    if "environments" in source:
        lines.append(f"{counted(splits.schema.environments, 'training environment')}, by {source['environments']}")
    return lines


def _of(number: int, noun: str, singular: str, plural: str) -> str:
    """A number, its noun and the predicate that goes with them."""
    return f"{counted(number, noun)} {singular if number == 1 else plural}"


def _unscorable(splits: Splits) -> list[str]:
    """Warnings for parts with one class only, on which a ranking metric is undefined."""
    if splits.schema.task.kind != "binary":
        return []
    labels = {part: splits.graphs.y[index] for part, index in splits.parts.items()}
    return [
        f"warning: {part} has one class only, so it cannot be scored; another --domain may do better"
        for part, y in labels.items()
        if not ((y == 0).any(0) & (y == 1).any(0)).any()
    ]


def _log_hint(splits: Splits) -> list[str]:
    """A hint where positive numbers span many orders of magnitude."""
    y = splits.graphs.y.reshape(len(splits.graphs), -1)
    columns = [each[~each.isnan()] for each in y.T] if splits.schema.task.kind == "regression" else []
    if any(len(known) and 0 < known.min() < known.max() / _WIDE for known in columns):
        return ["hint: the labels span many orders of magnitude; a column of their logarithms is easier to learn"]
    return []


def _balance(splits: Splits) -> str:
    y, task = splits.graphs.y, splits.schema.task
    names = splits.source.get("classes") or []
    if task.kind == "regression":
        known = y[~y.isnan()]
        return f"labels from {known.min():.3g} to {known.max():.3g}, mean {known.mean():.3g}"
    if task.kind == "multiclass":
        counts = torch.bincount(y, minlength=task.outputs).tolist()
        return ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=False))
    positive, known_count = int((y == 1).sum()), int((~y.isnan()).sum())
    yes = f"'{names[1]}'" if len(names) > 1 else "1"
    return f"{positive:,} of {known_count:,} labels are {yes}, {int(y.isnan().sum()):,} unknown"


def print_description(splits: Splits, quarantine: Path) -> None:
    """Print the description of a dataset, and write the rows set aside to `quarantine`, if there are any."""
    echo("\n".join(describe_dataset(splits)))
    if splits.source.get("quarantine"):
        writable_folder(quarantine.parent)
        echo(f"rows set aside: {write_quarantine(splits, quarantine)}")
