"""Empirical risk minimisation: the reference every other method is compared with."""

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, Progress, S, Terms
from outland.nn import BackboneSettings, GraphNet


class ERM(Method[S]):
    r"""Empirical risk minimisation (Vapnik, 1992): the mean loss over the training graphs, and nothing else.

    .. math:: \min_\theta \mathbb{E}\,[\ell(f(g), y)]
    """

    name = "erm"
    family = "general"
    citation = "Vapnik, NIPS 1992"

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: S | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss."""
        return {"risk": self.risk(self.classifier(batch), batch)}
