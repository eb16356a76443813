"""Messages between directed bonds: an encoder whose hidden states belong to edges."""

import torch
from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import Features, GraphBatch
from outland.nn.base import Encoder, Pool
from outland.nn.layers import Dropout, FeatureEncoder, linear_before, linear_norm, norm
from outland.nn.settings import BackboneSettings
from outland.ops import Rows, dense_rows


class BondEncoder(Encoder):
    r"""D-MPNN (Yang et al., J. Chem. Inf. Model. 2019), with a weight on every edge.

    An edge :math:`u \to v` hears the edges into `u`, its own other direction excepted:

    .. math:: h^0_{uv} = W_i x_u + e_{uv}, \quad
              h_{uv} \leftarrow \mathrm{ReLU}\Big(h^0_{uv} + W_h \sum_{k \to u,\, k \neq v} w_{ku}\,h_{ku}\Big), \quad
              z_v = \mathrm{ReLU}\Big(W_o\,\big[x_v, \sum_{u \to v} w_{uv}\,h_{uv}\big]\Big)

    Of L layers the last goes from edges to nodes; the L - 1 before share one matrix. Dropout comes after every ReLU.
    """

    def __init__(self, settings: BackboneSettings, inputs: Features | int, edges: Features | None = None) -> None:
        super().__init__(settings, inputs, project=True)
        if settings.virtual_node or settings.jumping != "last":
            raise OutlandError("the backbone dmpnn has no virtual node and no jumping: leave these settings out")
        width = settings.width
        self.source = nn.Linear(self.in_width, width, bias=False)
        self.edges = FeatureEncoder(edges, width) if edges else None
        self.hidden = nn.Linear(width, width, bias=False) if settings.layers > 1 else None
        self.node = linear_before(settings.batch_norm, self.in_width + width, width)
        self.norm = norm(width, settings.batch_norm)
        self.dropout = Dropout(settings.dropout)

    def edge_states(self, batch: GraphBatch) -> list[Rows]:
        """Edge features as vectors, in a list of one; none where edges have no features."""
        return [] if self.edges is None else [self.edges(batch.edge_attr)]

    def forward(
        self,
        batch: GraphBatch,
        node_weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
        states: Tensor | None = None,
        edge_states: list[Rows] | None = None,
        pool: Pool | None = None,
    ) -> Tensor:
        """Node embeddings `[N, width]`, or what a readout makes of them; the arguments are those of `Encoder`."""
        x = self.entry(batch, node_weight, states)
        first = batch.at_source(self.source(x))
        for edge_state in self.edge_states(batch) if edge_states is None else edge_states:
            first = first + dense_rows(edge_state)
        has_reverse = batch.has_reverse[:, None].to(x.dtype)
        h = self._weighted(first, edge_weight)
        for _ in range(self.settings.layers - 1):
            assert self.hidden is not None
            incoming = batch.at_source(batch.aggregate_to_targets(h))
            messages = torch.addcmul(incoming, batch.reversed(h), has_reverse, value=-1)
            h = self._weighted(first + self.hidden(messages), edge_weight)
        inputs = torch.cat([x, batch.aggregate_to_targets(h)], dim=1)
        z = linear_norm(self.node, self.norm, inputs, batch.node_mask, relu=True, dropout=self.dropout)
        return z if pool is None else pool(z)

    def _weighted(self, h: Tensor, edge_weight: Tensor | None) -> Tensor:
        """States of edges after ReLU and dropout, as messages `[E, width]`."""
        h = self.dropout(h, relu=True)
        return h if edge_weight is None else h * edge_weight[:, None]
