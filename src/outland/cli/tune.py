"""`outland tune`: search a method's own space."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.errors import OutlandError
from outland.progress import echo, screen


def tune(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A name from `outland list datasets`.")],
    method: options.Method,
    trials: Annotated[int, typer.Option(min=1, help="How many settings to try, in all processes together.")] = 20,
    domain: options.Domain = None,
    kind: options.Kind = None,
    seed: options.Seed = 0,
    epochs: options.Epochs = None,
    limit: options.Limit = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="GROUP.NAME=VALUE", help="Change a setting of every trial.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of searches; this one gets a folder of its own in it.")] = Path(
        "tuning"
    ),
    workers: Annotated[int, typer.Option(min=1, help="So many processes of one thread each, on a CPU.")] = 1,
    device: options.Device = "auto",
    data: options.Data = None,
) -> None:
    """Search for a method's best settings on OOD validation; trials that fall behind the median are given up.

    The same command goes on after Ctrl-C, a crash or kill -9, with more
    --trials too; started several times, on machines that share the folder,
    all work on one search. The test part is never looked at.
    """
    from outland.datasets import DataFolder
    from outland.studies.search import Search
    from outland.training import RunSpec

    words = options.assignments(set_, epochs, limit)
    search = Search(RunSpec.from_words(dataset, method, words, domain=domain, kind=kind, seed=seed), trials, out)
    with options.stoppable("The same command goes on with the search."):
        search.run(workers, device=device, data=DataFolder(data))
    _show(search.report(), search.folder)


def _show(report: dict[str, Any], folder: Path) -> None:
    from rich.table import Table

    names = list(report["space"])
    table = Table(
        "trial", *names, "OOD validation", "epochs", "state", caption="larger is better; an error counts as negative"
    )
    for row in report["trials"][:20]:
        value = "–" if row["value"] is None else f"{row['value']:.4f}"
        settings = [str(row["params"].get(name, "–")) for name in names]
        table.add_row(str(row["number"]), *settings, value, str(row["epochs"] or "–"), row["state"])
    screen().print(table)
    counts = Counter(row["state"] for row in report["trials"])
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    echo(f"{len(report['trials'])} trials of at most {report['budget']}: {states}")
    if report["best"] is None:
        raise OutlandError("no trial came to its end: there is nothing to recommend")
    best = " ".join(f"--set method.{name}={value}" for name, value in report["best"]["params"].items())
    echo(f"best: {best}")
    echo(f"record: {folder / 'search.json'}")
