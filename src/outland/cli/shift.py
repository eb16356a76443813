"""`outland shift`: how far apart two sets of graphs are, and which way."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.errors import OutlandError, counted
from outland.progress import echo, screen

_SIDE = "DATASET/DOMAIN:PART, as in motif/base:train, or the file of a table of molecules."


def shift(
    first: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    second: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="The other set, named likewise; not with --model.", show_default=False),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Measure from the training graphs of this model folder, instead of from B.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How often all is done again, with other draws.")] = 5,
    most: Annotated[int, typer.Option(help="At most so many graphs a side in each trial.")] = 1000,
    epsilon: Annotated[
        str, typer.Option(help="Density below which a set counts as absent, or auto: found on the null.")
    ] = "auto",
    labels: Annotated[bool, typer.Option("--labels/--no-labels", help="Use labels where both sets have them.")] = True,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GROUP.NAME=VALUE", help="As shift.steps=500 or backbone.width=64."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Of two tables: a map of both, as a PNG, SVG or PDF file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the picture if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "cpu",
    data: options.Data = None,
    smiles: options.Smiles = "",
    target: options.Target = None,
    task: options.TaskKind = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """Measure how far apart two sets of graphs are: parts of a dataset, tables of molecules, or a model's training set.

    Prints the covariate shift (GCS), its spread over trials and its null (the same graphs parted at random), the
    correlation shift where labels are known, and a sentence that says which shift there is. Takes minutes.
    """
    from outland.datasets import DataFolder
    from outland.devices import find_device
    from outland.shift import measure_shift
    from outland.shift.sources import find_sides

    settings = _settings(trials, most, epsilon, set_ or [])
    if (second is None) == (model is None):
        raise OutlandError(
            "name two sets of graphs, A and B, or one and the --model whose training graphs are the other"
        )
    tables = _are_tables(first, second, model, picture, force)
    files, how = DataFolder(data), {"settings": settings, "seed": seed, "device": find_device(device)}
    if model is not None:
        first, second, result, notes = _from_model(model, trust_code, first, smiles, files, how)
    else:
        assert second is not None
        table = options.table_settings("", required=True, smiles=smiles, target=target, task=task)
        sides = find_sides(first, second, table, files)
        notes, used = list(sides.notes), labels and sides.labels
        result = measure_shift(sides.first, sides.second, schema=sides.schema, labels=used, **how)
    news = _news(first, second, smiles, picture) if tables else {}
    plain = {"first": first, "second": second, **result.to_json(), "notes": [*notes, *result.notes], **news}
    if as_json:
        echo(json.dumps(plain, indent=1))
    else:
        _show(result, plain)


def _are_tables(first: str, second: str | None, model: Path | None, picture: Path | None, force: bool) -> bool:
    """Whether two tables are compared; a picture of others, or one that is there, is refused."""
    from outland.datasets import is_table

    tables = model is None and is_table(first) and is_table(second or "")
    if picture is not None and not tables:
        raise OutlandError("--picture is for two tables of molecules")
    if picture is not None and picture.exists() and not force:
        raise OutlandError(f"{picture} exists: choose another --picture, or replace it with --force")
    return tables


def _from_model(
    folder: Path, trust_code: bool, name: str, smiles: str, data: Any, how: dict[str, Any]
) -> tuple[str, str, Any, list[str]]:
    """The shift from a model's training graphs to a table or part: names of both, the result, and notes."""
    from outland.datasets import is_table
    from outland.models import load_model
    from outland.models.named_graphs import load_part
    from outland.models.table_predictions import trained_column
    from outland.shift.measure import shift_from_training
    from outland.tables.columns import find_smiles_column
    from outland.tables.smiles_table import read_unlabelled

    model, notes = load_model(folder, trust_code=trust_code), list[str]()
    if is_table(name):
        smiles = smiles or find_smiles_column(Path(name), model.targets, trained_column(model))
        graphs, notes = read_unlabelled(name, smiles, model.schema.node)
    else:
        graphs = load_part(model, name, data=data)
    return f"training of {folder}", name, shift_from_training(model, graphs, data=data, **how), notes


def _news(first: str, second: str, smiles: str, picture: Path | None) -> dict[str, Any]:
    """What is new in the second of two tables; a map of both is drawn to `picture`."""
    from outland.report.drawing import draw_map
    from outland.shift.novelty import compare_tables

    names = _names(first, second)
    novelty = compare_tables(Path(first), Path(second), smiles)
    if picture is not None:
        draw_map(novelty, names, picture)
    return {"news": novelty.sentence(*names), "unseen_scaffolds": [list(entry) for entry in novelty.new_scaffolds]}


def _names(first: str, second: str) -> tuple[str, str]:
    """The two sets, tables without their folders where that leaves them apart."""
    short = [Path(name).name if Path(name).suffix else name for name in (first, second)]
    return (short[0], short[1]) if short[0] != short[1] else (first, second)


def _settings(trials: int, most: int, epsilon: str, words: list[str]) -> Any:
    from outland.settings import change, parse_assignments
    from outland.shift import ShiftSettings

    try:
        threshold = None if epsilon == "auto" else float(epsilon)
    except ValueError:
        raise OutlandError(f"--epsilon takes a number, inf or auto, not '{epsilon}'") from None
    groups = parse_assignments(words, ("shift", "backbone"))
    start = ShiftSettings(trials=trials, most=most, epsilon=threshold)
    start = replace(start, backbone=change(start.backbone, groups["backbone"], "backbone"))
    return change(start, groups["shift"], "shift")


def _show(result: Any, plain: dict[str, Any]) -> None:
    from rich.table import Table

    names = _names(plain["first"], plain["second"])
    table = Table("", "shift", "null", title=f"{names[0]} and {names[1]}")
    table.add_row("covariate (GCS)", _number(result.covariate), _number(result.null))
    if result.correlation is not None:
        table.add_row("correlation", _number(result.correlation), _number(result.correlation_null))
    table.add_row("told apart", _number(result.accuracy), _number(result.accuracy_null))
    shown = screen(soft_wrap=True)
    shown.print(table)
    shown.print(result.sentence())
    if "news" in plain:
        shown.print(plain["news"], markup=False, highlight=False)
    how = "found on the null" if result.calibrated else "as given"
    fixed = next(row for row in result.by_epsilon if row["epsilon"] == 1e-12)
    epsilon = "∞" if result.epsilon == math.inf else f"{result.epsilon:.1e}"
    compared, given = ("{:,} and {:,}".format(*result.graphs[name]) for name in ("compared", "given"))
    shown.print(
        f"ε = {epsilon}, {how}; at ε = 1e-12: {fixed['covariate']:.3f}, null {fixed['null']:.3f}. "
        f"{counted(result.settings.trials, 'trial')} with {compared} graphs, of {given}; {result.seconds:.0f} s."
    )
    for note in plain["notes"]:
        shown.print(f"Note: {note}.")


def _number(estimate: Any) -> str:
    """Mean ± spread; a single trial has none."""
    return f"{estimate.mean:.3f}" + (f" ± {estimate.spread:.3f}" if len(estimate.values) > 1 else "")
