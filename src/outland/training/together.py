"""A run that several processes carry out together, as `torchrun` starts them; the first one writes it down."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.distributed import rank
from outland.graphs import Cache, Splits
from outland.methods import Method
from outland.spec import RunSpec
from outland.training.parallel import synchronise_norms, together
from outland.training.record import RunRecord
from outland.training.runs import Run, RunFolder, load_splits


def run_together(
    spec: RunSpec,
    out: Path,
    *,
    device: str = "auto",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    sync_norm: bool = False,
    **how: Any,
) -> RunRecord | None:
    """As `run`, by all processes; the record, in the first of them, and None in the others.

    Args:
        spec, device, cache, data: as in `run`; of several GPUs each process takes its own.
        out: folder of runs, which all processes must see to go on with a run that was begun.
        sync_norm: let batch norm see the rows of all processes.
        how: more for `run`, in the first process.
    """
    where = find_device(device)
    if where.type == "cuda":
        where = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(where)

    def ready(method: Method) -> None:
        if sync_norm:
            synchronise_norms(method)

    def load() -> Splits:
        return load_splits(spec, where, cache, data)

    with together(where):
        if rank() == 0:
            return _lead(Run(spec, out, where, ready=ready, **how), load)
        if _said(None) != "go":
            return None
        with tempfile.TemporaryDirectory(prefix="outland-") as scratch:
            begun, own = (RunFolder(place, spec).checkpoints.folder for place in (out, scratch))
            if begun.exists():
                shutil.copytree(begun, own)
            distributed.barrier()
            for _ in Run(spec, scratch, where, resume=True, ready=ready).steps(load):
                pass
        return None


def _lead(run: Run, load: Any) -> RunRecord:
    """Carry the run out; the others begin once it is clear that there is something to do, and from the same place."""
    told = []

    def begin() -> Splits:
        told.append(_said("go"))
        distributed.barrier()
        splits: Splits = load()
        return splits

    try:
        for _ in run.steps(begin):
            pass
        return run.record
    finally:
        if not told:
            _said("stop")


def _said(word: str | None) -> Any:
    """What the first process says."""
    words = [word]
    distributed.broadcast_object_list(words, 0)
    return words[0]
