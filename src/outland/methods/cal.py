"""Causal attention learning: the causal part predicts the label, beside any other graph's trivial part too."""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.pairing import permutation
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, Mask, Readout, build_encoder
from outland.nn.convs import GCN, LayerInputs
from outland.nn.descriptors import descriptor_input
from outland.nn.layers import norm, pair_linear
from outland.settings import NonNegative, settings


@settings("method")
class CALSettings(MethodSettings):
    """Hyper-parameters of CAL.

    Args:
        uniform: λ₁, weight of the divergence of the trivial part's prediction from the uniform one.
        mixed: λ₂, weight of the loss on a causal part with another graph's trivial part; λ₁ if not given.
        causal: weight of the loss on the causal part alone.
        merge: `add` the two embeddings, or `concat`.
        pool: readout of both parts: the `backbone`'s, as in all methods, or the authors' `sum`.
    """

    uniform: NonNegative = 0.5
    mixed: NonNegative | None = None
    causal: NonNegative = 1.0
    merge: Literal["add", "concat"] = "add"
    pool: Literal["backbone", "sum"] = "backbone"


class TwoWayAttention(nn.Module):
    r"""Divides every node and edge between two parts: softmax of two linear scores.

    .. math:: A^n_u = \mathrm{softmax}(W_n h_u + b_n), \quad A^e_{uv} = \mathrm{softmax}(W_e [h_u, h_v] + b_e)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.node = nn.Linear(width, 2)
        self.edge = nn.Linear(2 * width, 2)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Mask, Mask]:
        """The masks of both parts, which sum to 1 everywhere; edges by direction."""
        node = self.node(h).softmax(1)
        edge = pair_linear(self.edge, h, batch).softmax(1)
        return Mask(node[:, 0], edge[:, 0]), Mask(node[:, 1], edge[:, 1])


class Branch(nn.Module):
    """One part of the graph to one embedding: masked node states, batch norm, a weighted GCN layer, ReLU, readout.

    `descriptors` maps those of the whole graph, which are added.
    """

    def __init__(self, backbone: BackboneSettings, descriptors: nn.Module | None = None) -> None:
        super().__init__()
        self.readout, self.descriptors = Readout(backbone), descriptors
        self.norm = norm(backbone.width, backbone.batch_norm)
        self.conv = GCN(backbone.width, backbone, 1)

    def forward(self, h: Tensor, mask: Mask, batch: GraphBatch) -> Tensor:
        """Embeddings `[B, d]`."""
        x = self.norm(h * mask.node[:, None], batch.node_mask)
        z = self.conv(x, LayerInputs(batch, mask.edge, None), x).relu()
        embeddings: Tensor = self.readout(z, batch, mask.node)
        return embeddings if self.descriptors is None else embeddings + self.descriptors(batch)


class BranchHead(nn.Module):
    """Embeddings to logits: batch norm, linear, ReLU, batch norm, linear."""

    def __init__(self, inputs: int, backbone: BackboneSettings, outputs: int) -> None:
        super().__init__()
        self.first_norm, self.first = norm(inputs, backbone.batch_norm), nn.Linear(inputs, backbone.width)
        self.last_norm, self.last = norm(backbone.width, backbone.batch_norm), nn.Linear(backbone.width, outputs)

    def hidden(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """What the last linear layer reads `[B, d]`."""
        hidden: Tensor = self.last_norm(self.first(self.first_norm(h, batch.graph_mask)).relu(), batch.graph_mask)
        return hidden

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Logits `[B, outputs]`."""
        logits: Tensor = self.last(self.hidden(h, batch))
        return logits


