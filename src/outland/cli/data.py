"""`outland data`: prepare, import, verify, count and draw datasets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.errors import OutlandError
from outland.progress import echo, screen

app = typer.Typer(help="Prepare, import, verify, count and draw datasets.", no_args_is_help=True)
GeneratorSeed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of the dataset's generator or splitter.")
]


def _load(
    dataset: str,
    domain: str | None,
    kind: str | None,
    seed: int,
    data: Path | None,
    cache: Any = None,
    **columns: Any,
) -> tuple[Any, Any, tuple[str, str]]:
    """A dataset or the user's table, its splits, and their domain and kind."""
    from outland.datasets import DataFolder, find_dataset

    source = find_dataset(dataset, options.table_settings(dataset, **columns))
    domain = options.table_domain(domain, columns.get("split"), columns.get("time")) or source.domains[0]
    kind = kind or source.kinds[0]
    return source, source.load(domain, kind, seed, cache, DataFolder(data)).check(), (domain, kind)


@app.command()
def prepare(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET...", help="Names, or files of your own tables, of one layout.")
    ],
    domain: options.Domain = None,
    kind: options.Kind = None,
    seed: GeneratorSeed = 123,
    data: options.Data = None,
    smiles: options.Smiles = "",
    target: options.Target = None,
    task: options.TaskKind = "auto",
    merge_labels: options.MergeLabels = False,
    censored: options.Censored = "ask",
    environment: options.Environment = None,
    split: options.Split = None,
    time: options.Time = None,
    strict: options.Strict = False,
    descriptors: Annotated[
        bool, typer.Option("--descriptors", help="Also with the descriptors that backbone.descriptors=true reads.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write folders for `outland data import`; all domains, if none is named."
        ),
    ] = None,
) -> None:
    """Generate or convert datasets into the cache, so that runs start at once; say what was found."""
    from outland.datasets import DataFolder
    from outland.graphs import Cache
    from outland.graphs.portable import export_entry
    from outland.report.dataset_text import print_description
    from outland.storage.files import writable_folder

    columns: dict[str, Any] = {"smiles": smiles, "target": target, "task": task, "environment": environment}
    columns |= {"merge_labels": merge_labels, "censored": censored}
    columns |= {"split": split, "time": time, "strict": strict}
    cache = Cache()
    for dataset in datasets:
        source, splits, (used, shift) = _load(dataset, domain, kind, seed, data, cache, **columns)
        print_description(splits, Path(f"{Path(dataset).name.split('.')[0]}-quarantine.csv"))
        if descriptors:  # one entry, which all domains share
            source.load_with_descriptors(used, shift, seed, cache, DataFolder(data))
        if out is not None and domain is None and not Path(dataset).is_file():
            for other in source.domains[1:]:
                _load(dataset, other, kind, seed, data, cache)
    echo(f"cache: {cache.folder}")
    if out is not None:
        for path in cache.loaded:
            echo(f"{writable_folder(out)}/{export_entry(path, out)}")


@app.command("import")
def import_(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="What `outland data prepare --out` wrote, or folders of it.")
    ],
) -> None:
    """Put prepared folders into the cache: training then needs neither their raw files nor RDKit or scikit-image."""
    from outland.graphs import Cache
    from outland.graphs.portable import import_entry, portable_folders

    cache = Cache()
    for folder in folders:
        for each in portable_folders(folder):
            entry, is_new = import_entry(cache, each)
            echo(f"{'imported' if is_new else 'already there:'} {entry}")
    echo(f"cache: {cache.folder}")


@app.command()
def verify(
    dataset: options.DatasetName, domain: options.Domain = None, kind: options.Kind = None, data: options.Data = None
) -> None:
    """Check that the prepared graphs are, bit for bit, the published ones."""
    if Path(dataset).is_file():
        raise OutlandError(f"{dataset} is your own table: there is nothing published to compare it with")
    source, splits, (domain, kind) = _load(dataset, domain, kind, 123, data)
    verdicts = source.verify(splits, domain, kind)
    for part in splits.parts:
        word = {True: "as published", False: "DIFFERENT", None: "no published fingerprint"}[verdicts.get(part)]
        echo(f"{dataset} {domain} {kind} {part}: {word}")
    if not all(verdicts.values()):
        raise OutlandError("these graphs are not the published ones")


@app.command()
def table(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET]...", help="By default all of the paper's.")
    ] = None,
    data: options.Data = None,
) -> None:
    """Count graphs, nodes and edges beside the paper's table, cell by cell."""
    from outland.datasets import DataFolder
    from outland.report.counts import compare_counts, counts_table

    cells, notes = compare_counts(only or [], DataFolder(data))
    screen().print(counts_table(cells), *notes, sep="\n")


@app.command()
def show(
    dataset: options.DatasetName,
    domain: options.Domain = None,
    kind: options.Kind = None,
    seed: GeneratorSeed = 123,
    out: Annotated[Path | None, typer.Option(help=r"The picture. \[default: DATASET-SHIFT.png]")] = None,
    data: options.Data = None,
    smiles: options.Smiles = "",
    target: options.Target = None,
    task: options.TaskKind = "auto",
    merge_labels: options.MergeLabels = False,
    censored: options.Censored = "ask",
    environment: options.Environment = None,
    split: options.Split = None,
    time: options.Time = None,
) -> None:
    """Draw a few graphs of each part and training environment, so that a person sees the shift."""
    from outland.report.drawing import draw_gallery
    from outland.storage.files import writable_folder

    columns: dict[str, Any] = {"smiles": smiles, "target": target, "task": task, "environment": environment}
    columns |= {"merge_labels": merge_labels, "censored": censored}
    source, splits, (domain, _) = _load(dataset, domain, kind, seed, data, **columns, split=split, time=time)
    picture = out or Path(f"{Path(dataset).name.split('.')[0]}-{domain}.png")
    writable_folder(picture.parent)
    draw_gallery(source, splits, picture, data)
    echo(f"picture: {picture}")
