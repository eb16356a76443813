"""`outland fit`, `predict`, `explain` and `evaluate`: from a table to a model, and what a model is used for."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from outland.cli import options
from outland.errors import OutlandError, counted, unknown

Table = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet, gzip'd or not.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `outland fit` or `outland train` wrote.")]
Graphs = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A table; DATASET/DOMAIN:PART, as motif/base:test; or a PART of the model's own data."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto for whichever is there.")]
Column = Annotated[str | None, typer.Option(help=r"Column of SMILES. \[default: as in training]")]


def fit(
    table: Table,
    target: options.Target,
    smiles: options.Smiles = "smiles",
    out: Annotated[Path | None, typer.Option(help=r"The model folder. \[default: TABLE-TARGET-model]")] = None,
    method: options.Method = "aia",
    domain: Annotated[
        str | None,
        typer.Option(help=r"What will be new: scaffold, size, cluster, time or random. \[default: scaffold]"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help=r"Passes over the table. \[default: 80,000 looks at a molecule in all]")
    ] = None,
    balance: Annotated[
        bool | None, typer.Option("--balance/--no-balance", help="Draw rare classes as often as the others.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare/--no-compare", help="Train ERM too, to compare with.")] = True,
    set_: options.Settings = None,
    recipe: options.Recipe = None,
    task: options.TaskKind = "auto",
    environment: options.Environment = None,
    split: options.Split = None,
    time: options.Time = None,
    strict: options.Strict = False,
    runs: Annotated[Path, typer.Option(help="Folder of runs, where an interrupted fit goes on.")] = Path("runs"),
    seed: options.Seed = 0,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Train a model on a table of molecules that is meant for molecules unlike them.

    Says what it finds in the table, holds out whole scaffolds, trains, judges the model on what was held out with plain
    training (ERM) beside it, and writes a model folder. Takes minutes on two cores; the same command goes on after
    Ctrl-C or a crash.
    """
    from rich.console import Console

    from outland.estimators.fitting import fit as fit_model
    from outland.models.folder import check_writable, save_model
    from outland.report.dataset_text import print_description
    from outland.report.fit_summary import score_table, summary_sentences
    from outland.settings import parse_assignments
    from outland.spec import GROUPS, RunSpec, load_splits
    from outland.training.callbacks import progress_callback

    folder = out or Path(_file_name(f"{table.name.split('.')[0]}-{'-'.join(target or [])}-model"))
    check_writable(folder, force)  # before any training is lost
    columns: dict[str, Any] = {"smiles": smiles, "target": target, "task": task, "environment": environment}
    settings = options.table_settings(str(table), **columns, split=split, time=time, strict=strict, required=True)
    changes: dict[str, dict[str, Any]] = parse_assignments(set_ or [], GROUPS)
    given = {"epochs": epochs, "class_balance": balance}
    changes["train"] |= {name: value for name, value in given.items() if value is not None}
    which: dict[str, Any] = {"domain": options.table_domain(domain, split, time) or "scaffold", "seed": seed}
    start = options.chosen_recipe(recipe, str(table), settings)
    spec = RunSpec.make(table.name, method, changes=changes, table=settings, recipe=start, **which)
    print_description(load_splits(spec), folder.with_name(f"{folder.name}-set-aside.csv"))
    with options.stoppable("The same command goes on from the last checkpoint."):
        result = fit_model(spec, runs, compare=compare, recipe=start, device=device, callback=progress_callback())
    save_model(result.model, folder, force)
    screen = Console(soft_wrap=True)
    screen.print(score_table(result))
    for line in summary_sentences(result, folder, str(table)):
        screen.print(line, highlight=False, markup=False)


def _file_name(name: str) -> str:
    """A name without odd characters and without two dashes in a row."""
    return re.sub(r"[^\w]+", "-", name).strip("-")


