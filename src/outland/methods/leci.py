"""LECI: a causal part that does not reveal the environment, and a rest that does not reveal the label."""

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.gsat import AttentionScore
from outland.methods.parts.bernoulli import concrete
from outland.methods.parts.risk import mean_over, mean_risk
from outland.nn import BackboneSettings, Dropout, GraphNet, Mask, build_encoder
from outland.nn.layers import BatchNorm, FeatureEncoder, linear_before, linear_norm, pair_linear
from outland.settings import Fraction, NonNegative, PositiveInt, settings

Temperature = Annotated[float, Field(ge=1e-3)]
Probability = Annotated[float, Field(ge=0.01, le=0.99)]


@settings("method")
class LECISettings(MethodSettings):
    """Hyper-parameters of LECI.

    Args:
        label: λ_L, how much the rest of the graph must not reveal the label; 0 has no such adversary.
        environment: λ_E, how much the causal part must not reveal the environment; 0 has no such adversary.
        features: λ_F, how much filtered node features must not reveal the environment; 0 has no filter.
        divergence: c, weight of the divergence of the edge weights from Bernoulli(r).
        first_temperature, last_temperature: of the drawn weights, in the first epoch and, falling evenly, at the end.
        first_r, step_r, final_r: r at first, by how much it falls every `interval` epochs, and where it ends.
        interval: epochs between two values of r.
        norm: inside the network that scores edges, over all edges of the `batch` or of each graph (`instance`).
        dropout: inside the network that scores edges.
        symmetric: both directions of an edge share their mean weight; the code means to and does not.
        barred: share of the epochs, from the start, that are never selected.
    """

    label: NonNegative = 10.0
    environment: NonNegative = 10.0
    features: NonNegative = 0.0
    divergence: NonNegative = 0.0
    first_temperature: Temperature = 1.0
    last_temperature: Temperature = 1.0
    first_r: Probability = 0.9
    step_r: Fraction = 0.1
    final_r: Probability = 0.5
    interval: PositiveInt = 30
    norm: Literal["batch", "instance"] = "batch"
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.5
    symmetric: bool = True
    barred: Annotated[float, Field(ge=0, le=0.99)] = 0.25

    def temperature(self, progress: Progress) -> float:
        """The temperature of this epoch."""
        share = progress.epoch / progress.epochs
        return self.first_temperature + (self.last_temperature - self.first_temperature) * share

    def r(self, progress: Progress) -> float:
        """The r of this epoch: down by `step_r` every `interval` epochs, never below `final_r`."""
        return max(self.final_r, self.first_r - self.step_r * (progress.epoch // self.interval))


def ramp(progress: Progress) -> float:
    r"""How far the adversaries' pull has grown, :math:`2 / (1 + e^{-10t}) - 1` at the middle t of this epoch."""
    return math.tanh(5 * (progress.epoch + 0.5) / progress.epochs)


class LECI(Method[LECISettings]):
    r"""Joint Learning of Label and Environment Causal Independence (Gui et al., NeurIPS 2023).

    .. math:: \min \hat R(f(g \odot a)) + \hat R(f_L(g \odot (1 - \mathcal R_{\lambda_L \rho}(a))))
              + \mathrm{CE}(f_E(g \odot \mathcal R_{\lambda_E \rho}(a)), e), \quad
              \rho = \frac{2}{1 + e^{-10t}} - 1

    :math:`\mathcal R_c` passes values on and multiplies gradients by -c, so that the adversaries f_L and f_E descend
    their own losses while the edge weights a are drawn away from what these learn. Weights are relaxed Bernoulli draws
    as in GSAT, σ(z) at inference; node inputs keep weight 1. With λ_F a filter of node features, which all networks
    then read, is trained against a discriminator of environments in the same way. Three networks and the one that
    scores edges share nothing. With a virtual node (`backbone.virtual_node`), as the authors have it on Motif-size,
    CMNIST and HIV, f_E sees the whole graph past the edge weights, so that they cannot hide the environment.
    """

    name = "leci"
    family = "graph"
    citation = "Gui et al., NeurIPS 2023"
    needs_environments = True
    space = {"label": (0.1, 1.0, 10.0), "environment": (0.01, 0.1, 1.0, 10.0), "features": (0.0, 0.1, 1.0)}
    training_only = ("label_adversary", "environment_adversary", "discriminator")

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: LECISettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        settings, width = self.settings, backbone.width
        self.environments = Task("multiclass", schema.environments, "accuracy")
        inputs = width if settings.features else None
        self.classifier = GraphNet(backbone, schema, inputs)
        self.selector = build_encoder(backbone, schema.node if inputs is None else inputs, schema.edge)
        self.score = scorer(width, settings)
        self.label_adversary = GraphNet(backbone, schema, inputs) if settings.label else None
        guess = replace(schema, task=self.environments, descriptors=0)
        self.environment_adversary = GraphNet(backbone, guess, inputs) if settings.environment else None
        self.filter = FeatureFilter(schema, width) if settings.features else None
        self.discriminator = Discriminator(width, schema.environments) if settings.features else None

    def barred_epochs(self, epochs: int) -> int:
        """The share of the epochs that the settings bar."""
        return int(self.settings.barred * epochs + 1e-9)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk of the causal part, the losses of the adversaries, and the divergence of the edge weights."""
        settings, states = self.settings, self.states(batch)
        score = self.edge_scores(batch, states)
        alpha = concrete(score, progress.scalar(settings.temperature), self.random)
        edge = self.weigh(alpha, batch)
        terms = {"risk": self.risk(self.classifier(batch, Mask.on_edges(edge, batch), states), batch)}
        if self.label_adversary is not None:
            rest = 1 - self.reverse(edge, settings.label, progress)
            logits = self.label_adversary(batch, Mask.on_edges(rest, batch), states)
            terms["label_adversary"] = self.risk(logits, batch)
        if self.environment_adversary is not None:
            causal = self.reverse(edge, settings.environment, progress)
            logits = self.environment_adversary(batch, Mask.on_edges(causal, batch), states)
            terms["environment_adversary"] = self.environment_risk(logits, batch)
        if self.discriminator is not None and states is not None:
            logits = self.discriminator(self.reverse(states, settings.features, progress), batch)
            terms["filter"] = self.environment_risk(logits, batch)
        if settings.divergence:
            divergence = mean_over(bernoulli_kl(alpha, progress.scalar(settings.r)), batch.real_edges)
            terms["divergence"] = settings.divergence * divergence
        return terms

    def reverse(self, values: Tensor, strength: float, progress: Progress) -> Tensor:
        """The values, with gradients multiplied by minus the strength, as far as it has grown."""
        factor = torch.as_tensor(progress.scalar(ramp), dtype=values.dtype, device=values.device)
        reversed_: Tensor = ReverseGradient.apply(values, strength * factor)  # type: ignore[no-untyped-call]
        return reversed_

    def environment_risk(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Mean cross-entropy of the environments."""
        assert batch.environment is not None
        return mean_risk(logits, batch.replace(y=batch.environment.long()), self.environments)

    def states(self, batch: GraphBatch) -> Tensor | None:
        """Filtered node features that all networks read `[N, d]`; None without a filter."""
        return None if self.filter is None else self.filter(batch)

    def edge_scores(self, batch: GraphBatch, states: Tensor | None) -> Tensor:
        """Log-odds z of the edges `[E]`."""
        score: Tensor = self.score(self.selector(batch, states=states), batch)
        return score

    def weigh(self, alpha: Tensor, batch: GraphBatch) -> Tensor:
        """Edge weights from draws or probabilities."""
        return (alpha + batch.reversed(alpha)) / 2 if self.settings.symmetric else alpha

    def readout(self, batch: GraphBatch) -> Tensor:
        """Graph embeddings with every edge weighed by its probability."""
        states = self.states(batch)
        edge = self.weigh(self.edge_scores(batch, states).sigmoid(), batch)
        return self.classifier.embed(batch, Mask.on_edges(edge, batch), states)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The probabilities of the edges; no node is masked."""
        alpha = self.edge_scores(batch, self.states(batch)).sigmoid()
        return {"stable": Mask.on_edges(alpha, batch).symmetric(batch)}


class ReverseGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by minus a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: Tensor) -> Tensor:
        """The values."""
        ctx.save_for_backward(factor)
        return values.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient, turned round."""
        return -ctx.saved_tensors[0] * grad, None


def bernoulli_kl(alpha: Tensor, r: float | Tensor, eps: float = 1e-6) -> Tensor:
    """Divergence of Bernoulli(α) from Bernoulli(r), for each entry, with ε added to every probability."""
    kept = alpha * ((alpha + eps) / (r + eps)).log()
    return kept + (1 - alpha) * ((1 - alpha + eps) / (1 - r + eps)).log()


def scorer(width: int, settings: LECISettings) -> nn.Module:
    """The network that scores edges by `[h_u, h_v]`: widths 2d, 4d, d, 1."""
    if settings.norm == "instance":
        return AttentionScore(width, "edge", settings.dropout)
    return EdgeScore(width, settings.dropout)


class EdgeScore(nn.Module):
    """Two hidden layers on both ends of an edge, with batch norm over the real edges."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        # The norm subtracts any constant, so the layers before it train none.
        self.first, self.first_norm = nn.Linear(2 * width, 4 * width, bias=False), BatchNorm(4 * width)
        self.second, self.second_norm = linear_before(True, 4 * width, width), BatchNorm(width)
        self.last = nn.Linear(width, 1)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Scores `[E]`."""
        ends = pair_linear(self.first, h, batch)
        hidden = self.first_norm(ends, batch.edge_mask, relu=True, dropout=self.dropout)
        hidden = linear_norm(self.second, self.second_norm, hidden, batch.edge_mask, relu=True, dropout=self.dropout)
        score: Tensor = self.last(hidden).squeeze(1)
        return score


class FeatureFilter(nn.Module):
    """Node features to vectors `[N, d]` by three layers with batch norm, of widths d, 2d and d."""

    def __init__(self, schema: Schema, width: int) -> None:
        super().__init__()
        self.features = FeatureEncoder(schema.node, width, bias=False)
        self.first_norm, self.second = BatchNorm(width), linear_before(True, width, 2 * width)
        self.second_norm, self.last = BatchNorm(2 * width), nn.Linear(2 * width, width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """The filtered features."""
        hidden = self.first_norm(self.features(batch.x), batch.node_mask, relu=True)
        hidden = linear_norm(self.second, self.second_norm, hidden, batch.node_mask, relu=True)
        filtered: Tensor = self.last(hidden)
        return filtered


class Discriminator(nn.Module):
    """Guesses a graph's environment from its node features: two layers with batch norm, the mean, a linear layer."""

    def __init__(self, width: int, environments: int) -> None:
        super().__init__()
        self.first, self.norm = linear_before(True, width, 2 * width), BatchNorm(2 * width)
        self.second, self.last = nn.Linear(2 * width, width), nn.Linear(width, environments)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Logits of the environments `[B, S]`."""
        hidden = self.second(linear_norm(self.first, self.norm, x, batch.node_mask, relu=True))
        logits: Tensor = self.last(batch.mean_nodes(hidden))
        return logits
