"""Differences between ways of training: losses of the first 50 steps, captured, side by side, eager, on a CPU.

    .venv/bin/python benchmarks/agreement.py [--out results/agreement.json]

Dropout is off and products are in full single precision. Differences are the largest over all loss terms up to a step.
In single precision a batch of half a million ReLUs has some so near to 0 that rounding decides their slope, so
two devices part at some step, as single and double precision do on one; in double precision, where no kernel of ours is
used, they do not. The learning rate is one that a GPU, which keeps it in single precision, does not round.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from synthetic import synthetic_splits

from outland.devices import find_device
from outland.graphs import Splits
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings
from outland.training.record import describe_platform

STEPS = (1, 10, 25, 50)
PRECISIONS = ("float32", "float64")
RATES = {"lr": 2.0**-10}  # near to the default of 1e-3, as the augmenter's is to 5e-3


def trainer(
    name: str, splits: Splits, where: torch.device, seed: int = 1, replay: bool = True, precision: str = "float32"
) -> Trainer:
    """A run; `float64` is a precision too, here alone."""
    torch.manual_seed(seed)
    backbone = BackboneSettings(width=64, layers=4, dropout=0.0)
    rates = RATES | ({"lr_augmenter": 5 * RATES["lr"]} if name == "aia" else {})
    method = build_method(name, splits.schema, backbone, method_settings(name, rates)).to(where)
    if precision == "float64":
        method, precision = method.double(), "float32"
        if splits.graphs.x.is_floating_point():
            graphs = dataclasses.replace(splits.graphs, x=splits.graphs.x.double())
            splits = dataclasses.replace(splits, graphs=graphs)
    frame = TrainSettings(epochs=100, batch_size=32, precision=precision, layout="padded")
    run = Trainer(method, splits.to(where), frame, seed, replay=replay)
    method.reseed(seed, where)
    return run


def losses(runs: list[Trainer]) -> list[list[dict[str, float]]]:
    """The losses of an epoch of each run; the runs take their steps in turn."""
    steps = [run.new_steps() for run in runs]
    iterators = [run.capture.on_stream(each.epoch(0, 100)) for run, each in zip(runs, steps, strict=True)]
    while iterators:
        iterators = [iterator for iterator in iterators if next(iterator, StopIteration) is not StopIteration]
    logs = (each.log() for each in steps)
    return [
        [dict(zip(names, row, strict=False)) for names, row in zip(log.names, log.values.tolist(), strict=True)]
        for log in logs
    ]


def largest_differences(first: list[dict], second: list[dict]) -> dict[str, float]:
    """The largest difference of any loss term up to each of `STEPS`."""
    differences = [max(abs(a[name] - b[name]) for name in a) for a, b in zip(first, second, strict=True)]
    return {str(step): max(differences[:step]) for step in STEPS}


def compare(name: str, splits: Splits, here: torch.device) -> dict[str, dict[str, float]]:
    """Differences between all ways of training one method."""
    cpu, rows = torch.device("cpu"), {}
    for precision in ("float32", "tf32"):
        alone = losses([trainer(name, splits, here, precision=precision)])[0]
        fleet = losses([trainer(name, splits, here, seed, precision=precision) for seed in (1, 2, 3)])[0]
        eager = losses([trainer(name, splits, here, replay=False, precision=precision)])[0]
        rows[f"{precision}: captured, side by side"] = largest_differences(alone, fleet)
        rows[f"{precision}: captured, one by one"] = largest_differences(alone, eager)
    on_cpu = {}
    for precision in PRECISIONS:
        captured = losses([trainer(name, splits, here, precision=precision)])[0]
        on_cpu[precision] = losses([trainer(name, splits, cpu, replay=False, precision=precision)])[0]
        rows[f"{precision}: captured, cpu"] = largest_differences(captured, on_cpu[precision])
    rows["cpu: float32, float64"] = largest_differences(*on_cpu.values())
    return rows


def main() -> None:
    """Compare all ways that this machine offers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/agreement.json"))
    arguments = parser.parse_args()
    here, rows = find_device("auto"), []
    for family in ("motif", "molbbbp"):
        splits = synthetic_splits(family, 1600)
        for name in ("erm", "aia", "vrex" if family == "motif" else "gsat"):
            rows.append({"family": family, "method": name} | compare(name, splits, here))
            print(rows[-1], flush=True)
    arguments.out.write_text(json.dumps({"platform": describe_platform(here), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
