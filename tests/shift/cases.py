"""Small sets of random graphs, and settings under which they are measured in seconds."""

from dataclasses import replace

import torch
from torch_geometric.data import Data

from outland.nn import BackboneSettings
from outland.shift import ShiftSettings

NET = BackboneSettings(width=16, layers=2, dropout=0.0, pool="sum", head="mlp")
# A few seconds a measurement; with so few graphs densities are wide, and far sets are told by larger thresholds.
QUICK = ShiftSettings(trials=2, most=80, folds=3, steps=40, samples=1000, features=4, backbone=NET)
TINY = replace(QUICK, trials=1, folds=3, steps=20)


def random_graphs(count, seed=0, offset=0.0, size=6, classes=(0, 1, 2)):
    """Rings with normal features, whose mean is `offset`, and classes in turn."""
    random = torch.Generator().manual_seed(seed)
    graphs = []
    for number in range(count):
        nodes = size + int(torch.randint(3, (), generator=random))
        ring = torch.arange(nodes)
        ends = torch.stack([ring, ring.roll(-1)])
        graphs.append(
            Data(
                x=torch.randn(nodes, 3, generator=random) + offset,
                edge_index=torch.cat([ends, ends.flip(0)], 1),
                y=torch.tensor([classes[number % len(classes)]]),
            )
        )
    return graphs


def gcs_at(result, epsilon):
    """GCS at one of the thresholds that every result has."""
    return next(row["covariate"] for row in result.by_epsilon if row["epsilon"] == epsilon)
