"""What a training step costs a graph, a node and an edge on this machine: writes `src/outland/studies/unit-costs.json`.

    .venv/bin/python benchmarks/units.py

`outland study list` scales these numbers to the machine it runs on. About half a minute, one thread.
"""

import json
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import nnls

from outland.nn import BackboneSettings
from outland.recipes import DatasetSize
from outland.studies.durations import time_steps

SHAPES = [(17, 48, 32), (38, 103, 32), (87, 240, 32), (24, 52, 32), (20, 193, 32), (75, 1393, 32), (74, 4914, 8)]
OUT = Path(__file__).parents[1] / "src" / "outland" / "studies" / "unit-costs.json"


def main() -> None:
    torch.set_num_threads(1)
    rows, steps, forwards = [], [], []
    for nodes, edges, graphs in SHAPES:
        step, forward = time_steps(DatasetSize(train=0, scored=0, nodes=nodes, edges=edges), BackboneSettings(), graphs)
        rows.append((1, nodes, edges))
        steps.append(step)
        forwards.append(forward)
        print(f"{nodes} nodes, {edges} edges: {1000 * step:.3f} ms a graph, forward {1000 * forward:.3f}")
    relative = np.array(rows) / np.array(steps)[:, None]  # every shape's relative error counts alike
    rates, _ = nnls(relative, np.ones(len(rows)))
    motif = DatasetSize(train=0, scored=0, nodes=17, edges=48)
    widths = {width: time_steps(motif, BackboneSettings(width=width))[0] for width in (64, 128, 300)}
    power = np.polyfit(np.log(list(widths)), np.log(list(widths.values())), 1)[0]
    kinds = {kind: time_steps(motif, BackboneSettings(kind=kind))[0] for kind in ("gin", "gcn", "gcnii", "gat")}
    plain = {
        "about": "seconds on one thread of a two-core x86 machine; measured by benchmarks/units.py",
        "reference_seconds": round(kinds["gin"], 6),
        "rates": {
            "graph": float(f"{rates[0]:.3g}"),
            "node": float(f"{rates[1]:.3g}"),
            "edge": float(f"{rates[2]:.3g}"),
            "forward": round(float(np.median(np.array(forwards) / np.array(steps))), 3),
            "width_power": round(float(power), 3),
        },
        "backbones": {kind: round(seconds / kinds["gin"], 3) for kind, seconds in kinds.items()},
    }
    OUT.write_text(json.dumps(plain, indent=1) + "\n")
    print(OUT.read_text())
    for row, step in zip(rows, steps, strict=True):
        print(row[1:], f"estimate / measured {float(np.dot(row, rates)) / step:.2f}")


if __name__ == "__main__":
    main()
