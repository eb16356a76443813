"""Nine steps of a method, by one process or by two."""

import socket
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from outland.distributed import is_distributed_launch, process_group
from outland.graphs import Cache
from outland.nn import synchronize_batch_norm
from outland.training import RunSpec, Trainer, prepare
from outland.training.callbacks import Callback
from tests.faults.children import as_rank
from tests.faults.harness import begin

STEPS = 9  # three epochs


class Counter(Callback):
    """Counts steps."""

    taken = 0

    def on_step_end(self) -> None:
        self.taken += 1


def train(spec: RunSpec, cache: Path, parallel: bool) -> dict[str, torch.Tensor]:
    """The weights after so many steps, in double precision: in single, Adam turns rounding into steps of its own."""
    method, splits = prepare(spec, torch.device("cpu"), Cache(cache))
    method, splits = method.double(), replace(splits, graphs=replace(splits.graphs, x=splits.graphs.x.double()))
    if parallel:
        synchronize_batch_norm(method)
    counter = Counter()
    steps = Trainer(method, splits, spec.train, spec.seed, callback=counter).steps()
    while counter.taken < STEPS:
        next(steps)
    return {name: tensor.detach().clone() for name, tensor in method.state_dict().items()}


def spec_of(method: str) -> RunSpec:
    """39 graphs in batches of 16, 16 and 7, of which one process takes 3 and the other 4; balanced by environment.

    There is neither dropout nor thinning, whose draws are each process's own.
    """
    changes = {
        "train": {"epochs": 8, "batch_size": 16, "balance": True},
        "data": {"limit": 39},
        "backbone": {"width": 16, "dropout": 0.0},
    }
    if method == "evidence":
        changes["method"] = {"whole": 1.0, "mix": 0.0}
    return RunSpec.make("motif", method, changes=changes)


def by_ranks(cache: Path, out: Path, methods: tuple[str, ...]) -> None:
    """Each method in turn, by this process and the others of its group."""
    torch.set_num_threads(1)
    assert is_distributed_launch()
    with process_group(torch.device("cpu")):
        for name in methods:
            state = train(spec_of(name), cache, parallel=True)
            save_file(state, out / f"{name}-{torch.distributed.get_rank()}.safetensors")


def as_ranks(work, *given) -> list[int]:
    """How two processes end that know each other, as `torchrun` would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [begin(as_rank, rank, port, work, *given) for rank in (0, 1)]
    for one in both:
        one.join(120)
    return [one.exitcode for one in both]
