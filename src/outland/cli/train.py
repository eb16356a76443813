"""`outland train`: one method on one dataset, or on a user's table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli.options import (
    Data,
    DatasetName,
    Domain,
    Environment,
    Kind,
    Recipe,
    Seed,
    Settings,
    Smiles,
    Split,
    Strict,
    Target,
    TaskKind,
    Time,
    Track,
    chosen_recipe,
    table_domain,
    table_settings,
)
from outland.errors import OutlandError


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
    set_: Settings = None,
    recipe: Recipe = None,
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
    from outland.datasets import DataFolder
    from outland.distributed import is_distributed_launch, is_main_process
    from outland.report.dataset_text import print_description
    from outland.report.summaries import print_record
    from outland.spec import RunSpec, load_splits
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
            print_description(load_splits(spec, data=files), folder / "quarantine.csv")
        if seeds > 1:
            from outland.cli.several import train_several

            train_several(spec, seeds, out, resume=resume, force=force, device=device, data=files, track=track)
            return
        callback = tracked(progress_callback(), track, out)
        options: Any = {"resume": resume, "force": force, "device": device, "data": files, "callback": callback}
        record = run_distributed(spec, out, sync_norm=sync_norm, **options) if several else run(spec, out, **options)
    except KeyboardInterrupt:
        typer.secho("\nStopped. The same command with --resume goes on from the last checkpoint.", err=True)
        raise typer.Exit(130) from None
    if record is not None:
        print_record(record, folder)
