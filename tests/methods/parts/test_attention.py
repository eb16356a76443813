import math

import pytest
import torch
from torch.nn import functional

from outland.graphs import PackedGraphs
from outland.methods import Progress
from outland.methods.parts import attention as parts
from tests.cases import doubled
from tests.conftest import odd_graphs, whole
from tests.methods.cases import built, odd_batch


def graph_rows(batch, over):
    owner = batch.edge_batch if over == "edge" else batch.node_batch
    return [(owner == g).nonzero()[:, 0] for g in range(batch.num_graphs)]


def test_golden_divergence():
    alpha = torch.tensor([0.2, 0.5, 0.9], dtype=torch.double)
    golden = [0.5341108087, 0.0871766936, 0.1163217566]
    assert parts.bernoulli_kl(alpha, 0.7, eps=0).tolist() == pytest.approx(golden, abs=1e-9)
    assert parts.bernoulli_kl(alpha, 0.7, eps=0).mean().item() == pytest.approx(0.2458697530, abs=1e-9)
    # The 1e-6 inside both logarithms adds itself, to first order, whatever α and r are.
    assert (parts.bernoulli_kl(alpha, 0.7) - 1e-6).tolist() == pytest.approx(golden, abs=1e-9)


@pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
def test_divergence_is_0_at_r_and_finite_at_the_ends(r):
    at_r = parts.bernoulli_kl(torch.tensor([r], dtype=torch.double), r)
    assert at_r.item() == pytest.approx(0, abs=1e-6)
    alpha = torch.linspace(0, 1, 101).requires_grad_()
    divergence = parts.bernoulli_kl(alpha, r)
    assert (divergence > -1e-5).all()
    (grad,) = torch.autograd.grad(divergence.sum(), alpha)
    assert grad.isfinite().all()


def test_expected_divergence_at_r():
    """The card's numbers: sampled coins are never free, and their mean is not r."""
    random = torch.Generator().manual_seed(0)
    for r, mean in ((0.5, 0.5), (0.7, 0.638)):
        score = torch.full((200_000,), math.log(r / (1 - r)), dtype=torch.double)
        alpha = parts.concrete(score, 1.0, random)
        assert parts.bernoulli_kl(alpha, r).mean().item() == pytest.approx(0.193, abs=2e-3)
        assert alpha.mean().item() == pytest.approx(mean, abs=2e-3)


def test_cold_coins_are_hard_and_fair():
    score = torch.full((20_000,), math.log(0.3 / 0.7))
    alpha = parts.concrete(score, 1e-3, torch.Generator().manual_seed(0))
    assert ((alpha < 0.01) | (alpha > 0.99)).float().mean().item() > 0.995
    assert alpha.mean().item() == pytest.approx(0.3, abs=3 * math.sqrt(0.21 / 20_000))
    assert alpha.isfinite().all()


@pytest.mark.parametrize("over", ["edge", "node"])
def test_instance_norm_equals_torch_graph_by_graph(over):
    batch = odd_batch()
    rows = batch.num_edges if over == "edge" else batch.num_nodes
    values = torch.randn(rows, 4, dtype=torch.double)
    actual = parts.instance_norm(values, batch, over)
    for index in graph_rows(batch, over):
        if len(index) > 1:
            expected = functional.instance_norm(values[index].T[None])[0].T
            assert torch.allclose(actual[index], expected)
        else:
            assert (actual[index] == 0).all()
    padded = odd_batch("padded")
    more = padded.num_edges if over == "edge" else padded.num_nodes
    filled = torch.cat([values, torch.randn(more - rows, 4, dtype=torch.double)])
    assert torch.allclose(parts.instance_norm(filled, padded, over)[:rows], actual)


@pytest.mark.parametrize("over", ["edge", "node"])
def test_scores_equal_a_loop(over):
    batch, net = odd_batch(), parts.AttentionScore(8, over, 0.0).double()
    wide = 16 if over == "edge" else 8
    assert [tuple(p.shape) for p in net.parameters()] == [(2 * wide, wide), (8, 2 * wide), (1, 8), (1,)]
    h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
    actual = net(h, batch)
    rows = h if over == "node" else torch.stack([torch.cat([h[u], h[v]]) for u, v in batch.edge_index.T.tolist()])
    for index in graph_rows(batch, over):
        if len(index) > 1:
            hidden = functional.instance_norm(net.first(rows[index]).T[None])[0].T.relu()
            hidden = functional.instance_norm(net.second(hidden).T[None])[0].T.relu()
            assert torch.allclose(actual[index], net.last(hidden)[:, 0])


def test_a_graph_with_a_single_edge():
    graphs = PackedGraphs.from_data_list(odd_graphs()[3:4])
    batch = doubled(whole(graphs))
    single = batch.replace(
        edge_index=batch.edge_index[:, 3:],
        edge_batch=batch.edge_batch[3:],
        reverse=torch.zeros(1, dtype=torch.long),
        edge_count=torch.ones(1, dtype=torch.long),
    )
    assert (parts.instance_norm(torch.randn(1, 4), single, "edge") == 0).all()
    assert all(term.isfinite() for term in built("gsat").loss(single, Progress()).values())
