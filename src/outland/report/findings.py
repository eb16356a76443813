"""What a person should know of a dataset before anything is trained on it, in sentences."""

from pathlib import Path

import torch
import typer

from outland.datasets import DataFolder, find_dataset
from outland.datasets.table import write_quarantine
from outland.files import writable_folder
from outland.graphs import Splits
from outland.training import RunSpec


def findings(splits: Splits) -> list[str]:
    """Sizes, labels, and for a user's table the rows set aside, duplicates and contradictions."""
    source, task = splits.source, splits.schema.task
    sizes = ", ".join(f"{part} {len(index):,}" for part, index in splits.parts.items())
    lines = [f"{source.get('dataset', 'graphs')}: {sizes}"]
    if "superpixels" in source:
        lines.append(f"superpixels: {source['superpixels']}")
    if "rows" not in source:
        return lines
    aside = len(source["quarantine"])
    lines.append(f"{source['used']:,} of {source['rows']:,} rows are usable; {aside:,} set aside")
    lines.append(f"task: {task.kind}, scored by {task.metric}; {_balance(splits)}")
    if source["duplicates"]:
        lines.append(
            f"{source['duplicates']:,} rows repeat a molecule; {source['contradictions']:,} molecules have rows that "
            "disagree on the label (all are kept)"
        )
    if source["fragments"]:
        lines.append(f"{source['fragments']:,} molecules are salts or mixtures of several fragments (kept whole)")
    lines.append(f"{splits.schema.environments} training environments, by {source['environments']}")
    return lines


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


def tell(spec: RunSpec, folder: Path, data: DataFolder) -> None:
    """Say what was found in the user's table, and leave the rows set aside beside the run."""
    splits = find_dataset(spec.dataset, spec.table).load(spec.shift, spec.kind, spec.data.seed, data=data)
    for line in findings(splits):
        typer.echo(line)
    path = writable_folder(folder) / "quarantine.csv"
    if write_quarantine(splits, path):
        typer.echo(f"rows set aside: {path}")
