"""Encoder, readout and head: from graphs to predictions."""

from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.nn.backbones import build_encoder
from outland.nn.descriptors import descriptor_input
from outland.nn.layers import Dropout, linear_before, linear_norm, norm
from outland.nn.masker import Mask
from outland.nn.readout import Readout
from outland.nn.settings import BackboneSettings
from outland.ops import Rows


class Head(nn.Module):
    """Graph embeddings `[B, d]` to logits `[B, outputs]`: one linear layer, or two with 2d between."""

    def __init__(self, settings: BackboneSettings, outputs: int) -> None:
        super().__init__()
        width = settings.width
        self.expand: nn.Linear | None = None
        if settings.head == "mlp":
            self.expand = linear_before(settings.batch_norm, width, 2 * width)
            self.norm = norm(2 * width, settings.batch_norm)
            self.dropout = Dropout(settings.dropout)
        self.linear = nn.Linear(2 * width if self.expand is not None else width, outputs)

    def hidden(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """What the last linear layer reads: `[B, d]` itself, or the hidden layer `[B, 2d]`."""
        if self.expand is not None:
            h = linear_norm(self.expand, self.norm, h, batch.graph_mask, relu=True, dropout=self.dropout)
        return h

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Logits of each graph."""
        logits: Tensor = self.linear(self.hidden(h, batch))
        return logits


class GraphNet(nn.Module):
    """The classifier f: encoder, readout over nodes, head.

    `inputs` is the width of the states another encoder hands on; None reads the graphs' own features.
    """

    def __init__(self, settings: BackboneSettings, schema: Schema, inputs: int | None = None) -> None:
        super().__init__()
        self.encoder = build_encoder(settings, schema.node if inputs is None else inputs, schema.edge)
        self.readout = Readout(settings)
        self.head = Head(settings, schema.task.outputs)
        self.descriptors = descriptor_input(settings, schema)

    def embed(
        self,
        batch: GraphBatch,
        mask: Mask | None = None,
        states: Tensor | None = None,
        edge_states: list[Rows] | None = None,
    ) -> Tensor:
        """Graph embeddings `[B, d]`; the mask weighs node inputs and messages, and nodes as the `Readout` says."""
        node, edge = (None, None) if mask is None else (mask.node, mask.edge)
        pooled = self.encoder(batch, node, edge, states, edge_states, lambda z: self.readout.pool(z, batch, node))
        return self.add_descriptors(self.readout.scale(pooled), batch)

    def add_descriptors(self, z: Tensor, batch: GraphBatch) -> Tensor:
        """Graph embeddings `[B, d]`, with what is known of the graphs as a whole, where the settings ask for it."""
        return z if self.descriptors is None else z + self.descriptors(batch)

    def forward(
        self,
        batch: GraphBatch,
        mask: Mask | None = None,
        states: Tensor | None = None,
        edge_states: list[Rows] | None = None,
    ) -> Tensor:
        """Logits `[B, outputs]`."""
        logits: Tensor = self.head(self.embed(batch, mask, states, edge_states), batch)
        return logits


def initialize(module: nn.Module, scheme: str) -> None:
    """Apply the weight initialisation that the settings name."""
    if scheme == "kaiming":
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
