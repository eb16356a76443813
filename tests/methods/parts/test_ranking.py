import pytest
import torch

from outland.methods.parts.ranking import both_directions, permutation, rank_within_group
from tests.conftest import whole


def test_ranks_equal_a_loop_over_groups():
    random = torch.Generator().manual_seed(0)
    group = torch.randint(0, 4, (60,), generator=random)
    keys = torch.randint(0, 10, (60,), generator=random).double()  # many ties, which keep the order of rows
    actual = rank_within_group(keys, group, 5)
    for number in range(5):
        rows = [row for row in range(60) if group[row] == number]
        for rank, row in enumerate(sorted(rows, key=lambda row: keys[row].item())):
            assert actual[row] == rank


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_a_permutation_moves_real_graphs_only(any_set, layout):
    batch = whole(any_set[1], layout)
    order = permutation(batch, torch.Generator().manual_seed(1))
    assert sorted(order[:6].tolist()) == list(range(6))
    assert order[6:].tolist() == list(range(6, batch.num_graphs))
    assert order[:6].tolist() != list(range(6))


def test_both_directions_of_an_edge_have_the_value_of_the_first(any_set):
    batch = whole(any_set[1])
    values = torch.arange(batch.num_edges)
    actual = both_directions(values, batch)
    assert torch.equal(actual, actual[batch.reverse])
    assert torch.equal(actual, torch.minimum(values, values[batch.reverse]))
