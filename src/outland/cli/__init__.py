"""The command-line face: reads words, calls the library, prints. Heavy imports wait until a command needs them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from outland import __version__
from outland.cli import data, molecules, shift, study, tune
from outland.cli.options import (
    Data,
    DatasetName,
    Domain,
    Environment,
    Kind,
    Seed,
    Smiles,
    Split,
    Strict,
    Target,
    TaskKind,
    Time,
    Track,
    chosen_recipe,
    paragraphs,
    setting_hint,
    table_domain,
    table_settings,
)
from outland.errors import OutlandError, unknown

app = typer.Typer(
    help="Graph classification that holds up on graphs unlike the training ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
for _command in (molecules.fit, molecules.predict, molecules.explain, shift.shift):
    app.command(help=paragraphs(_command))(_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outland {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for runs and the picture.")] = Path("demo"),
    seed: Seed = 1,
) -> None:
    """Train a small ERM and a small AIA on Motif, compare them, and draw what AIA looks at."""
    from outland.demo import demo as show
    from outland.storage.files import writable_folder

    show(writable_folder(out), seed)


@app.command()
def train(
    dataset: DatasetName,
    method: Annotated[
        str, typer.Option(help="NAME or NAME:PRESET from `outland list methods`, or FILE.py:CLASS.")
    ] = "aia",
    domain: Domain = None,
    kind: Kind = None,
    seed: Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds, from --seed on; on a GPU they train side by side.")
    ] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GROUP.NAME=VALUE", help="Change a setting, as in method.gamma=0.5."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.toml|none", help=r"Hyper-parameters to start from. \[default: the dataset's own recipe]"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs; this one gets a folder of its own in it.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Throw away an earlier run of the same settings.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    track: Track = None,
    sync_norm: Annotated[
        bool, typer.Option("--sync-norm", help="Under torchrun: batch norm over the whole batch, not a process's part.")
    ] = False,
    data: Data = None,
    smiles: Smiles = "smiles",
    target: Target = None,
    task: TaskKind = "auto",
    environment: Environment = None,
    split: Split = None,
    time: Time = None,
    strict: Strict = False,
) -> None:
    """Train one method on one dataset (or your own table) under one shift, and write its model and record.

    Several processes train one model: torchrun --nproc-per-node 2 -m outland train ...
    """
    from outland.datasets import DataFolder, find_dataset
    from outland.distributed import is_distributed_launch, is_main_process
    from outland.report.findings import tell
    from outland.spec import RunSpec
    from outland.training.callbacks import progress_callback
    from outland.training.distributed_run import run_distributed
    from outland.training.run_folder import RunFolder
    from outland.training.runs import run
    from outland.training.trackers import check_tracker, tracked

    if track is not None:
        check_tracker(track)
    several = is_distributed_launch()
    if several and seeds > 1:
        raise OutlandError("under torchrun all processes train one seed: leave --seeds out")
    if resume and force:
        raise OutlandError("--resume goes on with an earlier run and --force throws it away: choose one")
    table = table_settings(
        dataset, smiles=smiles, target=target, task=task, environment=environment, split=split, time=time, strict=strict
    )
    domain = table_domain(domain, split, time)
    start = chosen_recipe(recipe, dataset, table)
    spec = RunSpec.from_words(
        dataset, method, set_ or [], domain=domain, kind=kind, seed=seed, table=table, recipe=start
    )
    folder = RunFolder(out, spec).path
    files = DataFolder(data)
    try:
        if table is not None and is_main_process():
            tell(
                find_dataset(dataset, spec.table).load(spec.domain, spec.kind, spec.data.seed, data=files),
                folder / "quarantine.csv",
            )
        if seeds > 1:
            from outland.cli.several import train_several

            train_several(spec, seeds, out, resume=resume, force=force, device=device, data=files, track=track)
            return
        seen_by = tracked(progress_callback(), track, out)
        how: Any = {"resume": resume, "force": force, "device": device, "data": files, "callback": seen_by}
        record = run_distributed(spec, out, sync_norm=sync_norm, **how) if several else run(spec, out, **how)
    except KeyboardInterrupt:
        typer.secho("\nStopped. The same command with --resume goes on from the last checkpoint.", err=True)
        raise typer.Exit(130) from None
    if record is not None:
        _show_record(record, folder)


def _show_record(record: Any, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from outland.training.callbacks import format_score

    parts = [part for part in ("id_val", "id_test", "val", "test") if part in record.selection[record.selected]]
    table = Table(
        "chosen by", "epoch", *parts, title=record.metric if record.metric == "rmse" else f"{record.metric}, in %"
    )
    for name, row in record.selection.items():
        scores = [format_score(row[part], record.metric) for part in parts]
        table.add_row(f"{name} *" if name == record.selected else name, str(row["epoch"]), *scores)
    screen = Console()
    screen.print(table)
    screen.print(f"* the saved model; {record.parameters['total']:,} parameters; {record.timing['seconds']:.0f} s")
    if "superpixels" in record.data:
        screen.print(f"on {record.data['superpixels']} superpixels")
    typer.echo(f"record: {folder / 'record.json'}")


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="datasets|methods|backbones|recipes|settings")],
    of: Annotated[
        str | None,
        typer.Argument(metavar="[GROUP|METHOD|RECIPE]", help="Settings of one group or method; or one recipe."),
    ] = None,
) -> None:
    """List what there is; `settings METHOD` or METHOD:PRESET shows a method's own, `recipes NAME` a whole recipe."""
    from rich.console import Console

    from outland.cli import lists

    tables = {"datasets": lists.datasets, "methods": lists.methods, "backbones": lists.backbones}
    named = {"settings": lists.settings, "recipes": lists.recipes}
    if what in named:
        Console().print(named[what](of))
    elif what not in tables:
        raise unknown("list", what, [*tables, *named])
    elif of is not None:
        raise OutlandError(f"only settings and recipes can be asked for by name: outland list settings {of}")
    else:
        Console().print(tables[what]())


app.command()(study.study)
app.command()(tune.tune)


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        sys.exit(app(standalone_mode=False))
    except OutlandError as problem:
        _fail(str(problem))
    except Exception as problem:
        if not hasattr(problem, "exit_code") or not hasattr(problem, "format_message"):
            raise
        _fail(problem.format_message() + _valid_words(problem), problem.exit_code)


def _valid_words(problem: Any) -> str:
    """The options or commands that a mistyped one could have been."""
    command: Any = getattr(getattr(problem, "ctx", None), "command", None)
    if hasattr(problem, "option_name"):
        options = [name for p in command.params for name in p.opts if name[0] == "-"]
        return f".{setting_hint(problem.option_name, command.name)} Valid options: {', '.join([*options, '--help'])}"
    if hasattr(command, "commands"):
        return f" Valid commands: {', '.join(command.commands)}"
    return ""


def _fail(sentence: str, status: int = 2) -> None:
    typer.secho(f"outland: {sentence}", fg="red", err=True)
    sys.exit(status)
