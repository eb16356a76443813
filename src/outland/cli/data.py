"""`outland data`: prepare, verify, count and draw datasets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli.options import (
    Data,
    DatasetName,
    Domain,
    Environment,
    Kind,
    Smiles,
    Split,
    Strict,
    Target,
    TaskKind,
    Time,
    table_domain,
    table_settings,
)
from outland.errors import OutlandError

app = typer.Typer(help="Prepare, verify, count and draw datasets.", no_args_is_help=True)
GeneratorSeed = Annotated[int, typer.Option("--seed", help="Of the dataset's generator or splitter.")]


def _load(
    dataset: str, domain: str | None, kind: str | None, seed: int, data: Path | None, table: Any = None
) -> tuple[Any, Any, tuple[str, str]]:
    from outland.datasets import DataFolder, find_dataset

    source = find_dataset(dataset, table)
    domain, kind = domain or source.domains[0], kind or source.kinds[0]
    return source, source.load(domain, kind, seed, data=DataFolder(data)).check(), (domain, kind)


@app.command()
def prepare(
    dataset: DatasetName,
    domain: Domain = None,
    kind: Kind = None,
    seed: GeneratorSeed = 123,
    data: Data = None,
    smiles: Smiles = "smiles",
    target: Target = None,
    task: TaskKind = "auto",
    environment: Environment = None,
    split: Split = None,
    time: Time = None,
    strict: Strict = False,
) -> None:
    """Generate or convert a dataset into the cache, so that runs start at once; say what was found."""
    from outland.graphs import Cache
    from outland.report.dataset_text import print_description

    table = table_settings(
        dataset, smiles=smiles, target=target, task=task, environment=environment, split=split, time=time, strict=strict
    )
    _, splits, _ = _load(dataset, table_domain(domain, split, time), kind, seed, data, table)
    print_description(splits, Path(f"{Path(dataset).name.split('.')[0]}-quarantine.csv"))
    typer.echo(f"cache: {Cache().folder}")


@app.command()
def verify(dataset: DatasetName, domain: Domain = None, kind: Kind = None, data: Data = None) -> None:
    """Check that the prepared graphs are, bit for bit, the published ones."""
    if Path(dataset).is_file():
        raise OutlandError(f"{dataset} is your own table: there is nothing published to compare it with")
    source, splits, (domain, kind) = _load(dataset, domain, kind, 123, data)
    verdicts = source.verify(splits, domain, kind)
    for part in splits.parts:
        word = {True: "as published", False: "DIFFERENT", None: "no published fingerprint"}[verdicts.get(part)]
        typer.echo(f"{dataset} {domain} {kind} {part}: {word}")
    if not all(verdicts.values()):
        raise OutlandError("these graphs are not the published ones")


@app.command()
def table(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET]...", help="By default all of the paper's.")
    ] = None,
    data: Data = None,
) -> None:
    """Count graphs, nodes and edges beside the paper's table, cell by cell."""
    from rich.console import Console

    from outland.datasets import DataFolder
    from outland.report.counts import compare_counts, counts_table

    cells, notes = compare_counts(only or [], DataFolder(data))
    screen = Console()
    screen.print(counts_table(cells))
    for note in notes:
        screen.print(note)


@app.command()
def show(
    dataset: DatasetName,
    domain: Domain = None,
    kind: Kind = None,
    seed: GeneratorSeed = 123,
    out: Annotated[Path | None, typer.Option(help=r"The picture. \[default: DATASET-SHIFT.png]")] = None,
    data: Data = None,
    smiles: Smiles = "smiles",
    target: Target = None,
    task: TaskKind = "auto",
    environment: Environment = None,
    split: Split = None,
    time: Time = None,
) -> None:
    """Draw a few graphs of each part and training environment, so that a person sees the shift."""
    from outland.report.drawing import draw_gallery
    from outland.storage.files import writable_folder

    own = table_settings(
        dataset, smiles=smiles, target=target, task=task, environment=environment, split=split, time=time
    )
    source, splits, (domain, _) = _load(dataset, table_domain(domain, split, time), kind, seed, data, own)
    picture = out or Path(f"{Path(dataset).name.split('.')[0]}-{domain}.png")
    writable_folder(picture.parent)
    draw_gallery(source, splits, picture, data)
    typer.echo(f"picture: {picture}")