def predict(
    model: Model,
    data: Graphs,
    smiles: Column = None,
    out: Annotated[Path | None, typer.Option(help=r"CSV file to write. \[default: DATA-predicted.csv]")] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Add the set of classes, joined by | ({} where it is empty), or the ends of the interval, that holds "
            r"the truth in this share of rows. \[default: no sets, and intervals of 0.9]"
        ),
    ] = None,
    shift: Annotated[
        bool, typer.Option("--shift/--no-shift", help="Test whether the data differ from training, in a second.")
    ] = True,
    gcs: Annotated[
        bool, typer.Option("--gcs", help="Measure the covariate shift from training too; takes half a minute.")
    ] = False,
    folder: options.Data = None,
    trust_code: options.TrustCode = False,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Add a prediction, its expected error and a flag to each row of a table, however long, or predict a part.

    Rows keep their order; one that cannot be read stays, with the reason. Ends with a verdict on whether to trust the
    predictions, and what it rests on.
    """
    from outland.datasets import DataFolder, is_table
    from outland.models import load_model
    from outland.models.part_predictions import predict_part
    from outland.models.table_predictions import predict_table
    from outland.report.advice import advise
    from outland.report.summaries import prediction_lines
    from outland.shift.measure import shift_from_training
    from outland.shift.two_sample import MIN_ROWS, fast_shift

    loaded = load_model(model, device, trust_code)
    files = DataFolder(folder)
    path = out or Path(f"{_file_name(Path(data).name.split('.')[0])}-predicted.csv")
    if is_table(data):
        report = predict_table(
            loaded, Path(data), path, smiles=smiles or _smiles_column(loaded), force=force, coverage=coverage
        )
        graphs = report.sample_graphs()
    else:
        report, graphs = predict_part(loaded, data, path, force=force, data=files, coverage=coverage)
    enough = len(graphs) >= MIN_ROWS
    test = fast_shift(loaded, graphs, data=files) if shift and enough else None
    measured = shift_from_training(loaded, graphs, data=files) if gcs and enough else None
    typer.echo("\n".join([*advise(loaded, report, test, measured), *prediction_lines(loaded, report, coverage)]))


def _smiles_column(model: Any) -> str:
    return model.spec.table.smiles if model.spec.table is not None else "smiles"


def evaluate(
    model: Model,
    data: Graphs,
    smiles: Column = None,
    target: Annotated[
        list[str] | None, typer.Option(help=r"Column of labels; give it again for several. \[default: as in training]")
    ] = None,
    folder: options.Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    trust_code: options.TrustCode = False,
    device: Device = "cpu",
) -> None:
    """Score a model on a labelled table or a dataset's part, with 95% intervals.

    Intervals are bootstrapped over scaffolds. Rows that the model was trained on are counted and mentioned.
    """
    from rich.console import Console

    from outland.datasets import DataFolder, is_table
    from outland.models import evaluate_models, load_model
    from outland.models.named_graphs import load_labelled_table, load_part
    from outland.report.summaries import evaluation_notes, evaluation_table

    loaded = load_model(model, device, trust_code)
    notes: list[str] = []
    if is_table(data):
        graphs, notes = load_labelled_table(loaded, Path(data), smiles or _smiles_column(loaded), target)
    elif target:
        raise OutlandError("--target is for a table: of a dataset's part the labels are known")
    else:
        graphs = load_part(loaded, data, data=DataFolder(folder))
    scores = evaluate_models([loaded], graphs, Path(data).name)
    notes += evaluation_notes(loaded, graphs, scores)
    if as_json:
        plain = {"model": str(model), "data": data, "scores": [score.model_dump() for score in scores], "notes": notes}
        typer.echo(json.dumps(plain, indent=1))
        return
    screen = Console(soft_wrap=True)
    screen.print(evaluation_table(loaded, scores, data))
    for note in notes:
        screen.print(note, highlight=False, markup=False)


def explain(
    model: Model,
    data: Graphs,
    smiles: Column = None,
    target: Annotated[
        str | None, typer.Option(help=r"Column of labels, to see errors. \[default: as in training, if it is there]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help=r"HTML file to write. \[default: DATA-explained.html]")] = None,
    most: Annotated[
        int | None, typer.Option(min=1, help=r"Draw at most so many rows. \[default: 1000 molecules, 60 graphs]")
    ] = None,
    show: Annotated[
        str, typer.Option(help="contributions with a sign, or the stable mask of a method that learns one: mask.")
    ] = "contributions",
    towards: Annotated[
        str | None,
        typer.Option(help=r"Class that contributions push towards. \[default: the second, or the one called]"),
    ] = None,
    atoms: Annotated[Path | None, typer.Option(help="CSV file to write, with a row an atom.")] = None,
    folder: options.Data = None,
    trust_code: options.TrustCode = False,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Draw every molecule of a table, or graph of a dataset's part, with what its prediction rests on, as an HTML page.

    Red atoms push towards a class or a higher number, blue ones away from it. The page says how faithful that is,
    ranks substructures by effect, sorts, searches and filters by class, error and distance, and needs no network.
    """
    from outland.datasets import DataFolder, is_table
    from outland.models import load_model
    from outland.models.atom_table import write_atoms
    from outland.models.explained_rows import explain_part, explain_table, has_more_rows
    from outland.models.explanations import View
    from outland.models.named_graphs import load_part, part_title
    from outland.models.table_predictions import check_out
    from outland.report.explain_notes import row_notes
    from outland.report.explain_page import explain_page
    from outland.storage.files import writable_folder, write_text

    path = out or Path(f"{_file_name(Path(data).name.split('.')[0])}-explained.html")
    if path.exists() and not force:
        raise OutlandError(f"{path} exists: choose another --out, or replace it with --force")
    if path.suffix not in (".html", ".htm"):
        raise OutlandError(f"the report is a page: --out must end in .html, not {path.name}")
    if show not in get_args(View):
        raise unknown("view", show, get_args(View))
    if atoms is not None:
        check_out(atoms, force, Path(data), "--atoms")
    loaded = load_model(model, device, trust_code)
    views: dict[str, Any] = {"show": show, "towards": towards}
    if is_table(data):
        limit = most or 1000
        explained = explain_table(loaded, Path(data), smiles or _smiles_column(loaded), target, limit, **views)
        more, title = has_more_rows(Path(data), limit), Path(data).name
    else:
        graphs = load_part(loaded, data, data=DataFolder(folder))
        if target not in (None, *loaded.targets):
            raise unknown("target of the model", str(target), loaded.targets)
        explained = explain_part(loaded, graphs, loaded.target_index(target), most or 60, **views)
        more, title = len(graphs) > len(explained.rows), part_title(loaded, data)
    writable_folder(path.parent)
    write_text(path, explain_page(loaded, explained, title, more, target))
    first = f", the first of {title}; --most draws more" if more else ""
    typer.echo(f"{path}: {counted(len(explained.rows), loaded.kind[:-1])}{first}")
    if atoms is not None:
        typer.echo(f"{atoms}: {counted(write_atoms(explained, atoms), 'atom')}")
    typer.echo("\n".join(row_notes(loaded, explained)))
