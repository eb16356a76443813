import pytest
import torch
from torch_geometric.data import Batch

from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs
from outland.graphs.batches import round_up
from tests.conftest import chemical_graphs, odd_graphs, whole


@pytest.mark.parametrize("make", [odd_graphs, chemical_graphs])
def test_exact_batch_equals_pyg_collation(make):
    packed = PackedGraphs.from_data_list(make())
    index = torch.tensor([5, 0, 3, 1])
    ours = next(iter(Batches(packed, index, 4)))
    theirs = Batch.from_data_list([packed.to_data_list()[i] for i in index])
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.node_graph, theirs.batch)
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
    for name in ("x", "node_graph"):
        assert torch.equal(getattr(padded, name)[:n], getattr(exact, name))
    for name in ("edge_graph", "reverse"):
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
    assert last.spread(torch.arange(4.0))[:8].tolist() == [0] * 6 + [1] * 2


def test_an_epoch_is_a_permutation_decided_by_seed_and_epoch(motif):
    def order(seed, epoch):
        batches = Batches(motif.graphs, motif["val"], 64, shuffle=True, seed=seed)
        return torch.cat([batch.index for batch in batches.epoch(epoch)])

    assert order(1, 3).sort().values.equal(motif["val"])
    assert order(1, 3).equal(order(1, 3))
    assert not order(1, 3).equal(order(1, 4))
    assert not order(1, 3).equal(order(2, 3))
    plain = torch.cat([batch.index for batch in Batches(motif.graphs, motif["val"], 64)])
    assert plain.equal(motif["val"])


def test_balanced_batches_hold_every_environment_equally(motif):
    environment = motif.graphs.environment
    few = torch.cat([motif["train"][environment[motif["train"]] == e][:k] for e, k in ((0, 300), (1, 50), (2, 7))])
    batches = Batches(motif.graphs, few, 32, balance=True, seed=5)
    assert len(batches) == 12
    seen = set()
    for batch in batches.epoch(0):
        counts = torch.bincount(batch.environment, minlength=3)
        assert counts.max() - counts.min() <= 1
        seen |= set(batch.index.tolist())
    assert len(seen & set(few[-7:].tolist())) == 7


def test_balance_needs_environments(motif):
    import dataclasses

    bare = dataclasses.replace(motif.graphs, environment=None)
    with pytest.raises(OutlandError, match="need an environment"):
        Batches(bare, motif["val"], 8, balance=True)
    with pytest.raises(OutlandError, match="at least one graph"):
        Batches(bare, motif["val"], 0)


def test_shapes_are_few_and_padding_is_little():
    sizes = range(100, 10000)
    assert max(round_up(n) / n for n in sizes) < 1.13
    assert len({round_up(n) for n in sizes}) < 70
    assert all(round_up(n) >= n for n in range(1, 3000))
