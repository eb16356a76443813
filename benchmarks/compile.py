"""Elementwise operations three ways, forward and backward: plain eager, `torch.compile` of the plain form, our kernel.

    .venv/bin/python benchmarks/compile.py [--device auto] [--out benchmarks/compile.json] [--rounds 20]

Prints and writes milliseconds for a batch like Motif's and one thirty times as large. On a GPU each call is captured in
a CUDA graph and replayed, as training does; elsewhere there is no column for kernels.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from outland import ops
from outland.devices import find_device
from outland.nn import BatchNorm
from outland.ops import DropoutDraws, EdgeCSR, Edges, Segments, use_kernels
from outland.ops.dispatch import Op
from outland.training.record import describe_platform

WIDTH, CALLS = 300, 20
SIZES = {"motif": (32, 608, 1728), "large": (960, 18240, 51840)}  # graphs, nodes, edges
Case = tuple[Op[..., Any], list[Tensor], Callable[..., tuple[Any, ...]]]


def norm_relu_dropout(*arguments: Any) -> Tensor:
    """The same with PyTorch's own dropout: the compiler takes no draws from a generator."""
    *rest, dropout = arguments
    return functional.dropout(ops.batch_norm.plain(*rest), dropout.p)


def segments(graphs: int, rows: int, device: torch.device) -> Segments:
    """So many graphs with equally many rows each."""
    sizes = torch.full((graphs,), rows // graphs, device=device)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Segments(torch.arange(graphs, device=device).repeat_interleave(rows // graphs), ptr, sizes)


def cases(size: str, device: torch.device) -> dict[str, Case]:
    """Of each operation: itself, the tensors that have a gradient, and how they become its arguments."""
    graphs, nodes, edge_count = SIZES[size]
    torch.manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device, requires_grad=True)

    source, target = torch.randint(nodes, (2, edge_count), device=device)
    grouped = (EdgeCSR.from_edges(*ends, nodes) for ends in ((target, source), (source, target)))
    edges = Edges(torch.stack([source, target]), *grouped)
    ratios = (segments(graphs, nodes, device), segments(graphs, edge_count, device), (0.5, 0.5), "hard")
    norm, y = BatchNorm(WIDTH).to(device), torch.randint(3, (graphs,), device=device)
    node_mask, graph_mask = (torch.rand(count, device=device) < 0.9 for count in (nodes, graphs))
    heads = [random(*shape) for shape in ((nodes, WIDTH), (1, WIDTH), (1,), (1, 2 * WIDTH), (1,))]
    x, weight, affine, drop = random(nodes, WIDTH), random(nodes), (norm.weight, norm.bias), DropoutDraws(0.5)
    return {
        "norm_relu_dropout": (ops.batch_norm, [x, *affine], lambda x, *_: (x, node_mask, norm.state(), True, drop)),
        "scale_rows": (ops.scale_rows, [x, weight], lambda *inputs: inputs),
        "masked_mean": (ops.masked_mean, [random(graphs)], lambda values: (values, graph_mask)),
        "mask_weights": (ops.mask_weights, heads, lambda *inputs: (*inputs, edges)),
        "mean_risk": (ops.mean_risk, [random(graphs, 3)], lambda logits: (logits, y, graph_mask, "multiclass")),
        "ratio_penalties": (ops.ratio_penalties, [weight, random(edge_count)], lambda *masks: (*masks, *ratios)),
    }


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """Replays what `work` launches."""
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def measure(case: Case, form: Callable[..., Any], device: torch.device, rounds: int) -> float:
    """Median milliseconds of a form, forward and backward; the operations that a plain form uses are plain as well."""

    def work() -> None:
        out = form(*case[2](*case[1]))
        outs = out if isinstance(out, tuple) else (out,)
        torch.autograd.grad(outs, case[1], [torch.ones_like(part) for part in outs])

    times = []
    with use_kernels(False):
        call = captured(work) if device.type == "cuda" else work
        call()
        for _ in range(rounds):
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - started) / CALLS * 1e3)
    return round(statistics.median(times), 4)


COMPILED = {"norm_relu_dropout": norm_relu_dropout}


def main() -> None:
    """Measure all operations in both sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/compile.json"))
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    device, table = find_device(arguments.device), []
    for size in SIZES:
        for name, case in cases(size, device).items():
            forms = {
                "eager": case[0].plain,
                "compiled": torch.compile(COMPILED.get(name, case[0].plain), dynamic=False),
            }
            forms |= {"kernel": case[0].kernel} if device.type == "cuda" else {}
            torch.compiler.reset()
            row: dict[str, Any] = {"op": name, "size": size}
            for side, form in forms.items():
                try:
                    row[side] = measure(case, form, device, arguments.rounds)
                except RuntimeError as problem:  # what the compiler cannot do
                    row[side] = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
            table.append(row)
            print(table[-1], flush=True)
    arguments.out.write_text(json.dumps({"platform": describe_platform(device), "ms": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
