import math

import pytest
import torch

from outland.methods.parts.ranking import both_directions, rank_within_group, top_edges
from tests.conftest import whole
from tests.methods.cases import drawn_scores, some


def test_ranks_equal_a_loop_over_groups():
    random = torch.Generator().manual_seed(0)
    group = torch.randint(0, 4, (60,), generator=random)
    keys = torch.randint(0, 10, (60,), generator=random).double()  # many ties, which keep the order of rows
    actual = rank_within_group(keys, group, 5)
    for number in range(5):
        rows = [row for row in range(60) if group[row] == number]
        for rank, row in enumerate(sorted(rows, key=lambda row: keys[row].item())):
            assert actual[row] == rank


def test_both_directions_of_an_edge_have_the_value_of_the_first(any_set):
    batch = whole(any_set[1])
    values = torch.arange(batch.num_edges)
    actual = both_directions(values, batch)
    assert torch.equal(actual, actual[batch.reverse])
    assert torch.equal(actual, torch.minimum(values, values[batch.reverse]))


class TestTopEdges:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    @pytest.mark.parametrize("rounding", ["ceil", "floor"])
    @pytest.mark.parametrize("ratio", [0.0, 0.25, 0.5, 0.7, 1.0])
    def test_equals_a_loop_over_graphs(self, ratio, rounding, layout):
        _, batch = some(layout=layout)
        scores = drawn_scores(batch)
        kept = top_edges(scores, batch, ratio, rounding)
        expected = torch.zeros(batch.num_edges, dtype=torch.bool)
        for graph in range(6):
            rows = [e for e in range(batch.num_edges) if batch.edge_batch[e] == graph and e <= batch.reverse[e]]
            count = getattr(math, rounding)(round(ratio * len(rows), 6))
            for row in sorted(rows, key=lambda e: -scores[e].item())[:count]:
                expected[row] = expected[batch.reverse[row]] = True
        assert torch.equal(kept, expected)

    def test_graphs_do_not_compete_and_every_one_keeps_an_edge(self):
        _, batch = some()
        kept = top_edges(1e6 * batch.edge_batch.double(), batch, 1e-3)
        first = torch.arange(batch.num_edges) <= batch.reverse
        assert torch.equal(batch.sum_edges((kept & first).long()), batch.sum_edges(first.long()).clamp(max=1))

    def test_no_wrong_place_among_many_edges(self, motif):
        """A single key of graph and score would run out of digits here (P7)."""
        batch = whole(motif.graphs.select(motif["train"][:200]))
        both = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0)) * 1e-6
        scores = (both + batch.reversed(both)) / 2
        kept = top_edges(scores, batch, 0.5)
        worst = torch.full((200,), 1.0).scatter_reduce(0, batch.edge_batch[kept], scores[kept], "amin")
        best = torch.full((200,), -1.0).scatter_reduce(0, batch.edge_batch[~kept], scores[~kept], "amax")
        assert (worst >= best).all()
