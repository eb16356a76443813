"""Kernels at the shapes of batches of 512 graphs, forward and backward, captured and replayed: microseconds and GB/s.

    .venv/bin/python benchmarks/kernels.py [--only norm linear ...] [--sweep] [--seconds 0.05]

GB/s count what must be read and written at least once. `--sweep` goes through sizes of tiles instead of the chosen
ones. Needs a GPU.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from outland import ops
from outland.nn import BatchNorm
from outland.ops import DropoutDraws, DropoutSeeds, EdgeCSR, Edges, Segments

WIDTH, DEVICE = 300, torch.device("cuda")
SHAPES = {"cmnist": (38400, 713000), "motif": (9000, 28000), "molhiv": (13000, 28000)}  # nodes, edges
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
Work = Callable[[], None]
Case = tuple[str, str, Work, int]  # operation and part of it, shape, what to time, bytes

# What `--sweep` tries: module and constants of each family of kernels.
SWEEPS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "norm": (
        "norm",
        [
            {"TILE": (rows, columns, stages), "WARPS": warps, "MOST_BLOCKS": blocks}
            for rows, columns, warps in ((64, 64, 4), (32, 64, 4), (32, 128, 4), (64, 128, 8))
            for stages, blocks in ((1, 52), (1, 105), (3, 52))
        ],
    ),
    "linear": (
        "many_rows",
        [
            {"TILE": tile, "OPTIONS": {"num_warps": warps, "num_stages": stages}}
            for tile, warps, stages in (
                ((128, 128, 64), 8, 3),
                ((128, 128, 64), 8, 4),
                ((256, 128, 64), 8, 3),
                ((64, 128, 64), 4, 3),
                ((128, 64, 64), 4, 4),
                ((128, 128, 32), 4, 4),
            )
        ],
    ),
    "weight_grad": (
        "many_rows",
        [
            {"GRAD_TILE": tile, "GRAD_OPTIONS": {"num_warps": warps, "num_stages": stages}}
            for tile, warps, stages in (
                ((128, 128, 64), 8, 3),
                ((128, 128, 64), 8, 4),
                ((64, 128, 64), 4, 4),
                ((128, 64, 64), 4, 4),
            )
        ],
    ),
    "aggregate": ("aggregate", [{}]),
}


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers about 0 that have a gradient."""
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()


