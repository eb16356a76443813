"""`outland train --seeds N`: one spec, several seeds."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import typer

from outland.errors import OutlandError
from outland.models.messages import format_score
from outland.progress import echo, screen
from outland.training import RunSpec, run_fleet
from outland.training.callbacks import FleetProgress
from outland.training.trackers import tracked


def train_several(spec: RunSpec, seeds: int, out: Path, track: str | None, **how: Any) -> None:
    """Train all seeds and show what each gave, and their mean and spread."""
    from rich.table import Table

    specs = [replace(spec, seed=spec.seed + number) for number in range(seeds)]
    with closing(FleetProgress(seeds)) as callback:
        fleet = run_fleet(specs, out, callback=tracked(callback, track, out), **how)
    if fleet.records:
        first = next(iter(fleet.records.values()))
        parts = [part for part in ("id_test", "val", "test") if part in first.selection[first.selected]]
        table = Table("seed", *parts, title=f"{first.metric}, chosen by {first.selected}")
        rows = {specs[number].seed: fleet.records[number].selection[first.selected] for number in sorted(fleet.records)}
        for seed, row in rows.items():
            table.add_row(str(seed), *(format_score(row[part], first.metric) for part in parts))
        table.add_section()
        columns = [[row[part] for row in rows.values() if row[part] is not None] for part in parts]
        pairs = [(fmean(values), pstdev(values)) if values else (None, None) for values in columns]
        table.add_row("mean", *(" ± ".join(format_score(value, first.metric) for value in pair) for pair in pairs))
        screen().print(table)
    for number, problem in fleet.failures.items():
        reason = problem if isinstance(problem, OutlandError) else f"{type(problem).__name__}: {problem}"
        echo(f"seed {specs[number].seed} failed: {reason}", err=True)
    echo(f"records: {out}/*/record.json")
    if fleet.failures:
        raise typer.Exit(1)
