"""GREA: put every graph's rationale into every other graph's environment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Terms
from outland.methods.parts.pairing import all_pairs
from outland.nn import BackboneSettings, Encoder, GraphNet, Head, Mask
from outland.settings import check_ranges


@dataclass(frozen=True)
class GREASettings(MethodSettings):
    """Hyper-parameters of GREA.

    Args:
        gamma: γ, share of a graph's nodes that the rationale should hold.
        removal, replacement: weights of the loss on rationales alone and on all pairs; the paper tunes them, the
            public code has 1.
        size: weight of the price on rationales of another share than γ.
        readout: `sum` of gated nodes, as published, which grows with the graph; or `mean` over the graph's nodes.
        period: of the epochs; the first of each period trains the gate, the others encoder and predictor.
        gate_layers: depth of the gate.
    """

    gamma: float = 0.4
    removal: float = 1.0
    replacement: float = 1.0
    size: float = 1.0
    readout: Literal["sum", "mean"] = "sum"
    period: int = 4
    gate_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", gamma=(0, 1), removal=(0, None), replacement=(0, None), size=(0, None))
        check_ranges(self, "method", period=(2, None), gate_layers=(1, None))


class Gate(nn.Module):
    """A GNN and a two-layer head: how much of each node belongs to the rationale `[N]`.

    Args:
        backbone: settings of the GNN, its depth included.
        schema: of the graphs.
    """

    def __init__(self, backbone: BackboneSettings, schema: Schema) -> None:
        super().__init__()
        self.encoder = Encoder(backbone, schema.node, schema.edge)
        self.head = Head(replace(backbone, head="mlp"), 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Values between 0 and 1."""
        # The head normalises over rows; here its rows are nodes.
        score: Tensor = self.head(self.encoder(batch), batch.replace(graph_mask=batch.node_mask))
        return score.squeeze(1).sigmoid()


class GREA(Method):
    r"""Graph Rationalization with Environment-based Augmentations (Liu et al., KDD 2022).

    A gate g splits the node embeddings H of a graph into those of its rationale and those of its environment,
    :math:`h^r = \sum_v g_v H_v` and :math:`h^e = \sum_v (1-g_v) H_v`. The environment is removed, or replaced by
    every other one in the batch:

    .. math:: \min\; \frac1B\sum_i \ell(f(h^r_i), y_i) + \frac1{B^2}\sum_{i,j} \ell(f(h^r_i + h^e_j), y_i)
              + \frac1B\sum_i \Big|\frac1{n_i}\sum_v g_v - \gamma\Big|

    Epochs take turns: one for the gate, three for encoder and predictor, which do not see the last term. Whoever
    stands still is in evaluation mode. The encoder reads whole graphs, so what the gate leaves out can still reach a
    rationale through messages (and a virtual node). Encoder and gate follow the backbone's settings, dropout and
    residuals included, and all B² pairs go through the head at once. Predictions rest on :math:`f(h^r)`.
    """

    name: ClassVar[str] = "grea"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Liu et al., KDD 2022"
    Settings: ClassVar[type[MethodSettings]] = GREASettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"gamma": (0.1, 0.2, 0.4, 0.6, 0.8), "readout": ("sum", "mean")}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GREASettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.gate = Gate(replace(backbone, layers=self.settings.gate_layers), schema)
        self.classifier = GraphNet(replace(backbone, pool=self.settings.readout), schema)

    def phases(self) -> list[Phase]:
        """Whole epochs for the gate, whole epochs for encoder and predictor."""
        lr, period = self.settings.lr, self.settings.period
        return [
            Phase("gate", (self.gate,), self.gate_loss, lr, when=lambda progress: progress.epoch % period == 0),
            Phase("predictor", (self.classifier,), self.loss, lr, when=lambda progress: progress.epoch % period != 0),
        ]

    def gate_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Right with the environment removed and replaced, and a rationale of the right size."""
        gates = self.gate(batch)
        return self.augmented(batch, gates) | {"size": self.settings.size * self.size_penalty(gates, batch)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Right with the environment removed and replaced."""
        return self.augmented(batch, self.gate(batch))

    def augmented(self, batch: GraphBatch, gates: Tensor) -> Terms:
        """The loss on rationales alone, and on every rationale in every environment."""
        head = self.classifier.head
        rationale, environment = self.split(batch, gates)
        sums, pairs = all_pairs(rationale, environment, batch)
        # Removal comes last: batch norm remembers best what it saw last, and inference sees rationales.
        replacement = self.settings.replacement * self.risk(head(sums, pairs), pairs)
        removal = self.settings.removal * self.risk(head(rationale, batch), batch)
        return {"removal": removal, "replacement": replacement}

    def split(self, batch: GraphBatch, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of rationales and environments `[B, d]`, which add up to those of the graphs."""
        nodes = self.classifier.encoder(batch)
        pool = batch.mean_nodes if self.settings.readout == "mean" else batch.sum_nodes
        return pool(gates[:, None] * nodes), pool((1 - gates)[:, None] * nodes)

    def size_penalty(self, gates: Tensor, batch: GraphBatch) -> Tensor:
        """Distance of each rationale's share of nodes from γ, mean over graphs."""
        return batch.mean_graphs((batch.mean_nodes(gates) - self.settings.gamma).abs())

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits from the rationale."""
        rationale, _ = self.split(batch, self.gate(batch))
        logits: Tensor = self.classifier.head(rationale, batch)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The rationale, an edge in it as far as both its ends are, and the rest."""
        gates = self.gate(batch)
        edges = batch.at_source(gates) * batch.at_target(gates)
        stable = Mask(gates, edges).symmetric(batch)
        return {"stable": stable, "environment": stable.complement()}
