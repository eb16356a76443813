"""Twenty steps of a method, by one process or by two."""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from outland.graphs import Cache
from outland.training import RunSpec, Trainer, prepare
from outland.training.callbacks import Callback
from outland.training.parallel import started_by_torchrun, synchronise_norms, together

STEPS = 20


class Counter(Callback):
    """Counts steps."""

    taken = 0

    def step(self) -> None:
        self.taken += 1


def train(spec: RunSpec, cache: Path, parallel: bool) -> dict[str, torch.Tensor]:
    """The weights after so many steps, in double precision: in single, Adam turns rounding into steps of its own."""
    method, splits = prepare(spec, torch.device("cpu"), Cache(cache))
    method, splits = method.double(), replace(splits, graphs=replace(splits.graphs, x=splits.graphs.x.double()))
    if parallel:
        synchronise_norms(method)
    counter = Counter()
    steps = Trainer(method, splits, spec.train, spec.seed, callback=counter).steps()
    while counter.taken < STEPS:
        next(steps)
    return {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}


def spec_of(method: str) -> RunSpec:
    """39 graphs in batches of 16, 16 and 7, of which one process takes 3 and the other 4; balanced by environment.

    There is no dropout, whose draws are each process's own.
    """
    changes = {
        "train": {"epochs": 8, "batch_size": 16, "balance": True},
        "data": {"limit": 39},
        "backbone": {"width": 16, "dropout": 0.0},
    }
    return RunSpec.make("motif", method, changes=changes)


def by_ranks(cache: Path, out: Path, methods: tuple[str, ...]) -> None:
    """Each method in turn, by this process and those it knows."""
    torch.set_num_threads(1)
    assert started_by_torchrun()
    with together(torch.device("cpu")):
        for name in methods:
            state = train(spec_of(name), cache, parallel=True)
            save_file(state, out / f"{name}-{torch.distributed.get_rank()}.safetensors")
