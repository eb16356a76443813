import dataclasses

import pytest
import torch
from torch_geometric.data import Batch

from outland.errors import OutlandError
from outland.graphs import Batches, BatchShape, PackedGraphs
from outland.graphs.batches import ShapeLadder, round_up
from tests.conftest import chemical_graphs, odd_graphs, whole


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
    bare = dataclasses.replace(motif.graphs, environment=None)
    with pytest.raises(OutlandError, match="need an environment"):
        Batches(bare, motif["val"], 8, balance=True)
    with pytest.raises(OutlandError, match="at least one graph"):
        Batches(bare, motif["val"], 0)


def test_small_batches_have_one_shape(motif):
    batches = Batches(motif.graphs, motif["train"], 32, shuffle=True, seed=1, layout="padded")
    rows = padded = 0
    seen = set()
    for epoch in range(30):
        plan = batches.plan(epoch)
        for nodes, edges in zip(plan.nodes, plan.edges, strict=True):
            shape = batches.shapes.holding(nodes, edges)
            seen.add(shape)
            assert shape.nodes > nodes
            assert shape.edges >= edges
            rows, padded = rows + nodes + edges, padded + shape.nodes + shape.edges
    assert len(seen) <= 2
    assert padded / rows < 1.52


def test_large_batches_have_a_few_shapes_and_little_padding():
    generator = torch.Generator().manual_seed(0)
    sizes = (9000 + 150 * torch.randn(500, generator=generator)).int().tolist()
    shapes = ShapeLadder.covering(512, [(nodes, 3 * nodes) for nodes in sizes[:100]])
    assert len(shapes.ladder) == 3
    padded = [shapes.holding(nodes, 3 * nodes).nodes for nodes in sizes]
    assert sum(padded) / sum(sizes) < 1.05
    assert len(set(padded)) <= 4
    alike = ShapeLadder.covering(512, [(nodes, 3 * nodes) for nodes in (9000, 9100, 9050)])
    assert alike.ladder == [BatchShape(512, 9296, 27856)]


def test_a_batch_larger_than_all_shapes_gets_its_own():
    shapes = ShapeLadder.covering(4, [(10, 20), (12, 24)])
    assert shapes.ladder == [BatchShape(4, 16, 32)]
    assert shapes.holding(15, 32) == BatchShape(4, 16, 32)
    larger = shapes.holding(16, 32)
    assert larger == BatchShape(4, 32, 48)
    assert shapes.holding(20, 40) == larger
    huge = shapes.holding(1000, 10)
    assert huge.nodes > 1000
    assert shapes.holding(20, 40) == larger  # whatever was asked before
    assert shapes.ladder == [BatchShape(4, 16, 32)]
    assert ShapeLadder.covering(4, [(3, 0)]).holding(5, 40).edges >= 40
    assert [round_up(rows) for rows in (0, 1, 16, 17, 1000)] == [0, 16, 16, 32, 1008]


def test_a_plan_says_what_the_batches_hold(motif):
    for layout in ("exact", "padded"):
        batches = Batches(motif.graphs, motif["val"][:100], 32, shuffle=True, seed=3, layout=layout)
        plan = batches.plan(2)
        assert plan.index.shape == (4, 32)
        assert (plan.index[-1] < 0).sum() == 28
        for step, batch in enumerate(batches.epoch(2)):
            assert batch.node_count.sum() == plan.nodes[step]
            assert batch.edge_count.sum() == plan.edges[step]
            real = batch.real_graphs
            assert batch.index[real].equal(plan.index[step][: plan.graphs[step]])


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
            elif isinstance(one, torch.Tensor):
                assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1)), field.name
            else:
                assert one == other, field.name


def test_weights_say_how_often_graphs_are_drawn():
    graphs = PackedGraphs.from_data_list(odd_graphs())
    index = torch.arange(len(graphs))
    weight = torch.tensor([0.0, 1.0, 2.5, *([1.0] * (len(graphs) - 3))], dtype=torch.double)
    batches = Batches(graphs, index, 2, shuffle=True, weight=weight, seed=3)
    expected = len(graphs) * weight / weight.sum()
    draws = torch.zeros(len(graphs))
    for epoch in range(400):
        order = batches.plan(epoch).index.flatten()
        counts = torch.bincount(order[order >= 0], minlength=len(graphs))
        assert counts.sum() == len(graphs)
        assert ((counts - expected).abs() < 1).all()  # rounded up or down
        draws += counts
    assert torch.allclose(draws / 400, expected.float(), atol=0.12)
    with pytest.raises(OutlandError, match="balanced batches draw environments alike and take no weights"):
        Batches(dataclasses.replace(graphs, environment=index % 2), index, 2, balance=True, weight=weight)
