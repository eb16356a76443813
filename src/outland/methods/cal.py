"""Causal attention learning: what causes the label must do so in the company of any other graph's trivia."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.attention import Branch, TwoWayAttention
from outland.methods.parts.ranking import permutation
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, Encoder, Mask
from outland.nn.norm import norm
from outland.settings import check_ranges


@dataclass(frozen=True)
class CALSettings(MethodSettings):
    """Hyper-parameters of CAL.

    Args:
        uniform: λ₁, weight of the trivial part's distance from knowing nothing.
        mixed: λ₂, weight of the loss on a causal part with another graph's trivial part; λ₁ if not given.
        causal: weight of the loss on the causal part alone.
        merge: `add` the two embeddings, or `concat`.
        pool: readout of both parts: the `backbone`'s, so that all methods read alike, or the authors' `sum`.
    """

    uniform: float = 0.5
    mixed: float | None = None
    causal: float = 1.0
    merge: Literal["add", "concat"] = "add"
    pool: Literal["backbone", "sum"] = "backbone"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", uniform=(0, None), mixed=(0, None), causal=(0, None))


class BranchHead(nn.Module):
    """Embeddings to logits: batch norm, linear, ReLU, batch norm, linear."""

    def __init__(self, inputs: int, backbone: BackboneSettings, outputs: int) -> None:
        super().__init__()
        self.first_norm, self.first = norm(inputs, backbone.batch_norm), nn.Linear(inputs, backbone.width)
        self.last_norm, self.last = norm(backbone.width, backbone.batch_norm), nn.Linear(backbone.width, outputs)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Logits `[B, outputs]`."""
        hidden = self.first(self.first_norm(h, batch.graph_mask)).relu()
        logits: Tensor = self.last(self.last_norm(hidden, batch.graph_mask))
        return logits


class CAL(Method):
    r"""Causal Attention for Interpretable and Generalizable Graph Classification (Sui et al., KDD 2022).

    Attention shares every node and edge out between a causal and a trivial part, each with a GCN layer and a head of
    its own, whatever the backbone's are. The trivial part shall know nothing of the label, and the causal part shall
    suffice beside the trivial part of another graph, π a random order of the batch.

    .. math:: \min \hat R(f_c(h_c)) + \lambda_1\,\mathrm{KL}(U \,\|\, f_t(h_t)) + \lambda_2\,\hat R(f_m(h_c + h_t^\pi))

    Predictions rest on the causal part. The layers have self-loops, so a node keeps its own state where its edges get
    no attention. Nothing keeps the causal part small; its share of the nodes is watched.
    """

    name: ClassVar[str] = "cal"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Sui et al., KDD 2022"
    Settings: ClassVar[type[MethodSettings]] = CALSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"uniform": (0.1, 0.3, 0.5, 1.0), "merge": ("add", "concat")}
    training_only: ClassVar[tuple[str, ...]] = ("trivial", "trivial_head", "mixed_head")

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: CALSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: CALSettings = self.settings
        pool = backbone.pool if chosen.pool == "backbone" else chosen.pool
        width, outputs = backbone.width, schema.task.outputs
        self.encoder = Encoder(backbone, schema.node, schema.edge)
        self.attention = TwoWayAttention(width)
        self.causal, self.trivial = Branch(backbone, pool), Branch(backbone, pool)
        self.causal_head = BranchHead(width, backbone, outputs)
        self.trivial_head = BranchHead(width, backbone, outputs)
        self.stable_share = torch.zeros(())
        self.mixed_head = BranchHead(width if chosen.merge == "add" else 2 * width, backbone, outputs)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Right from the causal part, nothing known from the trivial one, right from causal and foreign trivial."""
        chosen: CALSettings = self.settings
        causal, trivial = self.split(batch)
        foreign = trivial.index_select(0, permutation(batch, self.random))
        knowledge = uniform_divergence(self.trivial_head(trivial, batch), batch, self.schema.task)
        weight = chosen.uniform if chosen.mixed is None else chosen.mixed
        return {
            "causal": chosen.causal * self.risk(self.causal_head(causal, batch), batch),
            "uniform": chosen.uniform * batch.mean_graphs(knowledge),
            "mixed": weight * self.risk(self.mixed_logits(causal, foreign, batch), batch),
        }

    def split(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Embeddings of the causal and the trivial part."""
        h = self.encoder(batch)
        trivial, causal = self.attention(h, batch)
        self.stable_share = mean_over(causal.node.detach(), batch.real_nodes)
        return self.causal(h, causal, batch), self.trivial(h, trivial, batch)

    def watch(self) -> Terms:
        """How much of the nodes the causal part has."""
        return {"stable_share": self.stable_share}

    def mixed_logits(self, causal: Tensor, trivial: Tensor, batch: GraphBatch) -> Tensor:
        """Logits from both parts; labels follow the causal one."""
        both = causal + trivial if self.settings.merge == "add" else torch.cat([causal, trivial], dim=1)
        logits: Tensor = self.mixed_head(both, batch)
        return logits

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits from the causal part."""
        h = self.encoder(batch)
        _, mask = self.attention(h, batch)
        logits: Tensor = self.causal_head(self.causal(h, mask, batch), batch)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The attention of both parts, symmetric."""
        trivial, causal = self.attention(self.encoder(batch), batch)
        return {"stable": causal.symmetric(batch), "environment": trivial.symmetric(batch)}


def uniform_divergence(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    r"""How far each graph's prediction is from knowing nothing `[B]`, mean over labels.

    KL(U ‖ p) over the classes, or over yes and no. A number has no uniform law: there knowing nothing is the batch's
    mean label, :math:`\mathrm{KL} = \tfrac12 (o - \bar y)^2` between normal laws of variance 1.
    """
    if task.kind == "multiclass":
        return -logits.log_softmax(1).mean(1) - math.log(logits.shape[1])
    if task.kind == "binary":
        return (functional.softplus(logits) + functional.softplus(-logits)).mean(1) / 2 - math.log(2)
    y = batch.y.to(logits.dtype).reshape_as(logits)
    known = ~y.isnan() & batch.real_graphs[:, None]
    mean = torch.where(known, y, 0).sum(0) / known.sum(0).clamp(min=1)
    return (logits - mean).square().mean(1) / 2
