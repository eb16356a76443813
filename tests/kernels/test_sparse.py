"""The GPU's sums over edges beside their plain twins; off a GPU the kernels run in Triton's interpreter."""

import itertools

import pytest
import torch

from outland.graphs.wires import Wires
from tests.kernels.cases import DEVICE, close, triton_is_here

pytestmark = triton_is_here


def wired(nodes, edges, seed=0):
    random = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(max(nodes, 1), (edges,), generator=random) for _ in range(2))
    groups = []
    for here, there in ((target, source), (source, target)):
        wires = Wires.grouped(here, there, nodes)
        groups.append(tuple(part.to(DEVICE) for part in (wires.pointers, wires.edges, wires.nodes)))
    return source.to(DEVICE), target.to(DEVICE), *groups


def plain(x, weight, state, eps, relu, source, target):
    message = x[source] if state is None else x[source] + state
    message = message.relu() if relu else message
    message = message if weight is None else message * weight[:, None]
    heard = torch.zeros_like(x).index_add(0, target, message)
    return heard if eps is None else (1 + eps) * x + heard


CASES = list(itertools.product((True, False), repeat=4))


@pytest.mark.parametrize(("weighted", "with_state", "own", "relu"), CASES)
@pytest.mark.parametrize(("nodes", "edges", "width"), [(9, 30, 5), (20, 300, 150), (3, 0, 4)])
def test_hearing_equals_its_twin(nodes, edges, width, weighted, with_state, own, relu):
    from outland.kernels.sparse import hear

    source, target, incoming, outgoing = wired(nodes, edges)
    random = torch.Generator().manual_seed(1)
    shapes = {"x": (nodes, width), "weight": (edges,), "state": (edges, width), "eps": (1,)}
    wanted = {"x": True, "weight": weighted, "state": with_state, "eps": own}
    values = {name: torch.randn(shape, generator=random).to(DEVICE) for name, shape in shapes.items()}
    slope = torch.randn(nodes, width, generator=random).to(DEVICE)
    sides = []
    for ours in (True, False):
        given = {name: values[name].clone().requires_grad_() if wanted[name] else None for name in shapes}
        arguments = (given["x"], given["weight"], given["state"], given["eps"], relu)
        out = hear(*arguments, incoming, outgoing) if ours else plain(*arguments, source, target)
        out.backward(slope)
        sides.append((out, {name: value.grad for name, value in given.items() if value is not None}))
    (out, slopes), (expected, expected_slopes) = sides
    close(out, expected)
    for name, slope in expected_slopes.items():
        close(slopes[name], slope)


def test_edges_of_no_group_neither_count_nor_have_a_slope():
    from outland.kernels.sparse import hear

    source, target, incoming, outgoing = wired(6, 12)
    more = torch.full((5,), 5, device=DEVICE)  # five rows of padding, at the last node
    longer = [(pointers, edges, torch.cat([nodes, more])) for pointers, edges, nodes in (incoming, outgoing)]
    random = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=random).to(DEVICE)
    weight = torch.rand(17, generator=random).to(DEVICE).requires_grad_()
    state = torch.randn(17, 8, generator=random).to(DEVICE).requires_grad_()
    out = hear(x, weight, state, None, True, *longer)
    close(out, plain(x, weight[:12], state[:12], None, True, source, target))
    out.sum().backward()
    assert not weight.grad[12:].any()
    assert not state.grad[12:].any()
    assert weight.grad[:12].all()


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_sums_of_groups_equal_their_twin(mean, in_order):
    from outland.kernels.sparse import gather_sum

    random = torch.Generator().manual_seed(0)
    owner = torch.randint(7, (40,), generator=random)
    owner = owner.sort().values if in_order else owner
    owner[owner == 3] = 4 if in_order else 2  # an empty group
    wires = Wires.grouped(owner, owner, 7)
    values = torch.randn(40, 20, generator=random)
    groups = tuple(
        part if part is None else part.to(DEVICE)
        for part in (wires.pointers, None if in_order else wires.edges, wires.nodes)
    )
    expected = torch.zeros(7, 20).index_add(0, owner, values)
    if mean:
        expected = expected / torch.bincount(owner, minlength=7).clamp(min=1)[:, None]
    close(gather_sum(values.to(DEVICE), groups, mean).cpu(), expected)


@pytest.mark.parametrize("mean", [False, True])
def test_pooling_leaves_padding_out_forward_and_back(mean):
    from outland.kernels.sparse import pool

    counts = torch.tensor([3, 0, 5, 1])
    owner = torch.arange(4).repeat_interleave(counts)
    owner = torch.cat([owner, torch.full((4,), 4)]).to(DEVICE)  # four rows of padding
    pointers = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]).to(DEVICE)
    random = torch.Generator().manual_seed(0)
    values = torch.randn(13, 140, generator=random).to(DEVICE).requires_grad_()
    slope = torch.randn(4, 140, generator=random).to(DEVICE)
    out = pool(values, owner, pointers, mean)
    out.backward(slope)
    found, values.grad = values.grad, None
    expected = torch.zeros(5, 140, device=DEVICE).index_add(0, owner, values)[:4]
    if mean:
        expected = expected / counts.clamp(min=1)[:, None].to(DEVICE)
    expected.backward(slope)
    close(out, expected)
    close(found, values.grad)
