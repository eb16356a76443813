"""Scores of a method whose network is passed several times a step: by running statistics, and by those of each pass.

    .venv/bin/python benchmarks/norm_statistics.py gsat --domain base --epochs 60 --set method.interval=6

GSAT, CIGA, DIR, GREA and AIA send whole and masked graphs through one network while they train, so the running mean and
variance of its batch norm are a mixture that fits neither. At inference that mixture is used. Here the parts of the
dataset are scored with it, and once more with the statistics of each pass's own batch, both with the weights of the
selected epoch.
"""

import argparse
import json
from pathlib import Path

import torch

from outland.devices import find_device
from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.nn.layers import BatchNorm
from outland.spec import RunSpec, load_splits
from outland.training.capture import wait_for
from outland.training.metrics import Scorer
from outland.training.record import describe_platform
from outland.training.runs import Training


def score(method: Method, splits: Splits, part: str) -> float:
    graphs, index = splits.graphs, splits[part]
    with torch.no_grad():
        logits = torch.cat([method(batch) for batch in Batches(graphs, index, 512)])
    return float(Scorer(graphs.y[index.to(graphs.device)], splits.schema.task)(logits))


def measure(spec: RunSpec, device: torch.device) -> dict[str, dict[str, float]]:
    splits = load_splits(spec, device)
    training = Training(spec, splits, device)
    wait_for(training.steps())
    method = training.trainer.method.eval()
    splits, parts = training.data.splits, [part for part in ("id_test", "val", "test") if part in splits]
    running = {part: score(method, splits, part) for part in parts}
    for module in method.modules():
        if isinstance(module, BatchNorm):
            module.train()
            module.momentum = 0.0  # the batch's statistics are used, and the running ones stay
    own = {part: score(method, splits, part) for part in parts}
    return {"running statistics": running, "each pass's own": own}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--dataset", default="motif")
    parser.add_argument("--domain", default="base")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], dest="words")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, default=Path("results/norm-statistics.json"))
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    results: dict = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    words = [*arguments.words, f"train.epochs={arguments.epochs}"]
    for name in arguments.methods:
        for seed in range(arguments.seeds):
            spec = RunSpec.from_words(arguments.dataset, name, words, domain=arguments.domain, seed=seed)
            row = measure(spec, device)
            rows = results.setdefault("selected epoch", {}).setdefault(
                f"{name}/{arguments.dataset}-{arguments.domain}", {}
            )
            rows[f"seed {seed}"] = {"device": describe_platform(device)["device"], "epochs": arguments.epochs, **row}
            rows[f"seed {seed}"] |= {"set": arguments.words} if arguments.words else {}
            print(name, seed, row, flush=True)
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
