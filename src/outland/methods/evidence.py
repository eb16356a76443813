"""Evidence: gated nodes and edges, a readout by maximum, and training on whole and on randomly thinned graphs."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.cal import uniform_divergence
from outland.methods.parts.ranking import both_directions
from outland.methods.parts.removal import removal_losses
from outland.methods.parts.risk import label_losses, partial_risk
from outland.nn import BackboneSettings, GraphNet, Mask
from outland.nn.convs import GCN, LayerInputs
from outland.nn.layers import norm, pair_linear
from outland.settings import Fraction, NonNegative, settings


@settings("method")
class EvidenceSettings(MethodSettings):
    """Hyper-parameters of Evidence.

    Args:
        whole: share of the graphs of a step that keep all edges.
        drop: δ; edges of each other graph are dropped at a rate drawn uniformly between 0 and this.
        bare: share of the graphs that lose edges at a rate between a half and 1; their target is uniform.
        absence: weight of the divergence of a bare graph's prediction from the uniform one.
        gate: whether nodes and edges are gated between the encoder and the readout.
        layer: whether a GCN layer of gated edges follows the gate.
        readout: `max`, or another; `backbone` has that of all methods.
    """

    whole: Fraction = 0.5
    drop: Fraction = 0.5
    bare: Fraction = 0.25
    absence: NonNegative = 1.0
    gate: bool = True
    layer: bool = True
    readout: Literal["backbone", "mean", "max", "softmax", "attention"] = "max"


class Evidence(Method[EvidenceSettings]):
    r"""GNN with gated nodes and edges and a maximum as readout, trained on whole and on randomly thinned graphs.

    Between encoder and readout nodes and edges have a gate, :math:`g = \sigma(w^\top h)`, and the readout is a maximum
    over the nodes of one layer more, so that a prediction rests on few of them, however large the graph:

    .. math:: z = \max_v\, \mathrm{GCN}(\mathrm{BN}(g_v h_v),\, g_{uv})_v, \qquad
              \min_\theta\; (1 - b)\,\mathbb{E}_{w \sim \rho}\,[\ell(f(G \odot w), y)]
              + b\,\lambda\,\mathbb{E}_{w \sim \bar\rho}\,[\mathrm{KL}(U \,\|\, f(G \odot w))]

    w drops edges at random: ρ of half the graphs none, of the others at a rate between 0 and δ, drawn for each graph,
    so that the part that decides the label is met in surroundings that no training graph has; :math:`\bar\rho` at a
    rate between a half and 1, which that part rarely survives. These graphs, a share b, are to predict the uniform
    distribution, so that no class is what remains when nothing is found. Predictions are of whole graphs. The stable
    mask is what a prediction loses when a node loses its edges, or when an edge is removed: occlusion, on graphs like
    those of training.
    """

    name = "evidence"
    family = "ours"
    citation = "outland"
    mask_graphs = 64
    space = {"drop": (0.3, 0.5), "whole": (0.25, 0.5, 0.75), "bare": (0.0, 0.25)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: EvidenceSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        pool, width = self.settings.readout, backbone.width
        self.classifier = GraphNet(backbone if pool == "backbone" else replace(backbone, pool=pool), schema)
        if self.settings.gate:
            self.node_gate, self.edge_gate = nn.Linear(width, 1), nn.Linear(2 * width, 1)
        if self.settings.layer:
            self.norm, self.layer = norm(width, backbone.batch_norm), GCN(width, backbone, 1)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk on whole and thinned graphs, and the divergence of the bare ones' predictions from uniform."""
        rate, bare = self.draw_rates(batch)
        logits = self.classifier.head(self.readout(batch, self.thin(batch, rate)), batch)
        divergence = torch.where(bare, uniform_divergence(logits, batch, self.schema.task), 0)
        return {
            "risk": partial_risk(logits, batch, self.schema.task, ~bare),
            "absence": self.settings.absence * batch.mean_graphs(divergence),
        }

    def draw_rates(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The rate at which each graph loses edges `[B + 1]`, padding last; and which graphs are left bare `[B]`.

        A graph that has no edges is never bare: it has lost nothing.
        """
        settings, shape = self.settings, (3, batch.num_graphs + 1)
        uniform, whole, bare = torch.rand(shape, generator=self.random, device=batch.x.device)
        rate = torch.where(whole < settings.whole, 0, settings.drop * uniform)
        has_edges = torch.cat([batch.edge_count, batch.edge_count.new_zeros(1)]) > 0
        is_bare = (bare < settings.bare) & has_edges
        return torch.where(is_bare, (1 + uniform) / 2, rate), is_bare[:-1]

    def thin(self, batch: GraphBatch, rate: Tensor) -> Tensor:
        """Weight 0 for edges dropped at the rates of their graphs, both directions together; else 1 `[E]`."""
        uniform = torch.rand(batch.num_edges, generator=self.random, device=batch.x.device)
        remains = both_directions(uniform, batch) >= rate[batch.edge_batch]
        return remains.to(self.classifier.head.linear.weight.dtype)

    def readout(self, batch: GraphBatch, edge: Tensor | None = None) -> Tensor:
        """Embeddings of graphs whose edges have these weights."""
        h, gate = self.classifier.encoder(batch, None, edge), None
        gated_edge = edge
        if self.settings.gate:
            gate = self.node_gate(h).squeeze(1).sigmoid()
            edge_gate = pair_linear(self.edge_gate, h, batch).squeeze(1).sigmoid()
            h, gated_edge = h * gate[:, None], edge_gate if edge is None else edge_gate * edge
        if self.settings.layer:
            h = self.layer(self.norm(h, batch.node_mask), LayerInputs(batch, gated_edge, None), h).relu()
        z: Tensor = self.classifier.readout(h, batch, gate)
        return z if self.classifier.descriptors is None else z + self.classifier.descriptors(batch)

    def augment(self, batch: GraphBatch) -> Mask:
        """Whole and thinned graphs, those left bare included."""
        return Mask.on_edges(self.thin(batch, self.draw_rates(batch)[0]), batch)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """Share of the predicted class's probability that is lost when a node loses its edges, or an edge is removed.

        Where two edges can stand in for each other the prediction misses neither alone, so that an edge also has the
        lesser loss of its two ends. For numbers it is 1 - exp(-d²), d the change of the prediction.
        """
        logits = self(batch)
        predicted = batch.replace(y=self.predicted(logits))

        def loss(edge: Tensor | None) -> Tensor:
            logits = self.classifier.head(self.readout(batch, edge), batch)
            return label_losses(logits, predicted, self.schema.task)[0].sum(1)

        node, edge = (rise.clamp(min=0) for rise in removal_losses(loss, batch))
        edge = edge + torch.minimum(*node[batch.edge_index])
        return {"stable": Mask(1 - (-node).exp(), 1 - (-edge).exp())}

    def predicted(self, logits: Tensor) -> Tensor:
        """Predicted labels `[B]` or `[B, T]`, in the form of `batch.y`."""
        match self.schema.task.kind:
            case "multiclass":
                return logits.argmax(1)
            case "binary":
                return (logits > 0).to(logits.dtype)
        return logits
