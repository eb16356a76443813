"""`outland study`: the paper's tables, one command each."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.cli.records import export, import_, import_new
from outland.errors import OutlandError, counted, unknown
from outland.progress import echo, screen

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CELL",
        help="A ROW, a COLUMN or ROW/COLUMN, where * stands for anything; a dataset stands for its columns. "
        "Given again, it adds to what is kept.",
    ),
]
Engine = Annotated[str, typer.Option(metavar="local|ray", help="Who carries the runs out: this machine, or a cluster.")]
Workers = Annotated[
    int | None, typer.Option(help=r"local: so many processes of one thread each, on a CPU. \[default: 1]")
]
Address = Annotated[
    str | None, typer.Option(help=r"ray: of the cluster. \[default: $RAY_ADDRESS, else this machine alone]")
]
Cpus = Annotated[float | None, typer.Option(min=0, help=r"ray: CPUs a task. \[default: 1]")]
Gpus = Annotated[float | None, typer.Option(min=0, help=r"ray: GPUs a task. \[default: 1 where the cluster has any]")]
SendBack = Annotated[
    bool, typer.Option("--send-back", help="ray: send results here, where machines do not share the --out folder.")
]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Do one of N equal parts of the runs, for job arrays; no report.")
]


def study(
    name: Annotated[str, typer.Argument(metavar="NAME|list|export|import", help="`list` says what there is.")],
    moved: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [STUDY ...]", help="export FILE [STUDY ...] and import FILE ... move records."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs a cell: seeds, or folds; the paper has 10.")] = None,
    only: Only = None,
    newer: Annotated[
        bool,
        typer.Option("--all", help="Run the rows of methods since the paper, too; --report shows those with runs."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and run nothing.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the report of what is there.")] = False,
    epochs: options.Epochs = None,
    limit: options.Limit = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="GROUP.NAME=VALUE", help="Change a setting of every run.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of studies: reports, and all their runs in `runs`.")] = Path(
        "studies"
    ),
    records: Annotated[
        Path,
        typer.Option(
            help="--report, --dry-run: folder of .jsonl.xz files, from which the study's runs are imported first."
        ),
    ] = Path("results/records"),
    device: options.Device = "auto",
    data: options.Data = None,
    engine: Engine = "local",
    workers: Workers = None,
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    send_back: SendBack = False,
    shard: Shard = None,
    track: options.Track = None,
    time_budget: options.TimeBudget = None,
    tuned: Annotated[bool, typer.Option("--tuned", help="Take the best settings that `outland tune` found.")] = False,
    tuning: Annotated[Path, typer.Option(help="--tuned: folder of searches.")] = Path("tuning"),
) -> None:
    """Run a study: a table of the paper, or all that is missing of it, and write its report.

    Runs that are done are skipped, interrupted ones go on, failed ones are
    listed and tried again with --retry: the same command goes on after Ctrl-C,
    a crash or kill -9. Studies share their runs. `export` writes the records of
    finished runs to one file, `import` takes them in on another machine.
    """
    if name in ("export", "import"):
        move = {"export": export, "import": import_}[name]
        move(moved or [], out, seeds=seeds, words=options.assignments(set_, epochs, limit), only=only or [])
        return
    if moved:
        raise OutlandError(f"one study at a time: '{moved[0]}' is one word too many")
    if name == "list":
        _list(seeds, device)
        return
    from outland.datasets import DataFolder
    from outland.studies import find_study
    from outland.studies.jobs import shard as shard_cells
    from outland.studies.results import Results
    from outland.studies.runner import run_study, study_outcome
    from outland.studies.tuned import with_tuned_settings

    selected, words, files = find_study(name), options.assignments(set_, epochs, limit), DataFolder(data)
    if newer and not selected.newer:
        raise OutlandError(f"the study {name} has no rows of methods since the paper: leave --all out")
    selected = selected.with_newer() if newer or report else selected
    cells = selected.cells(seeds, words, only or [])
    runner = _engine(engine, workers, address=address, cpus=cpus, gpus=gpus, send_back=send_back or None)
    cells = with_tuned_settings(cells, tuning) if tuned else cells
    cells = cells if shard is None else shard_cells(cells, shard)
    if report or dry_run:
        import_new(name, {spec.key for cell in cells for spec in cell.specs}, records, out)
    if report and not newer:
        cells = [*Results.read(selected, cells, out).with_begun_rows().cells]
    if dry_run:
        _plan(selected, cells, out, device)
        return
    seconds = options.parse_duration(time_budget)
    with options.stoppable("The same command goes on from the last checkpoints."):
        how: dict[str, Any] = {"retry": retry, "device": device, "engine": runner, "track": track, "data": files}
        how |= {"seconds": seconds}
        outcome = study_outcome(selected, cells, out) if report else run_study(selected, cells, out, **how)
    if seconds is not None and not outcome.states["done"] and not outcome.failures:
        echo(f"the time is up: {_counts(outcome)}; the same command goes on")
        return
    if shard is not None:
        echo(f"shard {shard}: {_counts(outcome)}; once all shards are done, --report writes the report")
    else:
        _report(selected, cells, out, outcome, report, words=words, data=files, tuned=tuned)
    _print_failures(outcome)
    if outcome.failures:
        raise typer.Exit(1)


def _engine(name: str, workers: int | None, **given: Any) -> Any:
    """The engine of that name; options of the other one are refused."""
    from outland.studies.engines.local import LocalEngine
    from outland.studies.engines.ray import RayEngine

    ray_options = {option: value for option, value in given.items() if value is not None}
    if name == "local":
        if ray_options:
            raise OutlandError(f"--{next(iter(ray_options)).replace('_', '-')} is for --engine ray")
        return LocalEngine(1 if workers is None else workers)
    if name != "ray":
        raise unknown("engine", name, ["local", "ray"])
    if workers is not None:
        raise OutlandError("--workers is for --engine local; on a cluster --cpus and --gpus say what each task needs")
    return RayEngine(**ray_options)


def _report(selected: Any, cells: Any, out: Path, outcome: Any, only_report: bool, **how: Any) -> None:
    """Write the report of the runs that are done, or raise an error if none is."""
    from outland.report.study import write_report
    from outland.studies.other_settings import describe_other_settings

    missing = only_report and outcome.states.keys() != {"done"}
    others = describe_other_settings(selected, cells, out) if missing else ""
    if not outcome.states["done"]:
        _print_failures(outcome)
        settings = " with these settings" if others or how["words"] else ""
        note = f". {others}" if others else ""
        raise OutlandError(f"no run of the study {selected.name}{settings} is done: there is nothing to report{note}")
    page = write_report(selected, cells, out, **how)
    echo(f"runs: {_counts(outcome)}")
    if others:
        echo(f"note: {others}")
    is_part = page.stem != selected.name
    whole = f"; {selected.name}.html is for the whole study in the paper's setting" if is_part else ""
    echo(f"page: {page}  (also .md, .tex, .csv{whole})")


def _counts(outcome: Any) -> str:
    return f"{_states(outcome) or 'none here'}; {len(outcome.executed)} carried out now"


def _states(outcome: Any) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in outcome.states.items())


def _print_failures(outcome: Any) -> None:
    """A line for every error, with the runs that met it; whether that was now or before this command."""
    met: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for cell, folder, error in outcome.failures:
        when = "failed" if folder in outcome.executed else "failed earlier and left alone"
        met.setdefault((when, error), []).append((cell, folder))
    for (when, error), runs in met.items():
        cells = list(dict.fromkeys(cell for cell, _ in runs))
        named = ", ".join(cells[:3]) + (f" and {counted(len(cells) - 3, 'other cell')}" if cells[3:] else "")
        where = runs[0][1] if len(runs) == 1 else f"{counted(len(runs), 'run')}, the first {runs[0][1]}"
        echo(f"{when}: {named} ({where}): {error}", fg="red", err=True)
    if outcome.failures:
        echo("The same command with --retry tries them again.", err=True)


def _list(seeds: int | None, device: str) -> None:
    from rich.table import Column, Table

    from outland.devices import find_device
    from outland.studies import STUDIES, find_study
    from outland.studies.estimates import run_estimate

    seconds = run_estimate(find_device(device))
    table = Table(
        *("study", Column("runs", justify="right"), Column("hours", justify="right"), "what it is"),
        caption="hours: of training, estimated for this machine, one run after another (on a GPU side by side), from a "
        "second of training steps; runs that studies share are done once",
    )
    every: dict[str, float] = {}
    for name in STUDIES:
        selected = find_study(name)
        number = seeds if seeds is None or selected.repeats == "seeds" else min(seeds, selected.seeds)
        costs = {  # what is measured without a trained model is the study's own
            spec.slug if cell.row.trained else f"{name} {spec.slug}": seconds(spec) * selected.trains(cell)
            for cell in selected.cells(number)
            for spec in cell.specs
        }
        every |= costs
        shape = f"{len(selected.rows)} × {len(selected.columns)} cells"
        table.add_row(name, str(len(costs)), _hours(costs), f"{selected.title} ({shape})")
    table.add_section()
    table.add_row("all", str(len(every)), _hours(every), "each run once")
    screen().print(table)


def _hours(costs: dict[str, float]) -> str:
    hours = sum(costs.values()) / 3600
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else "< 0.1"


def _plan(selected: Any, cells: Any, out: Path, device: str) -> None:
    from outland.devices import find_device
    from outland.report.study_terminal import plan_table
    from outland.studies.durations import format_duration
    from outland.studies.estimates import run_estimate
    from outland.studies.run_store import RunStore
    from outland.studies.runner import study_outcome

    store = RunStore(selected, out)
    states = {cell.name: [store.state(cell, spec) for spec in cell.specs] for cell in cells}
    screen().print(f"{selected.name}: {selected.title}", style="italic", highlight=False)
    screen().print(plan_table(cells, states))
    screen().print("runs done of all; ! failed, … begun", style="dim", highlight=False)
    outcome = study_outcome(selected, cells, out)
    seconds = run_estimate(find_device(device))
    left = {
        spec.slug: seconds(spec)
        for cell in cells
        for spec, state in zip(cell.specs, states[cell.name], strict=True)
        if state in ("waiting", "begun") and selected.trains(cell)
    }
    togo = f"about {format_duration(sum(left.values()))} to train on this machine" if left else "nothing to train"
    echo(f"{counted(len(cells), 'cell')}, {counted(outcome.states.total(), 'run')}: {_states(outcome)}; {togo}")
    _print_failures(outcome)
