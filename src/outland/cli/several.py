"""`outland train --seeds N`: one spec, several seeds."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import typer

from outland.datasets import DataFolder
from outland.models.messages import format_score
from outland.training import RunSpec, run_fleet
from outland.training.callbacks import FleetProgress
from outland.training.trackers import tracked


def train_several(
    spec: RunSpec,
    seeds: int,
    out: Path,
    *,
    resume: bool,
    force: bool,
    device: str,
    data: DataFolder,
    track: str | None = None,
) -> None:
    """Train all seeds and show what each gave, and their mean and spread."""
    from rich.console import Console
    from rich.table import Table

    specs = [replace(spec, seed=spec.seed + place) for place in range(seeds)]
    callback = FleetProgress(seeds * spec.train.epochs)
    try:
        fleet = run_fleet(
            specs, out, resume=resume, force=force, device=device, data=data, callback=tracked(callback, track, out)
        )
    finally:
        callback.close()
    if fleet.records:
        first = next(iter(fleet.records.values()))
        parts = [part for part in ("id_test", "val", "test") if part in first.selection[first.selected]]
        table = Table("seed", *parts, title=f"{first.metric}, chosen by {first.selected}")
        columns: dict[str, list[float]] = {part: [] for part in parts}
        for place, record in sorted(fleet.records.items()):
            row = record.selection[record.selected]
            table.add_row(str(specs[place].seed), *(format_score(row[part], record.metric) for part in parts))
            for part in parts:
                columns[part] += [] if row[part] is None else [row[part]]
        table.add_section()
        pairs = [(fmean(values), pstdev(values)) if values else (None, None) for values in columns.values()]
        table.add_row("mean", *(" ± ".join(format_score(value, first.metric) for value in pair) for pair in pairs))
        Console().print(table)
    for place, problem in fleet.failures.items():
        typer.secho(f"seed {specs[place].seed} failed: {type(problem).__name__}: {problem}", err=True)
    typer.echo(f"records: {out}/*/record.json")
    if fleet.failures:
        raise typer.Exit(1)
