"""Small sets of graphs drawn from a law."""

import torch
from torch_geometric.data import Data


def law(count, seed=0, offset=0.0, size=6, classes=(0, 1, 2)):
    """Rings with normal features, whose mean is `offset`, and classes in turn."""
    random = torch.Generator().manual_seed(seed)
    graphs = []
    for place in range(count):
        nodes = size + int(torch.randint(3, (), generator=random))
        ring = torch.arange(nodes)
        ends = torch.stack([ring, ring.roll(-1)])
        graphs.append(
            Data(
                x=torch.randn(nodes, 3, generator=random) + offset,
                edge_index=torch.cat([ends, ends.flip(0)], 1),
                y=torch.tensor([classes[place % len(classes)]]),
            )
        )
    return graphs
