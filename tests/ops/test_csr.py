import pytest
import torch

from outland.graphs import PackedGraphs
from outland.ops import scatter_rows
from tests.conftest import odd_graphs, whole
from tests.graphs.cases import in_order_graphs, symmetric_graphs


@pytest.mark.parametrize("make", [odd_graphs, symmetric_graphs, in_order_graphs])
def test_each_edge_is_grouped_at_both_ends(make):
    batch = whole(PackedGraphs.from_data_list(make()))
    for csr, row, col in ((batch.incoming, 1, 0), (batch.outgoing, 0, 1)):
        perm = torch.arange(batch.num_edges) if csr.perm is None else csr.perm
        for node in range(batch.num_nodes):
            group = slice(int(csr.rowptr[node]), int(csr.rowptr[node + 1]))
            members = (batch.edge_index[row] == node).nonzero().flatten().tolist()
            assert sorted(perm[group].tolist()) == members
            assert torch.equal(batch.edge_index[col][perm[group]], csr.col[group])
        values = torch.randn(batch.num_edges, 4)
        assert torch.equal(csr.unpermute(csr.permute(values)), values)
        plain = torch.zeros(batch.num_nodes, 4).index_add(0, batch.edge_index[row], values)
        assert torch.allclose(scatter_rows(values, batch.edge_index[row], batch.num_nodes, csr), plain, atol=1e-6)
