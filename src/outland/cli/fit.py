"""`outland fit`: from a table of molecules to a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.errors import CannotWrite, OutlandError, unknown
from outland.progress import screen


def fit(
    context: typer.Context,
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, SDF, .smi or Excel; - is standard input.")
    ],
    target: options.Target = None,
    smiles: options.Smiles = "",
    out: Annotated[Path | None, typer.Option(help=r"The model folder. \[default: TABLE-TARGET-model]")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto judges all contenders; forest, boosting, gp, erm, aia or another of `outland list methods` "
            "(NAME, NAME:PRESET or FILE.py:CLASS) is taken alone."
        ),
    ] = "auto",
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, help=r"About how long it may take. \[default: 5, less for tables of under 1,000 rows]"),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(help=r"What will be new: scaffold, size, cluster, time or random. \[default: scaffold]"),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the table that are held out in turn.")] = 5,
    epochs: Annotated[
        int | None, typer.Option(min=1, help=r"Passes of networks over the table, at most. \[default: by its size]")
    ] = None,
    balance: Annotated[
        bool | None, typer.Option("--balance/--no-balance", help="Let networks draw rare classes more often.")
    ] = None,
    set_: options.Settings = None,
    recipe: options.Recipe = None,
    task: options.TaskKind = "auto",
    merge_labels: options.MergeLabels = False,
    censored: options.Censored = "ask",
    environment: options.Environment = None,
    split: options.Split = None,
    time: options.Time = None,
    strict: options.Strict = False,
    runs: Annotated[Path, typer.Option(help="Folder of runs, where an interrupted fit goes on.")] = Path("runs"),
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    force: options.Force = False,
) -> None:
    """Train a model on a table of molecules that is meant for molecules unlike them.

    Says what it finds in the table and judges contenders on scaffolds held out of their training: networks (ERM, AIA),
    a forest, gradient boosting and a Gaussian process on fingerprints and descriptors. The best one, or their weighted
    mean, is trained on all rows and written to a model folder. Takes minutes on two cores; the same command goes on
    after Ctrl-C or a crash.
    """
    from outland.estimators.fitting import fit as fit_model
    from outland.models.folder import reserved, save_model
    from outland.report.dataset_text import print_description
    from outland.report.fit_summary import contender_table, summary_sentences
    from outland.settings import parse_assignments
    from outland.spec import GROUPS, RunSpec, load_rows

    name, table = str(table), Path(options.table_path(str(table)))
    target = options.label_columns(table, target)
    folder = out or Path(options.file_name(f"{table.name.split('.')[0]}-{'-'.join(target)}-model"))
    context.with_resource(reserved(folder, force))  # before any training is lost
    columns: dict[str, Any] = {"smiles": smiles, "target": target, "task": task, "environment": environment}
    columns |= {"merge_labels": merge_labels, "censored": censored}
    settings = options.table_settings(str(table), **columns, split=split, time=time, strict=strict, required=True)
    changes: dict[str, dict[str, Any]] = parse_assignments(set_ or [], GROUPS)
    given = {"epochs": epochs, "class_balance": balance}
    changes["train"] |= {name: value for name, value in given.items() if value is not None}
    network = _network_method(method, changes["method"])
    which: dict[str, Any] = {"domain": options.table_domain(domain, split, time) or "scaffold", "seed": seed}
    start = options.chosen_recipe(recipe, str(table), settings)
    spec = RunSpec.make(table.name, network, changes=changes, table=settings, recipe=start, **which)
    print_description(load_rows(spec), folder.with_name(f"{folder.name}-set-aside.csv"))
    with options.stoppable("The same command goes on with what was trained."):
        result = fit_model(spec, runs, method=method, minutes=minutes, folds=folds, recipe=start, device=device)
    try:
        save_model(result.model, folder, force)
    except CannotWrite as problem:
        raise CannotWrite(f"{problem}; what was trained stays in {runs}: the same command goes on from there") from None
    shown = screen(soft_wrap=True)
    comparison = result.model.assessment and result.model.assessment.comparison
    assert comparison
    shown.print(contender_table(comparison))
    for line in summary_sentences(result, folder, name):
        shown.print(line, highlight=False, markup=False)


def _network_method(method: str, changes: dict[str, Any]) -> str:
    """The network whose settings a fit begins with; changes of a method's settings need that method named."""
    from outland.estimators.contenders import VECTOR_MODELS
    from outland.estimators.fitting import AUTO
    from outland.methods import METHODS, is_file, split_name

    if method != AUTO and method not in VECTOR_MODELS:
        if not is_file(method) and split_name(method)[0] not in METHODS:
            raise unknown("method", split_name(method)[0], [AUTO, *VECTOR_MODELS, *METHODS])
        return method
    if changes:
        raise OutlandError(f"--set method.{next(iter(changes))} is a setting of one method: name it with --method")
    return "erm"
