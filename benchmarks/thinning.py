"""What thinned graphs in training are worth to explanations: Evidence with and without them, on unpublished draws.

    .venv/bin/python benchmarks/thinning.py [--json results/thinning.json]

Small networks (width 64, few epochs), so that a CPU takes some minutes; what the JSON holds already is not run again.
Edges of a draw's test graphs are removed in the order of the mask, or put back in it: see `outland.models.edge_curves`.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from develop import DATA_SEED
from draws import dataset_of, make_draw

from outland.graphs import Batches, PackedGraphs
from outland.methods import Method
from outland.models.edge_curves import edge_curves, random_curves
from outland.spec import RunSpec
from outland.training.runs import Training

GRAPHS = 150
DRAWS = {"bbbp-scaffold-0": 30, "large": 15}  # epochs
KINDS = {"thinned": [], "whole": ["method.whole=1.0"]}
DEVICE = torch.device("cpu")


def measure(draw: str, words: list[str], epochs: int, seed: int) -> dict[str, Any]:
    """Areas under both curves, by the mask and by random orders, and the last epoch's test score."""
    dataset, domain = dataset_of(draw)
    splits = make_draw(draw, DATA_SEED, DEVICE)
    words = [*words, "backbone.width=64", f"train.epochs={epochs}"]
    training = Training(RunSpec.from_words(dataset, "evidence", words, domain=domain, seed=seed), splits, DEVICE)
    for _ in training.steps():
        pass
    method = training.trainer.method.eval()
    graphs = splits.graphs.select(splits.parts["test"][:GRAPHS])
    with torch.no_grad():
        scores = torch.cat([method.masks(batch)["stable"].edge for batch in _batches(graphs, 64)])

    def predict(graphs: PackedGraphs) -> torch.Tensor:
        return class_logits(method, graphs)

    random = random_curves(predict, graphs, np.random.default_rng(0))
    curves = edge_curves(predict, graphs, scores, np.random.default_rng(0))
    areas = {"mask": curves.intervals(random), "random": random.intervals(random)}
    return {
        "test": training.trainer.curves[-1]["test"][splits.schema.task.metric],
        **{f"{name} {kind}": areas[name][kind][0] for name in areas for kind in ("deletion", "insertion")},
    }


def class_logits(method: Method, graphs: PackedGraphs) -> torch.Tensor:
    """A logit for each class, of two classes also."""
    with torch.no_grad():
        logits = torch.cat([method(batch) for batch in _batches(graphs, 256)])
    return logits if logits.shape[1] > 1 else torch.cat([torch.zeros_like(logits), logits], 1)


def _batches(graphs: PackedGraphs, size: int) -> Batches:
    return Batches(graphs, torch.arange(len(graphs)), size)


def table(rows: list[dict[str, Any]]) -> str:
    """Means over seeds, as Markdown."""
    lines = [
        "| draw | training | deletion ↑ | random order | insertion ↓ | random order |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for draw in DRAWS:
        for kind in KINDS:
            found = [row for row in rows if (row["draw"], row["training"]) == (draw, kind)]
            names = ("mask deletion", "random deletion", "mask insertion", "random insertion")
            values = [f"{np.mean([row[name] for row in found]):.2f}" for name in names]
            lines.append(f"| `{draw}` | {kind} | {' | '.join(values)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("results/thinning.json"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--summary", action="store_true", help="print the table of what is there, and end")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.json.read_text()) if given.json.exists() else []
    done = {(row["draw"], row["training"], row["seed"]) for row in rows}
    wanted = itertools.product(range(0 if given.summary else given.seeds), DRAWS, KINDS)
    for seed, draw, kind in wanted:
        if (draw, kind, seed) not in done:
            names = {"draw": draw, "training": kind, "seed": seed}
            rows.append({**names, **measure(draw, KINDS[kind], DRAWS[draw], seed)})
            print(rows[-1], flush=True)
            given.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
