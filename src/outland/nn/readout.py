"""The readout: the nodes of each graph to one vector."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from outland import ops
from outland.graphs import GraphBatch
from outland.nn.settings import BackboneSettings

LINEAR = ("mean", "sum")  # readouts that exchange with a linear map of the nodes
_SMALLEST = 1e-6  # norm: the gradient of a direction must stay finite


class Readout(nn.Module):
    r"""The readout of a graph's node embeddings z, by `backbone.pool`.

    .. math:: \text{mean} = \frac1n\sum_i z_i, \quad \text{max} = \max_i z_i, \quad
              \text{softmax} = \tau\log\sum_i e^{z_i/\tau}, \quad
              \text{attention} = \sum_i \frac{e^{q^\top z_i}}{\sum_j e^{q^\top z_j}}\,z_i

    with a learned temperature τ, 1 at the start, and a learned q, 0 at the start, where attention is the mean. With
    `unit_readout` the vector is divided by its L2 norm, which makes the mean and the sum the same.

    A mask's node weights w act where they say how much of a node is there: as factors :math:`w_i` of the exponentials,
    and for `max` by leaving out the nodes of weight 0. `mean` and `sum` take every node, as the published methods do,
    whose masks act on inputs and messages alone; with `masked_readout` they are :math:`\sum w_i z_i / \sum w_i` and
    :math:`\sum w_i z_i`. A graph of no nodes, or of none with a weight, has 0.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        super().__init__()
        self.pool_name, self.unit, self.masked = settings.pool, settings.unit_readout, settings.masked_readout
        if settings.pool == "softmax":
            self.log_temperature = nn.Parameter(torch.zeros(()))
        if settings.pool == "attention":
            self.query = nn.Parameter(torch.zeros(settings.width))

    def pool(self, nodes: Tensor, batch: GraphBatch, weight: Tensor | None = None, masked: bool = False) -> Tensor:
        """Graph vectors `[B, d]` from node vectors `[N, d]`, before they are scaled to unit length.

        With `masked` the weights `[N]` act in a mean or sum too, whatever the settings say.
        """
        segments = batch.node_segments
        match self.pool_name:
            case "max":
                return ops.max_pool(nodes, segments, weight)
            case "softmax":
                return ops.logsumexp_pool(nodes, segments, self.log_temperature.exp(), weight)
            case "attention":
                return ops.attention_pool(nodes, segments, self.query, weight)
        if weight is None or not (masked or self.masked):
            return batch.mean_nodes(nodes) if self.pool_name == "mean" else batch.sum_nodes(nodes)
        total = batch.sum_nodes(nodes * weight[:, None])
        if self.pool_name == "sum":
            return total
        share = batch.sum_nodes(weight)[:, None]
        return total / torch.where(share > 0, share, 1)

    def scale(self, vectors: Tensor) -> Tensor:
        """Graph vectors `[B, d]`, divided by their length where the settings say so; 0 stays 0."""
        return functional.normalize(vectors, dim=1, eps=_SMALLEST) if self.unit else vectors

    def forward(self, nodes: Tensor, batch: GraphBatch, weight: Tensor | None = None, masked: bool = False) -> Tensor:
        """Graph vectors `[B, d]` from node vectors `[N, d]`."""
        return self.scale(self.pool(nodes, batch, weight, masked))
