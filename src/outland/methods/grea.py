"""GREA: predict from every graph's rationale in every other graph's environment."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import GraphEmbeddings, Method, MethodSettings, Phase, Progress, Terms
from outland.methods.parts.pairing import all_pairs, permutation
from outland.nn import BackboneSettings, GraphNet, Head, Mask, build_encoder
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class GREASettings(MethodSettings):
    """Hyper-parameters of GREA.

    Args:
        gamma: γ, share of a graph's nodes that the rationale should hold.
        removal, replacement: weights of the loss on rationales alone and on all pairs; the paper tunes them, the
            public code has 1.
        size: weight of the penalty on rationales of another share than γ.
        readout: `sum` of gated nodes, as published, which grows with the graph; `mean` over the graph's nodes; or the
            `backbone`'s, in which gates are weights of nodes.
        period: of the epochs; the first of each period trains the gate, the others encoder and predictor.
        gate_layers: depth of the gate.
    """

    gamma: Fraction = 0.4
    removal: NonNegative = 1.0
    replacement: NonNegative = 1.0
    size: NonNegative = 1.0
    readout: Literal["sum", "mean", "backbone"] = "sum"
    period: Annotated[int, Field(ge=2)] = 4
    gate_layers: PositiveInt = 2


class Gate(nn.Module):
    """A GNN and a two-layer head that give the share of each node in the rationale `[N]`."""

    def __init__(self, backbone: BackboneSettings, schema: Schema) -> None:
        super().__init__()
        self.encoder = build_encoder(backbone, schema.node, schema.edge)
        self.head = Head(replace(backbone, head="mlp"), 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Values between 0 and 1."""
        # The head normalises over rows; here its rows are nodes.
        score: Tensor = self.head(self.encoder(batch), batch.replace(graph_mask=batch.node_mask))
        return score.squeeze(1).sigmoid()


class GREA(Method[GREASettings]):
    r"""Graph Rationalization with Environment-based Augmentations (Liu et al., KDD 2022).

    A gate g splits the node embeddings H of a graph into those of its rationale and those of its environment,
    :math:`h^r = \sum_v g_v H_v` and :math:`h^e = \sum_v (1-g_v) H_v`. The environment is removed, or replaced by
    every other one in the batch:

    .. math:: \min\; \frac1B\sum_i \ell(f(h^r_i), y_i) + \frac1{B^2}\sum_{i,j} \ell(f(h^r_i + h^e_j), y_i)
              + \frac1B\sum_i \Big|\frac1{n_i}\sum_v g_v - \gamma\Big|

    One epoch trains the gate, the next three encoder and predictor, without the last term; modules that are not trained
    are in evaluation mode. The encoder reads whole graphs, so what the gate leaves out can still reach a rationale
    through messages (and a virtual node). Encoder and gate have the backbone's settings, dropout and residuals
    included, and all B² pairs go through the head at once. Predictions rest on :math:`f(h^r)`.
    """

    name = "grea"
    family = "augmentation"
    citation = "Liu et al., KDD 2022"
    learns_augmentation = True
    space = {"gamma": (0.1, 0.2, 0.4, 0.6, 0.8), "readout": ("sum", "mean")}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GREASettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.gate = Gate(replace(backbone, layers=self.settings.gate_layers), schema)
        pool = self.settings.readout
        self.classifier = GraphNet(backbone if pool == "backbone" else replace(backbone, pool=pool), schema)
        self.mask_depth = backbone.layers

    def phases(self) -> list[Phase]:
        """One epoch of each period for the gate, the others for encoder and predictor."""
        lr, period = self.settings.lr, self.settings.period
        return [
            Phase("gate", (self.gate,), self.gate_loss, lr, when=lambda progress: progress.epoch % period == 0),
            Phase("predictor", (self.classifier,), self.loss, lr, when=lambda progress: progress.epoch % period != 0),
        ]

    def gate_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risks with the environment removed and replaced, and the penalty on the rationale's size."""
        gates = self.gate(batch)
        return self.augmented_risks(batch, gates) | {"size": self.settings.size * self.size_penalty(gates, batch)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risks with the environment removed and replaced."""
        return self.augmented_risks(batch, self.gate(batch))

    def augmented_risks(self, batch: GraphBatch, gates: Tensor) -> Terms:
        """The risk of rationales alone, and of every rationale in every environment."""
        head = self.classifier.head
        rationale, environment = self.split(batch, gates)
        sums, pairs = all_pairs(rationale, environment, batch)
        # Removal comes last: it has the largest weight in batch norm's averages, and inference reads rationales.
        replacement = self.settings.replacement * self.risk(head(sums, pairs), pairs)
        removal = self.settings.removal * self.risk(head(rationale, batch), batch)
        return {"removal": removal, "replacement": replacement}

    def split(self, batch: GraphBatch, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings of rationales and environments `[B, d]`; those of sums and means add up to the graphs'."""
        nodes = self.classifier.encoder(batch)
        rationale = self.classifier.add_descriptors(self.pool(nodes, gates, batch), batch)
        return rationale, self.pool(nodes, 1 - gates, batch)

    def pool(self, nodes: Tensor, gates: Tensor, batch: GraphBatch) -> Tensor:
        """Embeddings of gated nodes `[B, d]`."""
        readout = self.classifier.readout
        if self.settings.readout == "backbone":
            embeddings: Tensor = readout(nodes, batch, gates, masked=True)
            return embeddings
        pool = batch.mean_nodes if self.settings.readout == "mean" else batch.sum_nodes
        return readout.scale(pool(gates[:, None] * nodes))

    def size_penalty(self, gates: Tensor, batch: GraphBatch) -> Tensor:
        """Distance of each rationale's share of nodes from γ, mean over graphs."""
        return batch.mean_graphs((batch.mean_nodes(gates) - self.settings.gamma).abs())

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the rationales."""
        return self.split(batch, self.gate(batch))[0]

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The gate, an edge's weight the product of its ends', and its complement."""
        gates = self.gate(batch)
        edges = batch.at_source(gates) * batch.at_target(gates)
        stable = Mask(gates, edges).symmetric(batch)
        return {"stable": stable, "environment": stable.complement()}

    def augment(self, batch: GraphBatch) -> GraphEmbeddings:
        """Each rationale in the environment of another graph."""
        rationale, environment = self.split(batch, self.gate(batch))
        return GraphEmbeddings(rationale + environment[permutation(batch, self.random)], batch.y)

    def unaugmented(self, batch: GraphBatch) -> GraphEmbeddings:
        """Each rationale in its own environment."""
        return GraphEmbeddings(self.classifier.embed(batch), batch.y)
