"""`outland study export` and `outland study import`: records that travel between machines."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from outland.errors import OutlandError, counted
from outland.progress import echo


def export(named: list[str], out: Path, **which: Any) -> None:
    """Write finished runs of the named studies, or all there are, to a file; say what was left out."""
    from outland.studies.transfer import export_records

    if not named:
        raise OutlandError("name the file to write: outland study export FILE [STUDY ...]")
    file, studies = Path(named[0]), named[1:]
    if not studies and any(which.values()):
        raise OutlandError("--seeds, --only, --set, --epochs and --limit select runs of a study: name it after FILE")
    result = export_records(out, file, studies, **which)
    echo(f"{file}: {counted(result.exported, 'run')}, {counted(file.stat().st_size, 'byte')}")
    _print_reasons("left out", result.left_out)


def import_(named: list[str], out: Path, **which: Any) -> None:
    """Take the runs of files into the folder of studies; say what became of them."""
    from outland.studies.transfer import import_records

    if not named:
        raise OutlandError("name the files to read: outland study import FILE ...")
    if any(which.values()):
        raise OutlandError(
            "an import takes all runs of a file: --seeds, --only, --set, --epochs and --limit are not for it"
        )
    refused = 0
    for file in map(Path, named):
        result = import_records(file, out)
        echo(f"{file}: {_counts(result)}")
        _print_reasons(
            "other result", [(name, "our own stays; remove its folder to import it") for name in result.different]
        )
        _print_reasons("refused", result.refused)
        refused += len(result.refused)
    if refused:
        raise typer.Exit(1)


def import_new(study: str, keys: set[str], folder: Path, out: Path) -> None:
    """Take in the runs of a folder of records that are not in the folder of studies yet, and say so.

    Of the study's own file these are all, of other studies' files the runs that the study shares: those with `keys`.
    """
    from outland.studies.record_pool import SUFFIX
    from outland.studies.transfer import import_records

    for file in sorted(folder.glob(f"*{SUFFIX}")):
        of_study = None if file.name == study + SUFFIX else keys
        result = import_records(file, out, compare=False, keys=of_study)
        if result.imported or result.superseded or result.refused:
            echo(f"{file}: {_counts(result)}")
            _print_reasons("refused", result.refused)


def _counts(result: Any) -> str:
    counts = {
        "imported": len(result.imported),
        "already here": result.already_here,
        "here with another result, which stays": len(result.different),
        "superseded, as their settings have changed since": result.superseded,
        "refused": len(result.refused),
    }
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number) or "no runs"


def _print_reasons(what: str, runs: Iterable[tuple[str, str]]) -> None:
    """A line for every reason, with the runs it holds for."""
    met: dict[str, list[str]] = {}
    for name, reason in runs:
        met.setdefault(reason, []).append(name)
    for reason, names in met.items():
        others = f" and {counted(len(names) - 1, 'other')}" if names[1:] else ""
        echo(f"{what}: {names[0]}{others}: {reason}", fg="red", err=True)
