"""AIA as we have it and as the plain reference has it, on a cut of Motif-base over several seeds; writes JSON.

    .venv/bin/python benchmarks/plain.py [--out results/aia-plain.json] [--seeds 12]

Both have dropout and draws of their own: what is compared are distributions. That they compute the same without it is a
test's business. One thread; last epoch's accuracy of three parts.
"""

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path

import reference
import torch
from torch_geometric.loader import DataLoader

from outland.spec import load_splits
from outland.training import RunSpec, run

WIDTH, BATCH, EPOCHS, PARTS = 64, 64, 20, ("id_test", "val", "test")
WORDS = ["data.limit=3000", f"backbone.width={WIDTH}", f"train.batch_size={BATCH}", f"train.epochs={EPOCHS}"]


def spec(seed: int) -> RunSpec:
    """The spec of both."""
    return RunSpec.from_words(
        "motif", "aia:released", [*WORDS, "train.checkpoint_every=1000"], domain="base", seed=seed
    )


def ours(seed: int) -> dict[str, float]:
    """Accuracy after the last epoch, our way."""
    with tempfile.TemporaryDirectory() as folder:
        last = run(spec(seed), folder, device="cpu").curves[-1]
    return {part: last[part]["accuracy"] for part in PARTS}


def plain(seed: int) -> dict[str, float]:
    """Accuracy after the last epoch, the reference's way; learning rates fall as a cosine, epoch by epoch."""
    splits = load_splits(spec(seed), torch.device("cpu"))
    torch.manual_seed(seed)
    model = reference.AIA(splits.schema, WIDTH)
    graphs = {part: splits.graphs.select(splits[part]).to_data_list() for part in ("train", *PARTS)}
    loader = DataLoader(graphs["train"], BATCH, shuffle=True)
    for epoch in range(EPOCHS):
        factor = (1 + math.cos(math.pi * epoch / EPOCHS)) / 2
        for optimizer, rate in zip(model.optimizers, (1e-3, 5e-3), strict=False):
            optimizer.param_groups[0]["lr"] = rate * factor
        for data in loader:
            model.step(data)
    model.eval()
    with torch.no_grad():
        return {part: accuracy(model, graphs[part]) for part in PARTS}


def accuracy(model: reference.AIA, graphs: list) -> float:
    """Of the predictions from the stable part."""
    correct = sum(int((model(data).argmax(1) == data.y).sum()) for data in DataLoader(graphs, 500))
    return correct / len(graphs)


def main() -> None:
    """Run both, print their accuracies and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/aia-plain.json"))
    parser.add_argument("--seeds", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict] = []
    for side in (ours, plain):
        results = [{"side": side.__name__, "seed": seed, **side(seed)} for seed in range(1, arguments.seeds + 1)]
        for part in PARTS:
            values = [100 * row[part] for row in results]
            print(side.__name__, part, f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}", flush=True)
        rows += results
    cell = f"motif base, {' '.join(WORDS)}, aia:released, last epoch"
    arguments.out.write_text(json.dumps({"cell": cell, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
