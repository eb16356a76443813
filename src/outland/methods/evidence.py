"""Evidence: gated nodes and edges, inputs that show rings, a maximum, training on thinned and mixed graphs too."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.ranking import both_directions
from outland.methods.parts.removal import removal_losses
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings, ClosedWalks, GraphNet, Mask
from outland.nn.convs import GCN, LayerInputs
from outland.nn.layers import FeatureEncoder, norm, pair_linear
from outland.settings import Count, Fraction, settings


@settings("method")
class EvidenceSettings(MethodSettings):
    """Hyper-parameters of Evidence.

    Args:
        whole: share of the graphs of a step that keep all edges.
        drop: δ; edges of each other graph are dropped at a rate drawn uniformly between 0 and this.
        mix: share of the graphs whose node features, if these are real numbers, are mapped by a random matrix.
        walks: length of the longest closed walks that are counted at every node, 3 at least; 0 for none.
        gate: whether nodes and edges are gated between the encoder and the readout.
        layer: whether a GCN layer of gated edges follows the gate.
        readout: `max`, or another; `backbone` has that of all methods.
    """

    whole: Fraction = 0.5
    drop: Fraction = 0.5
    mix: Fraction = 0.5
    walks: Count = 6
    gate: bool = True
    layer: bool = True
    readout: Literal["backbone", "mean", "sum", "max", "softmax", "attention"] = "max"


class Evidence(Method[EvidenceSettings]):
    r"""GNN with gated nodes and edges and closed walks among its inputs, trained on whole and on altered graphs.

    Node inputs are the features x and the logarithms of the numbers c of closed walks that never turn back, which tell
    rings from chains. Between encoder and readout nodes and edges have a gate, :math:`g = \sigma(w^\top h)`, and the
    readout is a maximum over the nodes of one layer more, so that a prediction rests on few of them, however large the
    graph:

    .. math:: h = f(Ux + V \log(1 + c)), \qquad
              z = \max_v\, \mathrm{ReLU}\,\mathrm{GCN}(\mathrm{BN}(g_v h_v),\, g_{uv})_v, \qquad
              \min_\theta\; \mathbb{E}_{w,\, M}\, \ell(\hat y(G \odot w,\, xM),\, y)

    w drops the edges of half the graphs at a rate between 0 and δ, drawn for each, so that the part that decides the
    label is met in other surroundings, and a graph with some edges less is like those of training. M maps the features
    of a share of the graphs by a random matrix of norm √d, one for all nodes of a graph: what these have in common, as
    a colour, is no evidence. Predictions are of the graphs as they are. The stable mask is what a prediction loses when
    a node loses its edges, or when an edge is removed.
    """

    name = "evidence"
    family = "ours"
    citation = "outland"
    mask_graphs = 64
    space = {"drop": (0.2, 0.5), "whole": (0.25, 0.5, 0.75), "walks": (0, 6), "readout": ("backbone", "max")}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: EvidenceSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        pool, walks, width = self.settings.readout, self.settings.walks, backbone.width
        backbone = backbone if pool == "backbone" else replace(backbone, pool=pool)
        self.classifier = GraphNet(backbone, schema, width if walks else None)
        self.features = FeatureEncoder(schema.node, width) if walks else None
        self.walks = ClosedWalks(walks, width) if walks else None
        if self.settings.gate:
            self.node_gate, self.edge_gate = nn.Linear(width, 1), nn.Linear(2 * width, 1)
        if self.settings.layer:
            self.norm, self.layer = norm(width, backbone.batch_norm), GCN(width, backbone, 1)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk on graphs some of which are thinned and have their features mixed."""
        batch = batch.replace(x=self.mix(batch))
        logits = self.classifier.head(self.readout(batch, self.thin(batch, self.draw_rates(batch))), batch)
        return {"risk": self.risk(logits, batch)}

    def draw_rates(self, batch: GraphBatch) -> Tensor:
        """The rate at which each graph loses edges `[B + 1]`, padding last."""
        uniform, whole = torch.rand((2, batch.num_graphs + 1), generator=self.random, device=batch.x.device)
        return torch.where(whole < self.settings.whole, 0, self.settings.drop * uniform)

    def thin(self, batch: GraphBatch, rate: Tensor) -> Tensor:
        """Weight 0 for edges dropped at the rates of their graphs, both directions together; else 1 `[E]`."""
        uniform = torch.rand(batch.num_edges, generator=self.random, device=batch.x.device)
        remains = both_directions(uniform, batch) >= rate[batch.edge_batch]
        return remains.to(self.classifier.head.linear.weight.dtype)

    def mix(self, batch: GraphBatch) -> Tensor:
        """Node features `[N, F]`, those of a share of the graphs mapped by a random matrix; categories as they are."""
        x, graphs, width = batch.x, batch.num_graphs + 1, self.schema.node.width
        if not self.settings.mix or self.schema.node.vocabulary is not None:
            return x
        maps = torch.randn((graphs, width, width), generator=self.random, device=x.device, dtype=x.dtype)
        maps = maps * (width / maps.square().sum((1, 2), keepdim=True).clamp(min=1e-12)).sqrt()  # a draw may be all 0
        mixed = torch.rand(graphs, generator=self.random, device=x.device) < self.settings.mix
        mapped = torch.bmm(x[:, None], maps[batch.node_batch]).squeeze(1)
        return torch.where(mixed[batch.node_batch, None], mapped, x)

    def readout(self, batch: GraphBatch, edge: Tensor | None = None) -> Tensor:
        """Embeddings of graphs whose edges have these weights."""
        states, gate, gated_edge = None, None, edge
        if self.walks is not None and self.features is not None:
            states = self.features(batch.x) + self.walks(batch, edge)
        h = self.classifier.encoder(batch, None, edge, states)
        if self.settings.gate:
            gate = self.node_gate(h).squeeze(1).sigmoid()
            edge_gate = pair_linear(self.edge_gate, h, batch).squeeze(1).sigmoid()
            h, gated_edge = h * gate[:, None], edge_gate if edge is None else edge_gate * edge
        if self.settings.layer:
            h = self.layer(self.norm(h, batch.node_mask), LayerInputs(batch, gated_edge, None), h).relu()
        return self.classifier.add_descriptors(self.classifier.readout(h, batch, gate), batch)

    def augment(self, batch: GraphBatch) -> Mask:
        """Whole and thinned graphs; features are not mixed here, for a mask weighs them."""
        return Mask.on_edges(self.thin(batch, self.draw_rates(batch)), batch)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """Share of the predicted class's probability that is lost when a node loses its edges, or an edge is removed.

        Where two edges can stand in for each other the prediction misses neither alone, so that an edge also has the
        lesser loss of its two ends. For numbers it is 1 - exp(-d²), d the change of the prediction.
        """
        logits = self(batch)
        match self.schema.task.kind:
            case "multiclass":
                predicted = batch.replace(y=logits.argmax(1))
            case "binary":
                predicted = batch.replace(y=(logits > 0).to(logits.dtype))
            case _:
                predicted = batch.replace(y=logits)

        def loss(edge: Tensor | None) -> Tensor:
            logits = self.classifier.head(self.readout(batch, edge), batch)
            return label_losses(logits, predicted, self.schema.task)[0].sum(1)

        node, edge = (rise.clamp(min=0) for rise in removal_losses(loss, batch))
        edge = edge + torch.minimum(*node[batch.edge_index])
        return {"stable": Mask(1 - (-node).exp(), 1 - (-edge).exp())}
