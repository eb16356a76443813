import dataclasses

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import PackedGraphs
from outland.graphs.batches import Gatherer
from outland.ops import collate_padded
from tests.ops.cases import DEVICE, needs_triton


def disordered(data):
    """Edges in any order, and the last one in one direction only."""
    order = torch.randperm(data.edge_index.shape[1], generator=torch.Generator().manual_seed(data.num_nodes))
    data.edge_index = data.edge_index[:, order[:-1]]
    return Data(x=data.x, edge_index=data.edge_index, y=data.y, environment=data.environment)


@needs_triton
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("rows", [(96, 400), (400, 1200)])
@pytest.mark.parametrize("chosen", [[0], [3, 1, 2], [5, -1, -1, 0, 700, 13], [-1], []])
def test_the_kernel_equals_the_plain_form(motif, chosen, rows, shuffled):
    graphs = motif.graphs.select(torch.arange(800))
    if shuffled:
        graphs = PackedGraphs.from_data_list([disordered(data) for data in graphs.to_data_list()])
    graphs = dataclasses.replace(graphs, edge_attr=torch.arange(2 * graphs.edge_index.shape[1]).reshape(-1, 2))
    index = torch.tensor(chosen + [-1] * (6 - len(chosen)))
    plain = collate_padded.plain(index, Gatherer(graphs).source, *rows)
    ours = collate_padded.kernel(index.to(DEVICE), Gatherer(graphs.to(DEVICE)).source, *rows)
    names = {name for name, value in plain.items() if isinstance(value, torch.Tensor) and name != "node_ptr"}
    assert {"x", "edge_attr", "y", "environment", "graph_mask", "reverse"} <= names
    for name in names:
        actual = ours[name].cpu()
        assert actual.dtype == plain[name].dtype, name
        assert torch.equal(actual, plain[name]), name
    real = int(plain["edge_mask"].sum())
    for side in ("incoming", "outgoing"):
        csr, expected = ours[side], plain[side]
        assert torch.equal(csr.rowptr.cpu(), expected.rowptr.clamp(max=real))
        assert torch.equal(csr.col.cpu()[:real], expected.col[:real])
        if expected.perm is None:
            assert csr.perm is None
        else:
            assert torch.equal(csr.perm.cpu()[:real], expected.perm[:real])
    assert torch.equal(ours["node_ptr"].cpu(), plain["node_ptr"][:-1])
    ends = torch.cat([torch.zeros(1, dtype=torch.long), plain["edge_count"].cumsum(0)])
    assert torch.equal(ours["edge_ptr"].cpu(), ends)
