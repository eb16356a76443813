"""A run by all processes that `torchrun` started; the main process writes its folder."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.distributed import local_rank, process_group, rank
from outland.graphs import Cache, Splits
from outland.methods import Method
from outland.nn import synchronize_batch_norm
from outland.spec import RunSpec, load_splits
from outland.training.capture import wait_for
from outland.training.record import RunRecord
from outland.training.run_folder import RunFolder
from outland.training.runs import Run


def run_distributed(
    spec: RunSpec,
    out: Path,
    *,
    device: str = "auto",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    sync_norm: bool = False,
    **options: Any,
) -> RunRecord | None:
    """As `run`, by all processes; returns the record in the main process and None in the others.

    Args:
        spec, device, cache, data: as in `run`; of several GPUs each process takes its own.
        out: folder of runs, which all processes must see to resume a run.
        sync_norm: let batch norm see the rows of all processes.
        options: more for `run`, in the main process.
    """
    where = find_device(device)
    if where.type == "cuda":
        where = torch.device("cuda", local_rank())
        torch.cuda.set_device(where)

    def ready(method: Method) -> None:
        if sync_norm:
            synchronize_batch_norm(method)

    def load() -> Splits:
        return load_splits(spec, where, cache, data)

    with process_group(where):
        if rank() == 0:
            return _run_main(Run(spec, out, where, ready=ready, **options), load)
        if _broadcast_from_main(None):
            with tempfile.TemporaryDirectory(prefix="outland-") as scratch:
                _run_other(Run(spec, scratch, where, resume=True, ready=ready), RunFolder(out, spec), load)
        return None


def _run_other(run: Run, main: RunFolder, load: Callable[[], Splits]) -> None:
    """Execute the run in a process other than the main one, from the checkpoints in the main process's folder."""
    if main.checkpoints.newest() is not None:
        shutil.copytree(main.checkpoints.folder, run.folder.checkpoints.folder, symlinks=True)
    distributed.barrier()
    wait_for(run.steps(load))


def _run_main(run: Run, load: Callable[[], Splits]) -> RunRecord:
    """Execute the run; the other processes start, from the same checkpoint, once there is something to train."""
    started = False

    def start() -> Splits:
        nonlocal started
        started = _broadcast_from_main(True)
        distributed.barrier()
        return load()

    try:
        wait_for(run.steps(start))
        return run.record
    finally:
        if not started:
            _broadcast_from_main(False)


def _broadcast_from_main(value: bool | None) -> bool:
    values = [value]
    distributed.broadcast_object_list(values, 0)
    return bool(values[0])
