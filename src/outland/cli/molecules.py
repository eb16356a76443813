"""`outland fit`, `predict` and `explain`: for a person with a table of molecules."""

import re
from pathlib import Path
from typing import Annotated

import typer

from outland.cli.options import Environment, Seed, Smiles, Split, TaskKind, Time, table_domain
from outland.errors import OutlandError, counted

Table = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet, gzip'd or not.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `outland fit` wrote.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto for whichever is there.")]
Target = Annotated[str, typer.Option(help="Your table's column of labels.")]


def fit(
    table: Table,
    target: Target,
    smiles: Smiles = "smiles",
    out: Annotated[Path | None, typer.Option(help=r"The model folder. \[default: TABLE-TARGET-model]")] = None,
    method: Annotated[str, typer.Option(help="NAME or NAME:PRESET from `outland list methods`.")] = "aia",
    domain: Annotated[
        str | None,
        typer.Option(
            "--domain",
            "--shift",
            help=r"What will be new: scaffold, size, cluster, time or random. \[default: scaffold]",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help=r"Passes over the table. \[default: 40,000 looks at a molecule in all]")
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance/--no-balance", help="Draw rare classes as often as the others.")
    ] = True,
    compare: Annotated[bool, typer.Option("--compare/--no-compare", help="Train ERM too, to compare with.")] = True,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GROUP.NAME=VALUE", help="As method.gamma=0.5 or backbone.width=128."),
    ] = None,
    task: TaskKind = "auto",
    environment: Environment = None,
    split: Split = None,
    time: Time = None,
    seed: Seed = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Train a model on a table of molecules that is meant for molecules unlike them.

    Says what it finds in the table, holds out whole scaffolds, trains, judges the model on what was held out with plain
    training (ERM) beside it, and writes a model folder. Takes minutes on two cores.
    """
    from rich.console import Console

    from outland.datasets import TableSettings, find_dataset
    from outland.devices import find_device
    from outland.estimators import save_folder
    from outland.estimators.fitting import Plan
    from outland.estimators.folder import check_place
    from outland.estimators.tables import check_table, fit_splits
    from outland.report.dataset_text import print_description
    from outland.report.fit_text import fit_summary, score_table
    from outland.settings import change, parse_assignments
    from outland.training.callbacks import progress_callback

    folder = out or Path(_word(f"{table.name.split('.')[0]}-{target}-model"))
    check_place(folder, force)  # before any training is lost
    columns = {"smiles": smiles, "target": target, "task": task, "environment": environment, "split": split}
    settings = change(TableSettings(str(table)), {**columns, "time": time}, "table")
    check_table(settings)
    plan = Plan.make(method, epochs, balance, parse_assignments(set_ or [], ("method", "backbone", "train")))
    where = find_device(device)
    source = find_dataset(table.name, settings)
    splits = source.load(table_domain(domain, split, time) or "scaffold", "covariate")
    screen = Console(soft_wrap=True)
    print_description(splits, folder.with_name(f"{folder.name}-set-aside.csv"))
    fitted = fit_splits(splits, settings, plan, compare=compare, seed=seed, device=where, watch=progress_callback())
    save_folder(fitted.model, folder, force)
    screen.print(score_table(fitted))
    for line in fit_summary(fitted, folder, str(table)):
        screen.print(line, highlight=False, markup=False)


def _word(name: str) -> str:
    """Names of a table and a column as that of a file, which has no odd characters and no two dashes in a row."""
    return re.sub(r"[^\w]+", "-", name).strip("-")


def predict(
    model: Model,
    table: Table,
    smiles: Annotated[str | None, typer.Option(help=r"Column of SMILES. \[default: as in training]")] = None,
    out: Annotated[Path | None, typer.Option(help=r"CSV file to write. \[default: TABLE-predicted.csv]")] = None,
    shift: Annotated[
        bool, typer.Option("--shift/--no-shift", help="Measure how far the table is from training.")
    ] = True,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Add a prediction and a distance flag to each row of a table, however long it is.

    Rows keep their order; one that cannot be read stays, with the reason. Ends with how far the table is from the
    molecules the model was trained on, and whether to trust it.
    """
    from outland.devices import find_device
    from outland.estimators import load_folder
    from outland.estimators.seen import seen_words
    from outland.estimators.streaming import predict_table
    from outland.estimators.words import limit_words
    from outland.report.advice import advise

    loaded = load_folder(model, find_device(device))
    place = out or Path(f"{table.name.split('.')[0]}-predicted.csv")
    column = smiles or loaded.about.get("source", {}).get("smiles", "smiles")
    report = predict_table(loaded, table, place, smiles=column, shift=shift, force=force)
    good = report.rows - report.bad
    typer.echo(f"{place}: {counted(report.rows, 'row')} in {report.seconds:.0f} s; {report.bad:,} cannot be read")
    for reason, count in report.problems.most_common(3):
        typer.echo(f"  {counted(count, 'row')}: {reason} (first: row {report.first[reason]:,})")
    if loaded.classes:
        typer.echo("called: " + ", ".join(f"{name} {count:,}" for name, count in sorted(report.classes.items())))
    if len(loaded.classes) == 2:
        typer.echo(f"outland_probability is of '{loaded.classes[1]}'; a row is {limit_words(loaded)}")
    named = ", ".join(f"{flag} {report.flags[flag]:,}" for flag in ("near", "edge", "far"))
    typer.echo(f"distance: {named} of {good:,}")
    if report.seen:
        typer.echo(f"{seen_words(report.seen, report.rows)}.")
    typer.echo(advise(report.shift, report.share("far"), report.share("edge", "far"), loaded.about))


def explain(
    model: Model,
    table: Table,
    smiles: Annotated[str | None, typer.Option(help=r"Column of SMILES. \[default: as in training]")] = None,
    target: Annotated[
        str | None, typer.Option(help=r"Column of labels, to see errors. \[default: as in training, if it is there]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help=r"HTML file to write. \[default: TABLE-explained.html]")] = None,
    most: Annotated[int, typer.Option(min=1, help="Draw at most so many rows, from the first on.")] = 1000,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Draw every molecule of a table with the atoms and bonds its prediction rests on, as one HTML page.

    The page sorts, searches and filters by class, error and distance, ranks the substructures that most often count,
    and needs no network.
    """
    from itertools import islice

    from outland.devices import find_device
    from outland.estimators import load_folder
    from outland.estimators.explained import explain_table, way
    from outland.estimators.seen import seen_words
    from outland.report.explain_notes import constant_weights, constant_weights_note
    from outland.report.explain_page import explain_page
    from outland.storage.files import write_text
    from outland.tables.reading import read_rows

    place = out or Path(f"{table.name.split('.')[0]}-explained.html")
    if place.exists() and not force:
        raise OutlandError(f"{place} exists: choose another --out, or replace it with --force")
    if place.suffix not in (".html", ".htm"):
        raise OutlandError(f"the report is a page: --out must end in .html, not {place.name}")
    loaded = load_folder(model, find_device(device))
    column = smiles or loaded.about.get("source", {}).get("smiles", "smiles")
    rows = explain_table(loaded, table, column, target, most)
    more = next(islice(read_rows(table), most, None), None) is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, explain_page(loaded, rows, table.name, more))
    typer.echo(f"{place}: {len(rows):,} molecules{f', the first of {table.name}; --most draws more' if more else ''}")
    typer.echo(f"shaded: {way(loaded)}")
    told = seen_words(sum(row.seen for row in rows), len(rows))
    for note in filter(None, (constant_weights_note(*constant_weights(rows)), told and f"{told}.")):
        typer.echo(note)
