"""`outland train`: one method on one dataset, or on a user's table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outland.cli import options
from outland.errors import OutlandError
from outland.progress import say


def train(
    dataset: options.DatasetName,
    method: options.Method = "aia",
    domain: options.Domain = None,
    kind: options.Kind = None,
    seed: options.Seed = 0,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many seeds, from --seed on; on a GPU they train side by side.")
    ] = 1,
    set_: options.Settings = None,
    recipe: options.Recipe = None,
    out: Annotated[Path, typer.Option(help="Folder of runs; this one gets a folder of its own in it.")] = Path("runs"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Throw away an earlier run of the same settings.")] = False,
    device: options.Device = "auto",
    track: options.Track = None,
    sync_norm: Annotated[
        bool, typer.Option("--sync-norm", help="Under torchrun: batch norm over the whole batch, not a process's part.")
    ] = False,
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
) -> None:
    """Train one method on one dataset (or your own table) under one shift, and write its model and record.

    Several processes train one model: torchrun --nproc-per-node 2 -m outland train ...
    """
    from outland.datasets import DataFolder
    from outland.devices import busy_cores_note, find_device
    from outland.distributed import is_distributed_launch, is_main_process
    from outland.report.dataset_text import print_description
    from outland.report.summaries import print_record
    from outland.spec import RunSpec, load_splits
    from outland.storage.files import refuse_symlink
    from outland.training.callbacks import progress_callback
    from outland.training.distributed_run import run_distributed
    from outland.training.run_folder import RunFolder
    from outland.training.runs import run
    from outland.training.trackers import check_tracker, tracked
    from outland.workers import available_cores

    if track is not None:
        check_tracker(track)
    distributed = is_distributed_launch()
    if distributed and seeds > 1:
        raise OutlandError("under torchrun all processes train one seed: leave --seeds out")
    if resume and force:
        raise OutlandError("--resume goes on with an earlier run and --force throws it away: choose one")
    columns: dict[str, Any] = {"smiles": smiles, "target": target, "task": task, "environment": environment}
    columns |= {"merge_labels": merge_labels, "censored": censored}
    table = options.table_settings(dataset, **columns, split=split, time=time, strict=strict)
    which: dict[str, Any] = {"domain": options.table_domain(domain, split, time), "kind": kind, "seed": seed}
    start = options.chosen_recipe(recipe, dataset, table)
    spec = RunSpec.from_words(dataset, method, set_ or [], table=table, recipe=start, **which)
    folder, files = RunFolder(out, spec).path, DataFolder(data)
    if note := busy_cores_note(find_device(device), available_cores()):
        say(note, "yellow")
    with options.stoppable("The same command with --resume goes on from the last checkpoint."):
        if table is not None and is_main_process():
            refuse_symlink(folder)
            print_description(load_splits(spec, data=files), folder / "quarantine.csv")
        if seeds > 1:
            from outland.cli.several import train_several

            train_several(spec, seeds, out, track, resume=resume, force=force, device=device, data=files)
            return
        callback = tracked(progress_callback(), track, out)
        how: Any = {"resume": resume, "force": force, "device": device, "data": files, "callback": callback}
        record = run_distributed(spec, out, sync_norm=sync_norm, **how) if distributed else run(spec, out, **how)
    if record is not None:
        print_record(record, folder)
