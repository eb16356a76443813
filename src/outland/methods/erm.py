"""Empirical risk minimisation: the reference every other method is compared with."""

from typing import ClassVar

from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.nn import BackboneSettings, GraphNet


class ERM(Method):
    r"""Empirical risk minimisation (Vapnik, 1992): the mean loss over the training graphs, and nothing else.

    .. math:: \min_\theta \mathbb{E}\,[\ell(f(g), y)]
    """

    name: ClassVar[str] = "erm"
    family: ClassVar[str] = "general"
    citation: ClassVar[str] = "Vapnik, NIPS 1992"

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: MethodSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss."""
        return {"risk": self.risk(self.classifier(batch), batch)}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of whole graphs."""
        logits: Tensor = self.classifier(batch)
        return logits
