"""The GPU's way of cutting padded batches beside the plain one; off a GPU it runs in Triton's interpreter."""

import dataclasses

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import PackedGraphs, Shape
from outland.graphs.gather import Gatherer
from tests.kernels.cases import DEVICE, triton_is_here

pytestmark = triton_is_here


def disordered(data):
    """Edges in any order, and the last one in one direction only."""
    order = torch.randperm(data.edge_index.shape[1], generator=torch.Generator().manual_seed(data.num_nodes))
    data.edge_index = data.edge_index[:, order[:-1]]
    return Data(x=data.x, edge_index=data.edge_index, y=data.y, environment=data.environment)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("rows", [(96, 400), (400, 1200)])
@pytest.mark.parametrize("place", [[0], [3, 1, 2], [5, -1, -1, 0, 700, 13], [-1], []])
def test_a_cut_batch_equals_a_gathered_one(motif, place, rows, shuffled):
    graphs = motif.graphs.select(torch.arange(800))
    if shuffled:
        graphs = PackedGraphs.from_data_list([disordered(data) for data in graphs.to_data_list()])
    graphs = dataclasses.replace(graphs, edge_attr=torch.arange(2 * graphs.edge_index.shape[1]).reshape(-1, 2))
    gatherer, shape = Gatherer(graphs), Shape(6, *rows)
    index = torch.tensor(place + [-1] * (6 - len(place)))
    plain = gatherer.padded(index, shape)
    on_device = Gatherer(graphs.to(DEVICE))
    ours = on_device.cut(index.to(DEVICE), shape)
    names = [field.name for field in dataclasses.fields(plain) if isinstance(getattr(plain, field.name), torch.Tensor)]
    assert {"x", "edge_attr", "y", "environment", "graph_mask", "reverse"} <= set(names)
    for name in names:
        found = getattr(ours, name).cpu()
        assert found.dtype == getattr(plain, name).dtype, name
        assert torch.equal(found, getattr(plain, name)), name
    real = int(plain.edge_mask.sum())
    for side in ("incoming", "outgoing"):
        wires, expected = getattr(ours, side), getattr(plain, side)
        assert torch.equal(wires.pointers.cpu(), expected.pointers.clamp(max=real))
        assert torch.equal(wires.nodes.cpu()[:real], expected.nodes[:real])
        if expected.edges is None:
            assert wires.edges is None
        else:
            assert torch.equal(wires.edges.cpu()[:real], expected.edges[:real])
    assert torch.equal(ours.members.pointers.cpu(), plain.members.pointers[:-1])
    ends = torch.cat([torch.zeros(1, dtype=torch.long), plain.edge_count.cumsum(0)])
    assert torch.equal(ours.edge_members.pointers.cpu(), ends)
