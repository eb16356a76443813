import dataclasses

import pytest
import torch
from torch_geometric.data import Batch

from outland.graphs import Batches, PackedGraphs
from tests.conftest import chemical_graphs, odd_graphs, whole


@pytest.mark.parametrize("make", [odd_graphs, chemical_graphs])
def test_exact_batch_equals_pyg_collation(make):
    packed = PackedGraphs.from_data_list(make())
    index = torch.tensor([5, 0, 3, 1])
    ours = next(iter(Batches(packed, index, 4)))
    theirs = Batch.from_data_list([packed.to_data_list()[i] for i in index])
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.node_batch, theirs.batch)
    assert torch.equal(ours.node_count, theirs.ptr.diff())
    assert torch.equal(ours.environment, theirs.environment)
    if ours.edge_attr is not None:
        assert torch.equal(ours.edge_attr, theirs.edge_attr)
    assert torch.equal(ours.edge_index[0][ours.reverse][:2], ours.edge_index[1][:2])
    assert ours.index.tolist() == index.tolist()


def test_padded_batch_holds_the_exact_one_and_nothing_else():
    packed = PackedGraphs.from_data_list(odd_graphs())
    exact, padded = whole(packed), whole(packed, "padded")
    n, e = exact.num_nodes, exact.num_edges
    assert padded.num_nodes > n
    assert padded.num_edges > e
    for name in ("x", "node_batch"):
        assert torch.equal(getattr(padded, name)[:n], getattr(exact, name))
    for name in ("edge_batch", "reverse"):
        assert torch.equal(getattr(padded, name)[:e], getattr(exact, name))
    assert torch.equal(padded.edge_index[:, :e], exact.edge_index)
    assert padded.node_mask.sum() == n
    assert padded.edge_mask.sum() == e
    assert (padded.edge_index[:, e:] >= n).all()
    assert (padded.reverse[e:] == torch.arange(e, padded.num_edges)).all()
    values = torch.randn(padded.num_nodes, 2)
    assert padded.graph_mask.tolist() == [True] * 6 + [False] * 2
    assert torch.allclose(padded.sum_nodes(values)[:6], exact.sum_nodes(values[:n]))
    assert torch.allclose(
        padded.mean_edges(values[:1].expand(padded.num_edges, 2))[:6], exact.mean_edges(values[:1].expand(e, 2))
    )


def test_last_padded_batch_marks_the_missing_graphs():
    packed = PackedGraphs.from_data_list(odd_graphs())
    first, last = Batches(packed, torch.arange(6), 4, layout="padded")
    assert first.graph_mask.tolist() == [True] * 4
    assert last.graph_mask.tolist() == [True, True, False, False]
    assert last.node_count.tolist() == [6, 2, 0, 0]
    assert last.mean_graphs(torch.tensor([1.0, 3.0, 100.0, float("nan")])) == 2
    assert last.broadcast_to_nodes(torch.arange(4.0))[:8].tolist() == [0] * 6 + [1] * 2


@pytest.mark.parametrize("name", ["motif", "odd", "chemical"])
def test_batches_gathered_together_equal_those_gathered_one_by_one(motif, name, monkeypatch):
    monkeypatch.setattr("outland.graphs.batches.MOST_BATCHES", 3)
    small = {"odd": odd_graphs, "chemical": chemical_graphs}
    graphs = motif.graphs if name == "motif" else PackedGraphs.from_data_list(small[name]() * 5)
    batches = Batches(graphs, torch.arange(30), 4, shuffle=True, seed=2)
    plan = batches.plan(1)
    together = list(batches.epoch(1))
    assert [batch.num_graphs for batch in together] == [4] * 7 + [2]
    for step, batch in enumerate(together):
        index = plan.index[step, : plan.graphs[step]]
        alone = batches.gatherer.exact(index, plan.nodes[step], plan.edges[step])
        for field in dataclasses.fields(alone):
            one, other = getattr(batch, field.name), getattr(alone, field.name)
            if field.name in ("incoming", "outgoing"):
                assert torch.equal(one.rowptr, other.rowptr), field.name
                assert torch.equal(one.col, other.col), field.name
                assert (one.perm is None and other.perm is None) or torch.equal(one.perm, other.perm), field.name
            else:
                same = (one is None and other is None) or torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))
                assert same, field.name
