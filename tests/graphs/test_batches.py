import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Batches, BatchShape
from outland.graphs.batches import ShapeLadder, round_up


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


def test_shapes_are_few_and_padding_is_little(motif):
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
    assert len(seen) <= 6
    assert padded / rows < 1.08


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
