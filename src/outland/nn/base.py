"""What all encoders share: the signature, and the vectors of nodes that enter."""

from collections.abc import Callable

from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import Features, GraphBatch
from outland.nn.layers import FeatureEncoder
from outland.nn.settings import BackboneSettings
from outland.ops import Rows, scale_rows

Pool = Callable[[Tensor], Tensor]


class Encoder(nn.Module):
    """Graphs to node embeddings; every backbone has this signature.

    Args:
        settings: kind, depth, width and options.
        inputs: the node features, or the width of hidden states that another encoder hands on.
        project: map real features to the hidden width before the first layer; categories are always embedded in it.

    Attributes:
        in_width: of the vectors that enter the first layer.
    """

    def __init__(self, settings: BackboneSettings, inputs: Features | int, project: bool) -> None:
        super().__init__()
        if settings.layers < 1:
            raise OutlandError(f"an encoder needs at least one layer, not {settings.layers}")
        self.settings = settings
        self.features: FeatureEncoder | None = None
        if isinstance(inputs, Features):
            project = project or inputs.vocabulary is not None
            self.features = FeatureEncoder(inputs, settings.width if project else None)
            inputs = self.features.out_width
        self.in_width = inputs

    def embed(self, batch: GraphBatch) -> Tensor:
        """Raw node features as the vectors that enter the first layer."""
        assert self.features is not None, "this encoder continues another one and takes its states"
        states: Tensor = self.features(batch.x)
        return states

    def entry(self, batch: GraphBatch, node_weight: Tensor | None, states: Tensor | None) -> Tensor:
        """The weighted vectors that enter the first layer."""
        x = self.embed(batch) if states is None else states
        return x if node_weight is None else scale_rows(x, node_weight)

    def edge_states(self, batch: GraphBatch) -> list[Rows]:
        """Edge features as vectors `[E, d]`, where several passes share them; none where edges have no features."""
        raise NotImplementedError

    def forward(
        self,
        batch: GraphBatch,
        node_weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
        states: Tensor | None = None,
        edge_states: list[Rows] | None = None,
        pool: Pool | None = None,
    ) -> Tensor:
        """Node embeddings `[N, width]`, or what a readout makes of them.

        Args:
            batch: the graphs.
            node_weight: multiplies each node's input once, at the entry `[N]`.
            edge_weight: multiplies each edge's message in every layer `[E]`.
            states: node vectors to start from instead of `embed(batch)`.
            edge_states: what `edge_states(batch)` gives, where several passes share it.
            pool: the readout of the settings, which exchanges with linear maps where that is a sum or mean.
        """
        raise NotImplementedError
