import itertools

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.ops import (
    EdgeCSR,
    Edges,
    EmbeddedRows,
    embedded_rows,
    embedding_sum,
    gin_aggregate,
    sum_neighbours,
    use_kernels,
)
from tests.conftest import odd_graphs, whole
from tests.ops.cases import DEVICE, close, needs_triton, random_edges


def plain(x, weight, state, eps, relu, edge_index):
    source, target = edge_index
    message = x[source] if state is None else x[source] + state
    message = message.relu() if relu else message
    message = message if weight is None else message * weight[:, None]
    aggregated = torch.zeros_like(x).index_add(0, target, message)
    return aggregated if eps is None else (1 + eps) * x + aggregated


CASES = list(itertools.product((True, False), repeat=4))


@needs_triton
@pytest.mark.parametrize(("weighted", "with_state", "with_self", "relu"), CASES)
@pytest.mark.parametrize(("nodes", "edges", "width"), [(9, 30, 5), (6, 70, 150), (3, 0, 4)])
def test_the_kernel_equals_gathering_and_adding(nodes, edges, width, weighted, with_state, with_self, relu):
    from outland.ops.triton.aggregate import aggregate

    grouped, generator = random_edges(nodes, edges), torch.Generator().manual_seed(1)
    shapes = {"x": (nodes, width), "weight": (edges,), "state": (edges, width), "eps": (1,)}
    given = {"x": True, "weight": weighted, "state": with_state, "eps": with_self}
    values = {name: torch.randn(shape, generator=generator).to(DEVICE) for name, shape in shapes.items()}
    grad = torch.randn(nodes, width, generator=generator).to(DEVICE)
    sides = []
    for ours in (True, False):
        inputs = {name: values[name].clone().requires_grad_() if given[name] else None for name in shapes}
        x, weight, state, eps = inputs.values()
        if ours:
            out = aggregate(x, grouped, weight, state, eps, relu)
        else:
            out = plain(x, weight, state, eps, relu, grouped.edge_index)
        out.backward(grad)
        sides.append((out, {name: value.grad for name, value in inputs.items() if value is not None}))
    (out, grads), (expected, expected_grads) = sides
    close(out, expected)
    for name, expected_grad in expected_grads.items():
        close(grads[name], expected_grad)


@needs_triton
@pytest.mark.parametrize("with_state", [True, False])
def test_both_forms_of_gin_and_of_a_sum_are_the_same(with_state):
    edges, generator = random_edges(20, 90), torch.Generator().manual_seed(5)
    shapes = ((20, 6), (1,), (90,), (90, 6))
    x, eps, weight, state = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    inputs = (x, eps, edges, weight, state if with_state else None)
    close(gin_aggregate.kernel(*inputs), gin_aggregate.plain(*inputs))
    close(sum_neighbours.kernel(x, edges, weight), sum_neighbours.plain(x, edges, weight))


@needs_triton
def test_edges_of_no_group_neither_count_nor_have_a_gradient():
    edges = random_edges(6, 12)
    padding = torch.full((5,), 5, device=DEVICE)  # five rows, at the last node
    longer = (EdgeCSR(rowptr, perm, torch.cat([col, padding])) for rowptr, perm, col in edges[1:])
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=generator).to(DEVICE)
    weight = torch.rand(17, generator=generator).to(DEVICE).requires_grad_()
    state = torch.randn(17, 8, generator=generator).to(DEVICE).requires_grad_()
    eps = torch.tensor([0.25], device=DEVICE)
    out = gin_aggregate.kernel(x, eps, Edges(edges.edge_index, *longer), weight, state)
    close(out, plain(x, weight[:12], state[:12], eps, True, edges.edge_index))
    out.sum().backward()
    assert not weight.grad[12:].any()
    assert not state.grad[12:].any()
    assert weight.grad[:12].all()


@needs_triton
@pytest.mark.parametrize(("edges", "width", "sizes"), [(0, 4, (3,)), (30, 5, (5, 6, 2)), (170, 70, (40, 50))])
@pytest.mark.parametrize(("weighted", "padding"), [(True, 0), (False, 4)])
def test_edge_rows_are_looked_up_as_they_would_be_written(edges, width, sizes, weighted, padding):
    grouped, generator = random_edges(12, edges), torch.Generator().manual_seed(2)
    if padding:
        filled = torch.full((padding,), 11, device=DEVICE)
        longer = (EdgeCSR(rowptr, perm, torch.cat([col, filled])) for rowptr, perm, col in grouped[1:])
        grouped = Edges(torch.cat([grouped.edge_index, filled.expand(2, -1)], 1), *longer)
    values = torch.stack([torch.randint(size, (edges + padding,), generator=generator) for size in sizes], 1)
    values = values.to(torch.uint8).to(DEVICE)
    offsets = torch.tensor(sizes).cumsum(0).sub(torch.tensor(sizes)).to(DEVICE)
    shapes = ((12, width), (sum(sizes), width), (1,), (edges + padding,))
    x, table, eps, weight = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    grad, sides = torch.randn(12, width, generator=generator).to(DEVICE), []
    for looked_up in (True, False):
        inputs = [tensor.clone().requires_grad_() for tensor in (x, table, eps, weight)[: 3 + weighted]]
        nodes, entries, self_weight, *weights = inputs
        state = EmbeddedRows(entries, values, offsets)
        out = gin_aggregate.kernel(
            nodes, self_weight, grouped, *weights or [None], state if looked_up else embedding_sum.plain(*state)
        )
        sides.append((out, *torch.autograd.grad(out, inputs, grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)
    inputs = (x, eps, grouped, weight if weighted else None, EmbeddedRows(table, values, offsets))
    if not padding:
        close(gin_aggregate.plain(*inputs), sides[0][0])


@needs_triton
@pytest.mark.parametrize("enabled", [True, False])
def test_rows_are_embedded_where_there_is_no_kernel(enabled):
    table, values, offsets = torch.randn(6, 4), torch.tensor([[0, 1], [3, 0]]), torch.tensor([0, 4])
    with use_kernels(enabled):
        rows = embedded_rows(table, values, offsets)
    if enabled:
        assert isinstance(rows, EmbeddedRows)
    else:
        assert torch.equal(rows, embedding_sum.plain(table, values, offsets))


def test_gradients_by_finite_differences():
    batch = whole(PackedGraphs.from_data_list(odd_graphs()))
    x = torch.randn(batch.num_nodes, 4, dtype=torch.double, requires_grad=True)
    weight = torch.rand(batch.num_edges, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, weight: sum_neighbours(x, batch.edges, weight), (x, weight), eps=1e-6, atol=1e-7
    )
