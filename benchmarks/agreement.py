"""Whether the ways of training agree: the losses of the first 50 steps, recorded, side by side, one by one, on a CPU.

    .venv/bin/python benchmarks/agreement.py [--out results/agreement.json]

Dropout is off and products are in full single precision. Differences are the largest over all loss terms up to a step.
Adam turns rounding noise in gradients that are truly 0 into whole steps, so single precision on two devices parts at
some step; in double precision, where no kernel of ours is used, it does not.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from shapes import family

from outland.graphs import Splits
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings
from outland.training.record import describe_environment
from outland.training.runs import find_device

STEPS = (1, 10, 25, 50)


def trainer(name: str, splits: Splits, device: torch.device, seed: int, replay: bool, dtype: torch.dtype) -> Trainer:
    torch.manual_seed(seed)
    backbone = BackboneSettings(width=64, layers=4, dropout=0.0)
    method = build_method(name, splits.schema, backbone, method_settings(name, {})).to(dtype).to(device)
    frame = TrainSettings(epochs=100, batch_size=32, precision="float32", layout="padded")
    run = Trainer(method, splits.to(device), frame, seed, replay=replay)
    method.reseed(seed, device)
    return run


def losses(runs: list[Trainer]) -> list[list[dict]]:
    """The losses of an epoch of each run, a step of each in turn."""
    steps = [run._ready()[0] for run in runs]
    walks = [run.recorder.each(one.epoch(0, 100)) for run, one in zip(runs, steps, strict=True)]
    while walks:
        walks = [walk for walk in walks if next(walk, StopIteration) is not StopIteration]
    return [one.log() for one in steps]


def apart(one: list[dict], other: list[dict]) -> dict[str, float]:
    """The largest difference up to some steps."""
    found = [max(abs(a[name] - b[name]) for name in a) for a, b in zip(one, other, strict=True)]
    return {str(step): max(found[:step]) for step in STEPS}


def main() -> None:
    """Compare all ways that this machine offers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/agreement.json"))
    arguments = parser.parse_args()
    here, cpu = find_device("auto"), torch.device("cpu")
    rows = []
    for shape in ("motif", "molbbbp"):
        single = family(shape, 1600)
        wide = single
        if single.graphs.x.is_floating_point():
            wide = dataclasses.replace(single, graphs=dataclasses.replace(single.graphs, x=single.graphs.x.double()))
        for name in ("erm", "aia", "vrex" if shape == "motif" else "gsat"):
            row: dict = {"family": shape, "method": name}
            alone = losses([trainer(name, single, here, 1, True, torch.float32)])[0]
            fleet = losses([trainer(name, single, here, seed, True, torch.float32) for seed in (1, 2, 3)])[0]
            eager = losses([trainer(name, single, here, 1, False, torch.float32)])[0]
            row["recorded, side by side"] = apart(alone, fleet)
            row["recorded, one by one"] = apart(alone, eager)
            row["recorded, cpu"] = apart(alone, losses([trainer(name, single, cpu, 1, False, torch.float32)])[0])
            double = [losses([trainer(name, wide, where, 1, False, torch.float64)])[0] for where in (here, cpu)]
            row["double: here, cpu"] = apart(*double)
            row["single, double here"] = apart(alone, double[0])
            rows.append(row)
            print(row, flush=True)
    arguments.out.write_text(json.dumps({"environment": describe_environment(here), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
