"""Attention over nodes and edges: scores from node embeddings, instance norm, relaxed Bernoulli draws."""

from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch
from outland.nn import BackboneSettings, Mask
from outland.nn.convs import GCN, LayerInputs
from outland.nn.dropout import Dropout
from outland.nn.norm import norm
from outland.nn.pair import pair_linear

Over = Literal["edge", "node"]


class TwoWayAttention(nn.Module):
    r"""Divides every node and edge between two parts: softmax of two linear scores.

    .. math:: A^n_u = \mathrm{softmax}(W_n h_u + b_n), \quad A^e_{uv} = \mathrm{softmax}(W_e [h_u, h_v] + b_e)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.node = nn.Linear(width, 2)
        self.edge = nn.Linear(2 * width, 2)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Mask, Mask]:
        """The masks of both parts, which sum to 1 everywhere; edges by direction."""
        node = self.node(h).softmax(1)
        edge = pair_linear(self.edge, h, batch).softmax(1)
        return Mask(node[:, 0], edge[:, 0]), Mask(node[:, 1], edge[:, 1])


class Branch(nn.Module):
    """One part of the graph to one embedding: masked node states, batch norm, a weighted GCN layer, ReLU, readout."""

    def __init__(self, backbone: BackboneSettings, pool: str) -> None:
        super().__init__()
        self.pool = pool
        self.norm = norm(backbone.width, backbone.batch_norm)
        self.conv = GCN(backbone.width, backbone, 1)

    def forward(self, h: Tensor, mask: Mask, batch: GraphBatch) -> Tensor:
        """Embeddings `[B, d]`."""
        x = self.norm(h * mask.node[:, None], batch.node_mask)
        z = self.conv(x, LayerInputs(batch, mask.edge, None), x).relu()
        return batch.mean_nodes(z) if self.pool == "mean" else batch.sum_nodes(z)


def instance_norm(values: Tensor, batch: GraphBatch, over: Over, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 in each column over the edges, or nodes, of each graph; a single row becomes 0."""
    mean_of = batch.mean_edges if over == "edge" else batch.mean_nodes
    centred = values - _broadcast(mean_of(values), batch, over)
    return centred * _broadcast((mean_of(centred.square()) + eps).rsqrt(), batch, over)


def _broadcast(values: Tensor, batch: GraphBatch, over: Over) -> Tensor:
    """The graph's value for each of its rows; 0 for padding."""
    if over == "node":
        return batch.broadcast_to_nodes(values)
    if batch.graph_mask is not None:
        values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
    return values.index_select(0, batch.edge_batch)


class AttentionScore(nn.Module):
    """One score an edge, from `[h_u, h_v]`, or a node, from `h`: two hidden layers, normalised within each graph.

    Widths are 2d, 4d, d, 1 over edges and d, 2d, d, 1 over nodes.

    Args:
        width: d.
        over: what is scored.
        dropout: after each hidden layer.
    """

    def __init__(self, width: int, over: Over, dropout: float) -> None:
        super().__init__()
        self.over: Over = over
        inputs = 2 * width if over == "edge" else width
        # The norm subtracts any constant, so the layers before it have none.
        self.first = nn.Linear(inputs, 2 * inputs, bias=False)
        self.second = nn.Linear(2 * inputs, width, bias=False)
        self.last = nn.Linear(width, 1)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Scores `[E]` or `[N]`."""
        hidden = pair_linear(self.first, h, batch) if self.over == "edge" else self.first(h)
        hidden = self.dropout(instance_norm(hidden, batch, self.over).relu())
        hidden = self.dropout(instance_norm(self.second(hidden), batch, self.over).relu())
        score: Tensor = self.last(hidden).squeeze(1)
        return score


def concrete(score: Tensor, temperature: float, random: torch.Generator) -> Tensor:
    r"""A relaxed Bernoulli draw with log-odds `score`: :math:`\sigma((z + \log u - \log(1-u)) / \tau)`, u uniform."""
    uniform = torch.rand(score.shape, generator=random, device=score.device, dtype=score.dtype)
    return ((score + uniform.logit(torch.finfo(score.dtype).eps)) / temperature).sigmoid()


def bernoulli_kl(alpha: Tensor, r: float | Tensor, eps: float = 1e-6) -> Tensor:
    r"""Divergence of Bernoulli(α) from Bernoulli(r), for each entry.

    .. math:: \alpha\log\frac{\alpha}{r} + (1-\alpha)\log\frac{1-\alpha}{1-r}
    """
    return alpha * (alpha / r + eps).log() + (1 - alpha) * ((1 - alpha) / (1 - r) + eps).log()
