"""Scores for edges, from a GNN on their graph."""

from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.nn import BackboneSettings, Encoder, PairLinear


class EdgeScorer(nn.Module):
    r"""A GNN and a two-layer network on the two ends of each edge; both directions share the mean of their scores.

    .. math:: H = \mathrm{GNN}(g), \quad s_{uv} = \tfrac12\big(\mathrm{MLP}[H_u, H_v] + \mathrm{MLP}[H_v, H_u]\big)

    Args:
        settings: of the encoder.
        schema: of the graphs.
        hidden: width of the network's hidden layer.
        scores: how many scores an edge gets.
    """

    def __init__(self, settings: BackboneSettings, schema: Schema, hidden: int, scores: int = 1) -> None:
        super().__init__()
        self.encoder = Encoder(settings, schema.node, schema.edge)
        self.first = PairLinear(settings.width, hidden)
        self.last = nn.Linear(hidden, scores)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Scores of the edges `[E, scores]` and node embeddings H `[N, d]`."""
        features: Tensor = self.encoder(batch)
        scores = self.last(self.first(features, batch).relu())
        return (scores + batch.reversed(scores)) / 2, features
