"""Graphs that tests of batches share."""

import torch
from torch_geometric.data import Data

from tests.conftest import undirected


def symmetric_graphs() -> list[Data]:
    """Two graphs whose edges all have their other direction, in no order."""
    generator = torch.Generator().manual_seed(0)
    sizes = [(5, undirected((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))), (4, undirected((2, 1), (0, 3), (1, 3)))]
    return [Data(x=torch.randn(n, 3, generator=generator), edge_index=edges, y=torch.tensor([0])) for n, edges in sizes]


def in_order_graphs() -> list[Data]:
    """The same, their edges in the order of their sources."""
    graphs = symmetric_graphs()
    for graph in graphs:
        graph.edge_index = graph.edge_index[:, graph.edge_index[0].argsort(stable=True)]
    return graphs