def local_edges(nodes: int, edges: int, graph: int = 75) -> Edges:
    """Edges within graphs of so many nodes, grouped by target and by source."""
    source = torch.randint(nodes, (edges,), device=DEVICE).sort().values
    target = (source // graph * graph + torch.randint(graph, (edges,), device=DEVICE)).clamp(max=nodes - 1)
    grouped = (EdgeCSR.from_edges(*ends, nodes) for ends in ((target, source), (source, target)))
    return Edges(torch.stack([source, target]), *grouped)


def forward_backward(call: Callable[[], Tensor], inputs: list[Tensor]) -> Work:
    """An operation and its gradients."""
    with torch.no_grad():
        grad = torch.randn_like(call())

    def work() -> None:
        torch.autograd.grad(call(), inputs, grad)

    return work


def norm_cases(shape: str, dtype: torch.dtype) -> Iterator[Case]:
    """Batch norm with a mask and a ReLU, 300 wide also with dropout."""
    nodes, seeds = SHAPES[shape][0], DropoutSeeds(torch.Generator(DEVICE))
    mask = torch.arange(nodes, device=DEVICE) < nodes - 100
    for width, draws in ((WIDTH, None), (WIDTH, DropoutDraws(0.5, seeds=seeds)), (2 * WIDTH, None)):
        x, layer = random(nodes, width, dtype=dtype), BatchNorm(width).to(DEVICE)
        seeds.renew()

        def call(x: Tensor = x, layer: BatchNorm = layer, draws: DropoutDraws | None = draws) -> Tensor:
            return ops.batch_norm(x, mask, layer.state(), True, draws)

        work = forward_backward(call, [x, *layer.parameters()])
        name = "norm+dropout" if draws else "norm"
        yield name, f"{shape} {nodes}x{width}", work, 8 * x.numel() * x.element_size()


def linear_cases(shape: str, dtype: torch.dtype) -> Iterator[Case]:
    """Both linear layers of GIN, by our kernel and by cuBLAS, part by part."""
    many, nodes = import_module("outland.ops.triton.many_rows"), SHAPES[shape][0]
    for inputs, outputs in ((WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)):
        x, weight, bias = random(nodes, inputs, dtype=dtype), random(outputs, inputs), random(outputs).detach()
        grad, at = random(nodes, outputs, dtype=dtype).detach(), f"{shape} {nodes}x{inputs}x{outputs}"
        size = (nodes * (inputs + outputs)) * x.element_size()
        low = weight.detach().to(dtype)
        plain: dict[str, Callable[[], Any]] = {
            "linear cublas": lambda x=x, low=low, bias=bias: torch.addmm(bias.to(low.dtype), x.detach(), low.T),
            "linear cublas grad_x": lambda grad=grad, low=low: grad @ low,
            "linear cublas grad_w": lambda grad=grad, x=x: grad.T @ x.detach(),
        }
        if dtype == torch.bfloat16:
            rounded = many.round_weight(weight.detach())
            plain |= {
                "linear": lambda x=x, m=rounded, b=bias, o=outputs: many.product(x.detach(), m.T, o, b),
                "linear grad_x": lambda grad=grad, m=rounded, i=inputs: many.product(grad, m, i),
                "weight_grad": lambda grad=grad, x=x: many.weight_grad(grad, x.detach()),
            }
        for name, work in plain.items():
            yield name, at, work, size


def aggregate_cases(shape: str, dtype: torch.dtype) -> Iterator[Case]:
    """GIN's sums over neighbours, as ERM and as AIA ask for them; molecules have edge states."""
    (nodes, count), graph = SHAPES[shape], {"cmnist": 75, "motif": 18, "molhiv": 26}[shape]
    edges, x, eps = local_edges(nodes, count, graph), random(nodes, WIDTH, dtype=dtype), random(1)
    weight = torch.rand(count, device=DEVICE).to(dtype).requires_grad_()
    state = random(count, WIDTH, dtype=dtype) if shape == "molhiv" else None
    states = [] if state is None else [state]
    for name, factor in (("aggregate", None), ("aggregate weighted", weight)):

        def call(factor: Tensor | None = factor) -> Tensor:
            return ops.gin_aggregate(x, eps, edges, factor, state)

        inputs = [x, eps, *states, *([] if factor is None else [factor])]
        rows = 2 * count * WIDTH * (1 if state is None else 3)  # as messages: one row for each edge, forward and back
        yield name, f"{shape} {nodes}/{count}", forward_backward(call, inputs), rows * x.element_size()


def row_cases(shape: str, dtype: torch.dtype) -> Iterator[Case]:
    """Scaled rows, means of graphs, embeddings and the mean risk."""
    nodes, count = SHAPES[shape]
    x, weight = random(nodes, WIDTH, dtype=dtype), random(nodes, dtype=dtype)
    size, at = x.numel() * x.element_size(), f"{shape} {nodes}x{WIDTH}"
    yield "scale_rows", at, forward_backward(lambda: ops.scale_rows(x, weight), [x, weight]), 5 * size
    sizes = torch.full((512,), nodes // 512, device=DEVICE)
    batch = torch.arange(512, device=DEVICE).repeat_interleave(sizes)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    rows = x.detach()[: len(batch)].requires_grad_()
    yield "pool", at, forward_backward(lambda: ops.pool(rows, Segments(batch, ptr, sizes), True), [rows]), 2 * size
    if dtype == torch.float32:
        logits, y = random(512, 10), torch.randint(10, (512,), device=DEVICE)
        marked = torch.ones(512, dtype=torch.bool, device=DEVICE)
        risk = forward_backward(lambda: ops.mean_risk(logits, y, marked, "multiclass"), [logits])
        yield "mean_risk", "512x10", risk, 2 * 4 * logits.numel()
        table, codes = random(13, WIDTH), torch.randint(2, (count, 3), device=DEVICE, dtype=torch.uint8)
        offsets = torch.tensor([0, 5, 11], device=DEVICE)
        embed = forward_backward(lambda: ops.embedding_sum(table, codes, offsets), [table])
        yield "embedding_sum", f"{shape} {count}x3", embed, 2 * 4 * count * WIDTH


CASES = {"norm": norm_cases, "linear": linear_cases, "aggregate": aggregate_cases, "rows": row_cases}


def microseconds(work: Work, seconds: float) -> float:
    """Mean time of a replay."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 3:
        first.record()
        for _ in range(10):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        times.append(100 * first.elapsed_time(last))
    return sorted(times)[len(times) // 2]


@contextmanager
def constants(module: str, values: dict[str, Any]) -> Iterator[None]:
    """A context in which a module of kernels has other constants."""
    kernels = import_module(f"outland.ops.triton.{module}")
    before = {name: getattr(kernels, name) for name in values}
    for name, value in values.items():
        setattr(kernels, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(kernels, name, value)


def table(family: str, shapes: list[str], seconds: float, dtypes: dict[str, torch.dtype], only: str = "") -> None:
    """Print a line for each case of a family."""
    for shape in shapes:
        for name, dtype in dtypes.items():
            for case, at, work, size in CASES[family](shape, dtype):
                if only in case:
                    try:
                        took = microseconds(work, seconds)
                        print(f"{case:22} {at:24} {name:8} {took:9.1f} us {size / took / 1e3:8.0f} GB/s", flush=True)
                    except Exception as problem:  # too much shared memory, say
                        print(f"{case:22} {at:24} {name:8} {type(problem).__name__}: {str(problem)[:80]}", flush=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.02)
    asked = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if not asked.sweep:
        for family in asked.only or CASES:
            table(family, asked.shapes, asked.seconds, DTYPES)
        return
    for name in asked.only or SWEEPS:
        module, tries = SWEEPS[name]
        family, only = ("linear", "weight_grad") if name == "weight_grad" else (name, "")
        dtypes = {"bf16": torch.bfloat16} if family == "linear" else DTYPES
        for values in tries:
            print(f"-- {name}: {values}", flush=True)
            with constants(module, values):
                table(family, asked.shapes, asked.seconds, dtypes, only)


if __name__ == "__main__":
    main()
