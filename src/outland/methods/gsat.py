"""Graph stochastic attention: every edge is kept at random, and certainty about it is penalised."""

from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.bernoulli import concrete
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, Dropout, GraphNet, Mask
from outland.nn.layers import pair_norm
from outland.ops import segment_norm
from outland.settings import Fraction, NonNegative, PositiveInt, settings

Over = Literal["edge", "node"]
Probability = Annotated[float, Field(ge=0.01, le=0.99)]


@settings("method")
class GSATSettings(MethodSettings):
    """Hyper-parameters of GSAT.

    Args:
        bottleneck: c, weight of the divergence from Bernoulli(r).
        final_r: r in the end.
        first_r: r in the first epochs.
        step_r: by how much r falls every `interval` epochs.
        interval: epochs between two values of r.
        over: attention over each `edge`, or over each `node`, where the product of two weighs the edge between them.
        temperature: τ of the relaxed Bernoulli draws.
        dropout: inside the attention network.
        divergence: of the `sample` α, as the authors' code has it, whose expectation is not 0 at p = r; or of the
            `probability` p itself, as the paper's bound has it.
        symmetric: both directions of an edge share their mean weight; without it, each keeps its own, which is
            what early versions of the code, and those derived from them, did by mistake.
    """

    bottleneck: NonNegative = 1.0
    final_r: Probability = 0.7
    first_r: Probability = 0.9
    step_r: Fraction = 0.1
    interval: PositiveInt = 10
    over: Over = "edge"
    temperature: Annotated[float, Field(ge=1e-3)] = 1.0
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.5
    divergence: Literal["sample", "probability"] = "sample"
    symmetric: bool = True

    def r(self, progress: Progress) -> float:
        """The r of this epoch: down by `step_r` every `interval` epochs, never below `final_r`."""
        return max(self.final_r, self.first_r - self.step_r * (progress.epoch // self.interval))


class GSAT(Method[GSATSettings]):
    r"""Interpretable and Generalizable Graph Learning via Stochastic Attention Mechanism (Miao et al., ICML 2022).

    One GNN reads the graph twice: first whole, to score its edges z (or nodes), then with every message weighed by
    α ~ Bernoulli(σ(z)), relaxed and drawn anew in each step, σ(z) at inference.

    .. math:: \min \hat R(f(g; \alpha)) + c\,\overline{\alpha\log\frac{\alpha}{r}
              + (1-\alpha)\log\frac{1-\alpha}{1-r}}, \quad
              \alpha = \sigma\Big(\frac{z + \log u - \log(1-u)}{\tau}\Big), \quad u \sim U(0, 1)

    The mean is over all edges (nodes) of the batch, each direction with its own draw. r falls by steps; the authors
    take checkpoints only once it has reached its final value. Weights act on messages alone: a node's own state stays,
    and messages through a virtual node are not weighed.
    """

    name = "gsat"
    family = "graph"
    citation = "Miao et al., ICML 2022"
    presets = {
        "spurious-motif": lambda: GSATSettings(lr=3e-3),
        "mnist": lambda: GSATSettings(over="node", interval=30),
        "molecules": lambda: GSATSettings(over="node", interval=20),
    }
    space = {"final_r": (0.5, 0.7), "interval": (10, 20), "bottleneck": (0.1, 1.0)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GSATSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)
        self.attention = AttentionScore(backbone.width, self.settings.over, self.settings.dropout)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss under the drawn weights α, and their divergence from Bernoulli(r)."""
        settings = self.settings
        states, score = self.scores(batch)
        alpha = concrete(score, settings.temperature, self.random)
        probability = alpha if settings.divergence == "sample" else score.sigmoid()
        r = progress.scalar(settings.r)
        real = batch.real_edges if settings.over == "edge" else batch.real_nodes
        return {
            "risk": self.risk(self.classifier(batch, self.weigh(alpha, batch), states), batch),
            "divergence": settings.bottleneck * mean_over(bernoulli_kl(probability, r), real),
        }

    def readout(self, batch: GraphBatch) -> Tensor:
        """Graph embeddings with every edge weighed by its probability."""
        states, score = self.scores(batch)
        return self.classifier.embed(batch, self.weigh(score.sigmoid(), batch), states)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The probabilities; over edges, no node is masked."""
        alpha = self.scores(batch)[1].sigmoid()
        mask = self.weigh(alpha, batch).symmetric(batch)
        return {"stable": mask if self.settings.over == "edge" else Mask(alpha, mask.edge)}

    def weigh(self, alpha: Tensor, batch: GraphBatch) -> Mask:
        """Edge weights from α on edges or nodes; node inputs keep weight 1."""
        if self.settings.over == "node":
            edge = batch.at_source(alpha) * batch.at_target(alpha)
        else:
            edge = (alpha + batch.reversed(alpha)) / 2 if self.settings.symmetric else alpha
        return Mask.on_edges(edge, batch)

    def scores(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The first pass: node vectors that enter the network, and the scores z of edges or nodes."""
        states = self.classifier.encoder.embed(batch)
        score: Tensor = self.attention(self.classifier.encoder(batch, states=states), batch)
        return states, score


class AttentionScore(nn.Module):
    """One score an edge, from `[h_u, h_v]`, or a node, from `h`: two hidden layers, normalised within each graph.

    Widths are 2d, 4d, d, 1 over edges and d, 2d, d, 1 over nodes, d the `width`.
    """

    def __init__(self, width: int, over: Over, dropout: float) -> None:
        super().__init__()
        self.over: Over = over
        inputs = 2 * width if over == "edge" else width
        # The norm subtracts any constant, so the layers before it have none.
        self.first = nn.Linear(inputs, 2 * inputs, bias=False)
        self.second = nn.Linear(2 * inputs, width, bias=False)
        self.last = nn.Linear(width, 1)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Scores `[E]` or `[N]`."""
        if self.over == "edge":
            segments, hidden = batch.edge_segments, pair_norm(self.first, h, batch, True, self.dropout.draws())
        else:
            segments = batch.node_segments
            hidden = segment_norm(self.first(h), segments, True, self.dropout.draws())
        hidden = segment_norm(self.second(hidden), segments, True, self.dropout.draws())
        score: Tensor = self.last(hidden).squeeze(1)
        return score


def bernoulli_kl(alpha: Tensor, r: float | Tensor, eps: float = 1e-6) -> Tensor:
    r"""Divergence of Bernoulli(α) from Bernoulli(r), for each entry.

    .. math:: \alpha\log\frac{\alpha}{r} + (1-\alpha)\log\frac{1-\alpha}{1-r}
    """
    return alpha * (alpha / r + eps).log() + (1 - alpha) * ((1 - alpha) / (1 - r) + eps).log()
