"""`outland predict`, `explain` and `evaluate`: what a model is used for."""

import json
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from outland.cli import options
from outland.errors import OutlandError, counted, unknown
from outland.progress import echo, screen

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that `outland fit` or `outland train` wrote.")]
Graphs = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table, or - for it; DATASET/DOMAIN:PART, as motif/base:test; or a PART of the model's own data.",
    ),
]
Column = Annotated[
    str, typer.Option(help=r"Column of SMILES. \[default: as in training, else the one that can be read as such]")
]


def predict(
    model: Model,
    data: Graphs,
    smiles: Column = "",
    out: Annotated[
        Path | None,
        typer.Option(
            help=r"The table to write: .csv, .tsv, .parquet, .sdf, .smi or .xlsx; - is standard output. "
            r"\[default: DATA-predicted.csv]"
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Add the set of classes, joined by | ({} where it is empty), or the ends of the interval, that holds "
            r"the truth in this share of rows. \[default: no sets, and intervals of 0.9]"
        ),
    ] = None,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="Put ' before CSV cells that a spreadsheet would take for formulas.")
    ] = False,
    shift: Annotated[
        bool, typer.Option("--shift/--no-shift", help="Test whether the data differ from training, in a second.")
    ] = True,
    gcs: Annotated[
        bool, typer.Option("--gcs", help="Measure the covariate shift from training too; takes half a minute.")
    ] = False,
    folder: options.Data = None,
    trust_code: options.TrustCode = False,
    device: options.Device = "cpu",
    force: options.Force = False,
) -> None:
    """Add a prediction, its expected error and a flag to each row of a table, however long, or predict a part.

    Rows keep their order; one that cannot be read stays, with the reason. Ends with a verdict on whether to trust the
    predictions, and what it rests on; where the table has the labels too, with the scores on them.
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
    files, lines = DataFolder(folder), list[str]()
    path = out or Path("-" if data == "-" else f"{options.file_name(Path(data).name.split('.')[0])}-predicted.csv")
    data = options.table_path(data)
    if is_table(data):
        wishes: dict[str, Any] = {"force": force, "safe": safe_csv, "coverage": coverage, "graphs": gcs}
        report = predict_table(loaded, Path(data), path, smiles=smiles, **wishes)
        graphs, lines = report.sample_graphs(), _label_lines(report)
    else:
        report, graphs = predict_part(loaded, data, path, force=force, data=files, coverage=coverage)
    enough = min(len(graphs), loaded.training.graphs.get("train", 0)) >= MIN_ROWS
    test = fast_shift(loaded, graphs, data=files) if shift and enough else None
    measured = shift_from_training(loaded, graphs, data=files) if gcs and enough else None
    lines = [*advise(loaded, report, test, measured), *prediction_lines(loaded, report, coverage), *lines]
    echo("\n".join(lines), err=path == Path("-"))


def _label_lines(report: Any) -> list[str]:
    """The scores of a model on a table that it has predicted, where the table has labels of all its targets."""
    from outland.models.scored_rows import MOST_SCORED
    from outland.report.summaries import score_sentence

    if report.scored is None:
        return []
    if report.scored.is_full:
        return [f"labels: `outland evaluate` scores tables of more than {MOST_SCORED:,} rows"]
    try:
        return [score_sentence(score) for score in report.scored.scores()]
    except OutlandError as problem:
        return [f"labels are not compared: {problem}"]


def evaluate(
    model: Model,
    data: Graphs,
    smiles: Column = "",
    target: Annotated[
        list[str] | None, typer.Option(help=r"Column of labels; give it again for several. \[default: as in training]")
    ] = None,
    folder: options.Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    trust_code: options.TrustCode = False,
    device: options.Device = "cpu",
) -> None:
    """Score a model on a labelled table or a dataset's part, with 95% intervals.

    Intervals are bootstrapped over scaffolds. Shows the score by distance flag, too: whether rows that are called far
    are predicted worse. Says first how many of the rows the model was trained on.
    """
    from outland.datasets import DataFolder, is_table
    from outland.models import evaluate_models, load_model
    from outland.models.flag_scores import scores_by_flag
    from outland.models.named_graphs import load_labelled_table, load_part
    from outland.report.summaries import evaluation_notes, evaluation_table, flag_table, known_rows_notes

    loaded = load_model(model, device, trust_code)
    notes: list[str] = []
    data = options.table_path(data)
    if is_table(data):
        graphs, notes = load_labelled_table(loaded, Path(data), smiles, target)
    elif target:
        raise OutlandError("--target is for a table: of a dataset's part the labels are known")
    else:
        graphs = load_part(loaded, data, data=DataFolder(folder))
    scores, flags = evaluate_models([loaded], graphs, Path(data).name), scores_by_flag(loaded, graphs)
    known, notes = known_rows_notes(loaded, graphs), [*notes, *evaluation_notes(scores)]
    if as_json:
        plain: dict[str, Any] = {"model": str(model), "data": data, "notes": [*known, *notes]}
        plain |= {"scores": [score.model_dump() for score in scores], "flags": [score.model_dump() for score in flags]}
        echo(json.dumps(plain, indent=1))
        return
    shown = screen(soft_wrap=True)
    for note in known:
        shown.print(note, highlight=False, markup=False)
    shown.print(evaluation_table(loaded, scores, Path(data).name if is_table(data) else data))
    if flags:
        shown.print(flag_table(loaded, flags))
    for note in notes:
        shown.print(note, highlight=False, markup=False)


def explain(
    model: Model,
    data: Graphs,
    smiles: Column = "",
    target: Annotated[
        str | None,
        typer.Option(
            help=r"Target to explain, of a model of several; or a column of labels, to see errors. \[default: the "
            "model's first target, with its labels if they are there]"
        ),
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
    device: options.Device = "cpu",
    force: options.Force = False,
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
    from outland.report.explain_notes import row_notes
    from outland.report.explain_page import explain_page
    from outland.storage.files import writable_folder, write_text
    from outland.tables.writing import check_out

    path = out or Path(f"{options.file_name(Path(data).name.split('.')[0])}-explained.html")
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
    data = options.table_path(data)
    if is_table(data):
        limit = most or 1000
        explained = explain_table(loaded, Path(data), smiles, target, limit, **views)
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
    echo(f"{path}: {counted(len(explained.rows), loaded.kind[:-1])}{first}")
    if atoms is not None:
        echo(f"{atoms}: {counted(write_atoms(explained, atoms), 'atom')}")
    echo("\n".join(row_notes(loaded, explained, loaded.target_index(target))))
