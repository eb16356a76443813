"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

Seed = Annotated[int, typer.Option(help="Decides everything random in the run.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="DATASET", help="A name from `outland list datasets`, or the file of your own table.")
]
Shift = Annotated[str | None, typer.Option(help="What shifts: base, size, scaffold, ... [default: the first one]")]
Kind = Annotated[str | None, typer.Option(help="How it shifts: covariate, concept or none. [default: the first one]")]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of raw files. [default: $OUTLAND_DATA, else the cache]"),
]
Smiles = Annotated[str, typer.Option(help="Your table's column of SMILES.")]
Target = Annotated[list[str] | None, typer.Option(help="Your table's column of labels; give it again for several.")]
TaskKind = Annotated[str, typer.Option(help="binary, multiclass or regression; auto looks at the labels.")]
Environment = Annotated[str | None, typer.Option(help="Your table's column of environments.")]
Split = Annotated[str | None, typer.Option(help="Your table's column of train/val/test, for `--shift column`.")]
Time = Annotated[str | None, typer.Option(help="Your table's column of times, for `--shift time`.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop if any row of your table cannot be used.")]


def table_settings(dataset: str, **columns: Any) -> Any:
    """Settings of the user's table, if that is what `dataset` names; else None."""
    if not Path(dataset).suffix or not (Path(dataset).exists() or columns.get("target")):
        return None
    from outland.datasets import TableSettings
    from outland.settings import change

    targets = ",".join(columns.pop("target") or [])
    return change(TableSettings(dataset), {**columns, "target": targets}, "table")
