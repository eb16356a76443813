"""Four message-passing layers under one signature, each honouring an explicit weight on every edge.

A weight multiplies what an edge carries and nothing else: weight 1 is the plain layer, weight 0 is the graph without
that edge. No hooks: a mask that is passed in is a mask that acts.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import GraphBatch
from outland.nn.layers import linear_before, linear_norm, norm
from outland.nn.settings import BackboneSettings
from outland.ops import Rows, dense_rows, gin_aggregate


@dataclass(frozen=True)
class LayerInputs:
    """What a layer reads besides node states."""

    batch: GraphBatch
    edge_weight: Tensor | None  # multiplies each edge's message [E]; None is 1
    edge_state: Rows | None  # edge features as vectors [E, d], if there are any
    nonnegative: bool = False  # whether no node state is below 0, so that a ReLU would change none

    @property
    def edge_rows(self) -> Tensor | None:
        """`edge_state` in one tensor."""
        return None if self.edge_state is None else dense_rows(self.edge_state)

    def weighted(self, messages: Tensor) -> Tensor:
        """Multiply messages `[E, ...]` by the edge weights."""
        if self.edge_weight is None:
            return messages
        return messages * self.edge_weight.reshape(-1, *[1] * (messages.dim() - 1))


class Conv(nn.Module):
    """A message-passing layer: node states `[N, inputs]` to `[N, width]`; `depth` is 1 for the first layer."""

    looks_up_edges: ClassVar[bool] = False  # whether it takes edge features as `EmbeddedRows`

    def __init__(self, inputs: int, settings: BackboneSettings, depth: int, before_norm: bool = False) -> None:
        super().__init__()

    @property
    def last(self) -> nn.Linear | None:
        """The linear layer that it ends with, if it does."""
        return None

    def before_last(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages up to the last linear layer; `initial` are the states that entered the first layer."""
        raise NotImplementedError

    def forward(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages."""
        hidden = self.before_last(x, inputs, initial)
        out: Tensor = hidden if self.last is None else self.last(hidden)
        return out


class GIN(Conv):
    r"""Graph isomorphism layer (Xu et al., ICLR 2019) with a ReLU on messages, as in GINE (Hu et al., ICLR 2020).

    .. math:: x'_i = \mathrm{MLP}\Big((1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\mathrm{ReLU}(x_j + e_{ji})\Big)
    """

    looks_up_edges = True

    def __init__(self, inputs: int, settings: BackboneSettings, depth: int, before_norm: bool = False) -> None:
        super().__init__(inputs, settings, depth, before_norm)
        width = settings.width
        self.eps = nn.Parameter(torch.zeros(1))
        self.expand = linear_before(settings.batch_norm, inputs, 2 * width)
        self.norm = norm(2 * width, settings.batch_norm)
        self.contract = linear_before(before_norm, 2 * width, width)

    @property
    def last(self) -> nn.Linear:
        """The second layer of the MLP."""
        return self.contract

    def before_last(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages, and the first layer of the MLP."""
        batch, weight, edge_state = inputs.batch, inputs.edge_weight, inputs.edge_state
        aggregated = gin_aggregate(x, self.eps, batch.edges, weight, edge_state, inputs.nonnegative)
        return linear_norm(self.expand, self.norm, aggregated, batch.node_mask, relu=True)


def propagate(x: Tensor, inputs: LayerInputs) -> Tensor:
    r"""Symmetrically normalised propagation with self-loops of weight 1; degrees are sums of edge weights.

    .. math:: x'_i = \sum_{j \to i} \frac{w_{ji}}{\sqrt{d_j d_i}} (x_j + e_{ji}) + \frac{x_i}{d_i},
              \quad d_i = 1 + \sum_{j \to i} w_{ji}
    """
    batch = inputs.batch
    degree = 1 + batch.aggregate_to_targets(inputs.weighted(x.new_ones(batch.num_edges)))
    scale = degree.rsqrt()
    weight = inputs.weighted(batch.at_source(scale) * batch.at_target(scale))
    aggregated = batch.sum_neighbours(x, weight)
    if (edge_rows := inputs.edge_rows) is not None:
        aggregated = aggregated + batch.aggregate_to_targets(edge_rows * weight[:, None])
    return aggregated + x / degree[:, None]


class GCN(Conv):
    """Graph convolution (Kipf and Welling, ICLR 2017): normalised propagation of a linear map."""

    def __init__(self, inputs: int, settings: BackboneSettings, depth: int, before_norm: bool = False) -> None:
        super().__init__(inputs, settings, depth, before_norm)
        self.linear = linear_before(before_norm, inputs, settings.width)

    @property
    def last(self) -> nn.Linear:
        """The map that follows the messages."""
        return self.linear

    def before_last(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages."""
        return propagate(x, inputs)


class GCNII(Conv):
    r"""Deep graph convolution with initial residual and identity mapping (Chen et al., ICML 2020).

    .. math:: p = (1-\alpha)\,\hat P x + \alpha\,x_0, \quad x' = (1-\beta_l)\,p + \beta_l\,W p,
              \quad \beta_l = \log(\theta / l + 1)
    """

    def __init__(self, inputs: int, settings: BackboneSettings, depth: int, before_norm: bool = False) -> None:
        super().__init__(inputs, settings, depth, before_norm)
        self.alpha, self.beta = settings.alpha, math.log(settings.theta / depth + 1)
        self.linear = nn.Linear(settings.width, settings.width, bias=False)

    def before_last(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages."""
        mixed = (1 - self.alpha) * propagate(x, inputs) + self.alpha * initial
        out: Tensor = (1 - self.beta) * mixed + self.beta * self.linear(mixed)
        return out


class GAT(Conv):
    r"""Graph attention (Veličković et al., ICLR 2018), the edge weight inside the softmax.

    .. math:: \alpha_{ji} = \frac{w_{ji}\exp s_{ji}}{\sum_k w_{ki}\exp s_{ki}}, \quad
              s_{ji} = \mathrm{LeakyReLU}(a_s^\top v_{ji} + a_t^\top W x_i), \quad v_{ji} = W x_j + e_{ji}

    Every node attends to itself with weight 1, so an edge of weight 0 is exactly an absent edge.
    """

    def __init__(self, inputs: int, settings: BackboneSettings, depth: int, before_norm: bool = False) -> None:
        super().__init__(inputs, settings, depth, before_norm)
        if settings.width % settings.heads:
            raise OutlandError(
                f"backbone.width ({settings.width}) must be a multiple of backbone.heads ({settings.heads})"
            )
        self.heads, self.before_norm = settings.heads, before_norm
        self.linear = nn.Linear(inputs, settings.width, bias=False)
        self.source = nn.Parameter(torch.empty(self.heads, settings.width // self.heads))
        self.target = nn.Parameter(torch.empty(self.heads, settings.width // self.heads))
        self.bias = nn.Parameter(torch.zeros(settings.width))
        for attention in (self.source, self.target):
            nn.init.xavier_uniform_(attention)

    def before_last(self, x: Tensor, inputs: LayerInputs, initial: Tensor) -> Tensor:
        """One round of messages."""
        batch = inputs.batch
        h = self.linear(x).unflatten(1, (self.heads, -1))
        values = batch.at_source(h)
        if (edge_rows := inputs.edge_rows) is not None:
            values = values + edge_rows.unflatten(1, (self.heads, -1))
        at_target = (h * self.target).sum(-1)
        score = nn.functional.leaky_relu((values * self.source).sum(-1) + batch.at_target(at_target), 0.2)
        self_score = nn.functional.leaky_relu((h * self.source).sum(-1) + at_target, 0.2)
        # The largest score at each node is subtracted before exp; it cancels in the ratio. Absent edges have none.
        index, scores = batch.edge_index[1, :, None].expand_as(score), score.detach()
        if inputs.edge_weight is not None:
            scores = scores.masked_fill(inputs.edge_weight.detach()[:, None] == 0, -torch.inf)
        top = self_score.detach().scatter_reduce(0, index, scores, "amax")
        strength = inputs.weighted((score - batch.at_target(top)).clamp(max=0).exp())
        self_strength = (self_score - top).exp()
        total = self_strength + batch.aggregate_to_targets(strength)
        mixed = batch.aggregate_to_targets(values * strength[..., None]) + h * self_strength[..., None]
        bias = self.bias.detach() if self.before_norm and self.training else self.bias  # as in `LinearBeforeNorm`
        out: Tensor = (mixed / total[..., None]).flatten(1) + bias
        return out


CONVS: dict[str, type[Conv]] = {"gin": GIN, "gcn": GCN, "gcnii": GCNII, "gat": GAT}
