"""`outland study`: the paper's tables, one command each."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli.engines import Address, Cpus, Engine, Gpus, SendBack, Shard, Workers, chosen_engine
from outland.cli.options import Data, Track
from outland.errors import OutlandError, counted

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CELL",
        help="A ROW, a COLUMN or ROW/COLUMN, where * stands for anything; a dataset stands for its columns. "
        "Given again, it adds to what is kept.",
    ),
]


def study(
    name: Annotated[str, typer.Argument(metavar="list|NAME", help="`list` says what there is.")],
    seeds: Annotated[int | None, typer.Option(help="Runs a cell: seeds, or folds; the paper has 10.")] = None,
    only: Only = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and run nothing.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the report of what is there.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Train for so many epochs instead.")] = None,
    limit: Annotated[int | None, typer.Option(help="Take at most so many graphs a part.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GROUP.NAME=VALUE", help="Change a setting of every run."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of studies: reports, and all their runs in `runs`.")] = Path(
        "studies"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    data: Data = None,
    engine: Engine = "local",
    workers: Workers = None,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    send_back: SendBack = False,
    shard: Shard = None,
    track: Track = None,
    tuned: Annotated[bool, typer.Option("--tuned", help="Take the best settings that `outland tune` found.")] = False,
    tuning: Annotated[Path, typer.Option(help="--tuned: folder of searches.")] = Path("tuning"),
) -> None:
    """Run a study: a table of the paper, or all that is missing of it, and write its report.

    Runs that are done are skipped, interrupted ones go on, failed ones are
    listed and tried again with --retry: the same command goes on after Ctrl-C,
    a crash or kill -9. Studies share their runs.
    """
    if name == "list":
        _list(seeds, device)
        return
    from outland.studies import find_study

    chosen = find_study(name)
    words = [
        *(set_ or []),
        *([] if epochs is None else [f"train.epochs={epochs}"]),
        *([] if limit is None else [f"data.limit={limit}"]),
    ]
    cells = chosen.cells(seeds, words, only or [])
    who = chosen_engine(engine, workers, send_back, address=address, cpus=cpus, gpus=gpus)
    if tuned:
        from outland.studies.tuned import with_tuned_settings as best_of

        cells = best_of(cells, tuning)
    if shard is not None:
        from outland.studies.jobs import shard as part_of

        cells = part_of(cells, shard)
    if dry_run:
        _plan(chosen, cells, out, device)
        return
    how = {"retry": retry, "device": device, "engine": who, "track": track}
    _carry_out(chosen, cells, out, words, data, how, report=report, shard=shard, tuned=tuned)


def _carry_out(
    chosen: Any,
    cells: Any,
    out: Path,
    words: list[str],
    data: Path | None,
    how: dict[str, Any],
    *,
    report: bool,
    shard: str | None,
    tuned: bool,
) -> None:
    from outland.datasets import DataFolder
    from outland.report.study import write_report
    from outland.studies.other_settings import describe_other_settings
    from outland.studies.runner import run_study, study_outcome

    files = DataFolder(data)
    try:
        outcome = study_outcome(chosen, cells, out) if report else run_study(chosen, cells, out, data=files, **how)
    except KeyboardInterrupt:
        typer.secho("\nStopped. The same command goes on from the last checkpoints.", err=True)
        raise typer.Exit(130) from None
    if shard is not None:
        typer.echo(f"shard {shard}: {_counts(outcome)}; once all shards are done, --report writes the report")
    else:
        others = describe_other_settings(chosen, cells, out) if report and outcome.states.keys() != {"done"} else ""
        if not outcome.states["done"]:
            _tell_failures(outcome)
            asked = " with these settings" if others or words else ""
            told = f". {others}" if others else ""
            raise OutlandError(f"no run of the study {chosen.name}{asked} is done: there is nothing to report{told}")
        page = write_report(chosen, cells, out, words, files, tuned=tuned)
        typer.echo(f"runs: {_counts(outcome)}")
        if others:
            typer.echo(f"note: {others}")
        kept = "" if page.stem == chosen.name else f"; {chosen.name}.html is for the whole study in the paper's setting"
        typer.echo(f"page: {page}  (also .md, .tex, .csv{kept})")
    _tell_failures(outcome)
    if outcome.failures:
        raise typer.Exit(1)


def _counts(outcome: Any) -> str:
    states = ", ".join(f"{count:,} {state}" for state, count in outcome.states.items())
    return f"{states or 'none here'}; {len(outcome.executed)} carried out now"


def _tell_failures(outcome: Any) -> None:
    """A line for every error, with the runs that met it; whether that was now or before this command."""
    met: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for cell, folder, error in outcome.failures:
        when = "failed" if folder in outcome.executed else "failed earlier and left alone"
        met.setdefault((when, error), []).append((cell, folder))
    for (when, error), runs in met.items():
        cells = list(dict.fromkeys(cell for cell, _ in runs))
        named = ", ".join(cells[:3]) + (f" and {counted(len(cells) - 3, 'other cell')}" if cells[3:] else "")
        where = runs[0][1] if len(runs) == 1 else f"{counted(len(runs), 'run')}, the first {runs[0][1]}"
        typer.secho(f"{when}: {named} ({where}): {error}", fg="red", err=True)
    if outcome.failures:
        typer.secho("The same command with --retry tries them again.", err=True)


def _list(seeds: int | None, device: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from outland.devices import find_device
    from outland.studies import STUDIES, find_study
    from outland.studies.durations import calibrate, estimate_seconds

    speed = calibrate(find_device(device))
    table = Table(
        caption="hours: of training, estimated for this machine, one run after another, from a second of training "
        "steps; runs that studies share are done once"
    )
    for column in ("study", "runs", "hours", "what it is"):
        table.add_column(column, justify="right" if column in ("runs", "hours") else "left")
    every: dict[str, float] = {}
    for name in STUDIES:
        chosen = find_study(name)
        number = seeds if seeds is None or chosen.repeats == "seeds" else min(seeds, chosen.seeds)
        costs = {  # what is measured without a trained model is the study's own
            spec.slug if cell.row.trained else f"{name} {spec.slug}": estimate_seconds(spec, speed)
            * chosen.trains(cell)
            for cell in chosen.cells(number)
            for spec in cell.specs
        }
        every |= costs
        shape = f"{len(chosen.rows)} × {len(chosen.columns)} cells"
        table.add_row(name, str(len(costs)), _hours(costs), f"{chosen.title} ({shape})")
    table.add_section()
    table.add_row("all", str(len(every)), _hours(every), "each run once")
    Console().print(table)


def _hours(costs: dict[str, float]) -> str:
    hours = sum(costs.values()) / 3600
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else "< 0.1"


def _plan(chosen: Any, cells: Any, out: Path, device: str) -> None:
    from rich.console import Console

    from outland.devices import find_device
    from outland.report.study_text import plan_table
    from outland.studies.durations import calibrate, estimate_seconds, format_duration
    from outland.studies.run_store import RunStore
    from outland.studies.runner import study_outcome

    store = RunStore(chosen, out)
    states = {cell.name: [store.state(cell, spec) for spec in cell.specs] for cell in cells}
    Console().print(plan_table(chosen, cells, states))
    outcome = study_outcome(chosen, cells, out)
    speed = calibrate(find_device(device))
    left = {
        spec.slug: estimate_seconds(spec, speed)
        for cell in cells
        for spec, state in zip(cell.specs, states[cell.name], strict=True)
        if state in ("waiting", "begun") and chosen.trains(cell)
    }
    told = ", ".join(f"{count:,} {state}" for state, count in outcome.states.items())
    togo = f"about {format_duration(sum(left.values()))} to train on this machine" if left else "nothing to train"
    typer.echo(f"{counted(len(cells), 'cell')}, {counted(outcome.states.total(), 'run')}: {told}; {togo}")
    _tell_failures(outcome)