class CAL(Method[CALSettings]):
    r"""Causal Attention for Interpretable and Generalizable Graph Classification (Sui et al., KDD 2022).

    Attention divides every node and edge between a causal and a trivial part, each with a GCN layer and a head of its
    own, whatever the backbone's are. The trivial part is trained to predict the uniform distribution, and the causal
    part to predict the label beside the trivial part of another graph, π a random permutation of the batch.

    .. math:: \min \hat R(f_c(h_c)) + \lambda_1\,\mathrm{KL}(U \,\|\, f_t(h_t)) + \lambda_2\,\hat R(f_m(h_c + h_t^\pi))

    Predictions rest on the causal part. The layers have self-loops, so a node keeps its own state where its edges get
    no attention. Nothing keeps the causal part small; its share of the nodes is among the diagnostics.
    """

    name = "cal"
    family = "graph"
    citation = "Sui et al., KDD 2022"
    space = {"uniform": (0.1, 0.3, 0.5, 1.0), "merge": ("add", "concat")}
    training_only = ("trivial", "trivial_head", "mixed_head")

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: CALSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        branch = backbone if self.settings.pool == "backbone" else replace(backbone, pool=self.settings.pool)
        width, outputs = backbone.width, schema.task.outputs
        self.encoder = build_encoder(backbone, schema.node, schema.edge)
        self.attention = TwoWayAttention(width)
        self.causal, self.trivial = Branch(branch, descriptor_input(backbone, schema)), Branch(branch)
        self.causal_head = BranchHead(width, backbone, outputs)
        self.trivial_head = BranchHead(width, backbone, outputs)
        self.stable_share, self.mask_depth = torch.zeros(()), backbone.layers
        self.mixed_head = BranchHead(width if self.settings.merge == "add" else 2 * width, backbone, outputs)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risk of the causal part, divergence of the trivial one, risk of causal and permuted trivial parts."""
        settings = self.settings
        causal, trivial = self.split(batch)
        permuted = trivial.index_select(0, permutation(batch, self.random))
        divergence = uniform_divergence(self.trivial_head(trivial, batch), batch, self.schema.task)
        weight = settings.uniform if settings.mixed is None else settings.mixed
        both = causal + permuted if settings.merge == "add" else torch.cat([causal, permuted], dim=1)
        return {
            "causal": settings.causal * self.risk(self.causal_head(causal, batch), batch),
            "uniform": settings.uniform * batch.mean_graphs(divergence),
            "mixed": weight * self.risk(self.mixed_head(both, batch), batch),
        }

    def split(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Embeddings of the causal and the trivial part."""
        h = self.encoder(batch)
        trivial, causal = self.attention(h, batch)
        self.stable_share = mean_over(causal.node.detach(), batch.real_nodes)
        return self.causal(h, causal, batch), self.trivial(h, trivial, batch)

    def diagnostics(self) -> Terms:
        """The causal part's share of the nodes."""
        return {"stable_share": self.stable_share}

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the causal part."""
        h = self.encoder(batch)
        _, mask = self.attention(h, batch)
        causal: Tensor = self.causal(h, mask, batch)
        return causal

    def embed(self, batch: GraphBatch) -> Tensor:
        """What the last layer of the causal head reads."""
        return self.causal_head.hidden(self.readout(batch), batch)

    def to_logits(self, embeddings: Tensor) -> Tensor:
        """The last layer of the causal head."""
        logits: Tensor = self.causal_head.last(embeddings)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The attention of both parts, symmetric."""
        trivial, causal = self.attention(self.encoder(batch), batch)
        return {"stable": causal.symmetric(batch), "environment": trivial.symmetric(batch)}


def uniform_divergence(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    r"""Divergence of each graph's prediction from the uniform one `[B]`, mean over labels.

    KL(U ‖ p) over the classes, or over yes and no. Numbers have no uniform distribution: there it is the batch's mean
    label, :math:`\mathrm{KL} = \tfrac12 (o - \bar y)^2` between normal distributions of variance 1.
    """
    if task.kind == "multiclass":
        return -logits.log_softmax(1).mean(1) - math.log(logits.shape[1])
    if task.kind == "binary":
        return (functional.softplus(logits) + functional.softplus(-logits)).mean(1) / 2 - math.log(2)
    y = batch.y.to(logits.dtype).reshape_as(logits)
    known = ~y.isnan() & batch.real_graphs[:, None]
    mean = torch.where(known, y, 0).sum(0) / known.sum(0).clamp(min=1)
    return (logits - mean).square().mean(1) / 2
