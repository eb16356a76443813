"""Molbbbp-size with one cut of the held-out molecules for all seeds, and with a cut of its own for each.

    .venv/bin/python benchmarks/halves.py erm aia:released --data DATA --device cpu

The smallest fifth of the molecules are halved at random into validation and test. Our table has one cut for all seeds;
AIA's public code draws one in every trial. Training sees neither half, so each seed is trained once, all held-out
molecules are predicted after every epoch, and a thousand tables of as many seeds are scored, with another cut for all
seeds and with a cut of its own for each. The epoch is the one that is best on validation, as in the table. Methods
after the first are compared with it on the same cuts.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.spec import RunSpec, load_splits
from outland.training.callbacks import Callback
from outland.training.capture import wait_for
from outland.training.record import describe_platform
from outland.training.runs import Training

TABLES = 1000


class KeepLogits(Callback):
    """Keeps the predictions of every epoch, `[epochs, held-out molecules]`."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []

    def on_evaluation_end(self, epoch: int, logits: Tensor) -> None:
        """Copy them, for the next epoch overwrites them."""
        self.logits.append(logits.flatten().clone())


def rocauc(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ROC-AUC of each row of `logits`; of ties half counts."""
    positive, negative = logits[:, y == 1, None], logits[:, None, y == 0]
    return ((positive > negative).mean((1, 2)) + (positive == negative).mean((1, 2)) / 2).astype(float)


def selected_score(logits: np.ndarray, y: np.ndarray, val: np.ndarray) -> float:
    """Score on the rest, of the last epoch that is best on the molecules `val`."""
    rest = np.setdiff1d(np.arange(len(y)), val)
    best = rocauc(logits[:, val], y[val])
    epoch = len(best) - 1 - int(best[::-1].argmax())
    return 100 * float(rocauc(logits[epoch : epoch + 1, rest], y[rest])[0])


def tables(runs: list[np.ndarray], y: np.ndarray, draws: int, shared: bool) -> np.ndarray:
    """Scores of `draws` tables `[draws, seeds]`, with one cut for all seeds or a cut of its own for each."""
    generator, half = np.random.default_rng(0), len(y) // 2
    rows = []
    for _ in range(draws):
        cuts = [generator.permutation(len(y))[:half] for _ in runs]
        rows.append(
            [selected_score(logits, y, cuts[0] if shared else cut) for logits, cut in zip(runs, cuts, strict=True)]
        )
    return np.array(rows)


def train(spec: RunSpec, data: DataFolder, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of every epoch, and the labels: those of validation first."""
    splits = load_splits(spec, device, data=data)
    kept = KeepLogits()
    wait_for(Training(spec, splits, device, callback=kept).steps())
    index = torch.cat([splits["val"], splits["test"]])
    return torch.stack(kept.logits).cpu().numpy(), splits.graphs.y[index].flatten().cpu().numpy()


def summary(runs: list[np.ndarray], y: np.ndarray, draws: int = TABLES) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Means over seeds and their spreads, with our cut and with others; and the means of all tables."""
    ours = np.array([selected_score(logits, y, np.arange(len(y) // 2)) for logits in runs])
    many = {"another cut": tables(runs, y, draws, shared=True), "a cut a seed": tables(runs, y, draws, shared=False)}
    means = {"our cut": ours.mean(keepdims=True)} | {name: scores.mean(1) for name, scores in many.items()}
    told = {
        name: {**spread_of(means[name]), "spread over seeds": scores.std(1).mean()} for name, scores in many.items()
    }
    below = float((means["another cut"] < ours.mean()).mean())
    first = {
        "mean": ours.mean(),
        "spread over seeds": ours.std(),
        "scores": ours.tolist(),
        "share of cuts below": below,
    }
    return {"seeds": len(runs), "our cut": first, **told}, means


def spread_of(values: np.ndarray) -> dict[str, Any]:
    """Mean of some tables' means, and where 95 % of them lie."""
    return {"mean": values.mean(), "2.5% to 97.5%": np.quantile(values, [0.025, 0.975]).tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--set", nargs="*", default=[], dest="words")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, default=Path("results/halves.json"))
    arguments = parser.parse_args()
    device, data = find_device(arguments.device), DataFolder(arguments.data)
    results: dict[str, Any] = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    reference: dict[str, np.ndarray] = {}
    for name in arguments.methods:
        runs, y, started = [], np.zeros(0), time.perf_counter()
        for seed in range(arguments.seeds):
            spec = RunSpec.from_words("molbbbp", name, arguments.words, domain="size", seed=seed)
            logits, y = train(spec, data, device)
            runs.append(logits)
        seconds = round(time.perf_counter() - started)
        told, means = summary(runs, y)
        if name != arguments.methods[0]:
            told[f"ahead of {arguments.methods[0]}"] = {cut: spread_of(means[cut] - reference[cut]) for cut in means}
        reference = reference or means
        row = {"set": arguments.words, "platform": describe_platform(device), "seconds": seconds, **told}
        results[" ".join([name, *arguments.words])] = row
        print(name, row, flush=True)
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
