"""iMoLD: encode and quantise first, then separate what is invariant, by a gate on every node and channel."""

from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Terms
from outland.methods.parts.pairing import permutation
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, Dropout, GraphNet, Head, Mask, build_encoder
from outland.nn.layers import linear_before, linear_norm, norm
from outland.settings import Count, Fraction, NonNegative, settings

_DEAD = 1e-2  # moving number of nodes below which a code counts as unused


@settings("method")
class IMoLDSettings(MethodSettings):
    """Hyper-parameters of iMoLD.

    Args:
        invariance: λ₁, weight of the agreement of an invariant embedding with its projection beside another's rest.
        gate: λ₂, weight of the distance of the gate's mean from γ.
        gamma: γ, share of nodes and channels that the gate should let through.
        codes: K, vectors in the codebook; 0 has none.
        commitment: weight of the distance of node states from their codes.
        decay: share of the old in the moving averages that codes are.
        revive: replace codes that no node has had for long by states of nodes, and so begin with such; the authors'
            codes begin at 0, and those that are not used stay unused.
        period: of the epochs; the first of each period trains the separator, the others the encoder.
    """

    invariance: NonNegative = 0.01
    gate: NonNegative = 0.5
    gamma: Fraction = 0.9
    codes: Count = 4000
    commitment: NonNegative = 0.1
    decay: Annotated[float, Field(ge=0, le=0.9999)] = 0.9
    revive: bool = True
    period: Annotated[int, Field(ge=2)] = 4


class Codebook(nn.Module):
    r"""Vectors that node states are rounded to, each a moving average of the states that were.

    .. math:: n_k \leftarrow \beta n_k + (1-\beta)\,|S_k|, \quad
              s_k \leftarrow \beta s_k + (1-\beta)\sum_{i \in S_k} x_i, \quad
              e_k = s_k / \tilde n_k, \quad \tilde n_k = \frac{n_k + \epsilon}{\sum n + K\epsilon} \sum n
    """

    codes: Tensor
    number: Tensor
    total: Tensor
    used: Tensor

    def __init__(self, codes: int, width: int, decay: float, revive: bool) -> None:
        super().__init__()
        self.decay, self.revive = decay, revive
        start = (2 * torch.rand(codes, width) - 1) * (6 / (codes * width)) ** 0.5
        self.register_buffer("codes", start)
        self.register_buffer("number", torch.zeros(codes))
        self.register_buffer("total", start.clone())
        self.register_buffer("used", torch.ones(()), persistent=False)  # share of the codes that a batch has

    def nearest(self, x: Tensor) -> Tensor:
        """Index of the nearest code of each row `[N]`."""
        with torch.no_grad():
            distance = self.codes.square().sum(1) - 2 * x.detach().to(self.codes.dtype) @ self.codes.T
            return distance.argmin(1)

    def rows(self, index: Tensor, like: Tensor) -> Tensor:
        """The codes of these indices `[N, d]`, in the precision of `like`."""
        return self.codes.index_select(0, index).to(like.dtype)

    @torch.no_grad()
    def update(self, x: Tensor, index: Tensor, batch: GraphBatch, random: torch.Generator, eps: float = 1e-5) -> None:
        """Move the codes towards the real rows of `x` that have them."""
        real, share = batch.real_nodes.to(self.codes.dtype), 1 - self.decay
        rows = x.detach().to(self.codes.dtype) * real[:, None]
        counts = torch.zeros_like(self.number).index_add(0, index, real)
        self.number.mul_(self.decay).add_(counts, alpha=share)
        self.total.mul_(self.decay).add_(torch.zeros_like(self.total).index_add(0, index, rows), alpha=share)
        if self.revive:
            dead = self.number < _DEAD
            some = torch.rand(len(self.number), generator=random, device=x.device) * batch.node_count.sum()
            states = rows.index_select(0, some.long().clamp(max=len(rows) - 1))  # padding comes after the real rows
            self.number.copy_(torch.where(dead, 1, self.number))
            self.total.copy_(torch.where(dead[:, None], states, self.total))
        number = self.number.sum()
        smooth = (self.number + eps) / (number + len(self.number) * eps) * number
        self.codes.copy_(self.total / smooth[:, None])
        self.used.copy_((counts > 0).to(counts.dtype).mean())


class IMoLD(Method[IMoLDSettings]):
    r"""Learning Invariant Molecular Representation in Latent Discrete Space (Zhuang et al., NeurIPS 2023).

    Node states H are rounded to codes Q, R = H + Q, and a second network's gate S divides every node and channel
    of R into an invariant embedding c and a rest v:

    .. math:: \min \hat R(f(c)) + 0.1\,\overline{\|H - \bar Q\|^2} + \lambda_1 L_{inv} + \lambda_2
              \overline{\big|\bar S - \gamma\big|}, \quad c = \overline{S \odot R}, \quad v = \overline{(1-S) \odot R},
              \quad L_{inv} = -\overline{\cos\big(\bar c_i, \mathrm{proj}[c_i, v_{\pi(i)}]\big)}

    a bar over c and Q where no gradient flows, π a random permutation of the batch. One epoch of four trains the gate,
    the others everything else; what is not trained is in evaluation mode, and codes move with the encoder only. The
    gate sees whole graphs, and what it lets through is no subgraph: a node's mask is the mean of its gate.
    """

    name = "imold"
    family = "graph"
    citation = "Zhuang et al., NeurIPS 2023"
    space = {"gamma": (0.5, 0.7, 0.9), "invariance": (0.01, 0.1), "gate": (0.5,)}
    training_only = ("projector",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: IMoLDSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        settings, width = self.settings, backbone.width
        self.classifier = GraphNet(backbone, schema)
        self.separator = Separator(backbone, schema)
        self.projector = Projector(backbone)
        self.codebook = Codebook(settings.codes, width, settings.decay, settings.revive) if settings.codes else None
        self.mask_depth = backbone.layers

    def phases(self) -> list[Phase]:
        """The gate in the first epoch of each period, encoder, head and projector in the others."""
        period, lr = self.settings.period, self.settings.lr
        modules = (self.classifier, self.projector)
        return [
            Phase("encoder", modules, self.encoder_loss, lr, when=lambda now: now.epoch % period != 0),
            Phase("separator", (self.separator,), self.loss, lr, when=lambda now: now.epoch % period == 0),
        ]

    def encoder_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The terms of the other phase, and the distance of states from their codes, which move."""
        nodes = self.classifier.encoder(batch)
        index = None if self.codebook is None else self.codebook.nearest(nodes)
        terms = self.terms(nodes, index, batch)
        if self.codebook is not None and index is not None:
            distance = (nodes - self.codebook.rows(index, nodes)).square().mean(1)
            terms["commitment"] = self.settings.commitment * mean_over(distance, batch.real_nodes)
            self.codebook.update(nodes, index, batch, self.random)
        return terms

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risk of the invariant part, its agreement beside another graph's rest, and the size of the gate."""
        nodes = self.classifier.encoder(batch)
        return self.terms(nodes, None if self.codebook is None else self.codebook.nearest(nodes), batch)

    def terms(self, nodes: Tensor, index: Tensor | None, batch: GraphBatch) -> Terms:
        """The terms that both phases have, from node states `[N, d]` and the codes that they are rounded to."""
        settings, gate = self.settings, self.separator(batch)
        invariant, rest = self.split(nodes, index, gate, batch)
        permuted = rest.index_select(0, permutation(batch, self.random))
        agreement = agreement_of(invariant, self.projector(invariant, permuted, batch))
        return {
            "risk": self.risk(self.classifier.head(invariant, batch), batch),
            "invariance": -settings.invariance * batch.mean_graphs(agreement),
            "gate": settings.gate * gate_penalty(gate, batch, settings.gamma),
        }

    def split(self, nodes: Tensor, index: Tensor | None, gate: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Embeddings of the invariant part and of the rest `[B, d]`, of H + Q; the gradient of Q is that of H."""
        if self.codebook is not None and index is not None:
            nodes = 2 * nodes + (self.codebook.rows(index, nodes) - nodes).detach()
        readout = self.classifier.readout
        invariant = self.classifier.add_descriptors(readout(gate * nodes, batch), batch)
        return invariant, readout((1 - gate) * nodes, batch)

    def diagnostics(self) -> Terms:
        """The share of the codes that the last batch had."""
        return {} if self.codebook is None else {"codes_used": self.codebook.used}

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the invariant part."""
        nodes = self.classifier.encoder(batch)
        index = None if self.codebook is None else self.codebook.nearest(nodes)
        return self.split(nodes, index, self.separator(batch), batch)[0]

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The mean of each node's gate; an edge's weight is the mean of its ends'."""
        node = self.separator(batch).mean(1)
        edge = (batch.at_source(node) + batch.at_target(node)) / 2
        return {"stable": Mask(node, edge).symmetric(batch)}


class Separator(nn.Module):
    """A GNN and a two-layer head that give the gate of each node and channel `[N, d]`."""

    def __init__(self, backbone: BackboneSettings, schema: Schema) -> None:
        super().__init__()
        self.encoder = build_encoder(backbone, schema.node, schema.edge)
        self.head = Head(replace(backbone, head="mlp", dropout=0.0), backbone.width)  # as in the authors' code

    def forward(self, batch: GraphBatch) -> Tensor:
        """Values between 0 and 1."""
        # The head normalises over rows; here its rows are nodes.
        score: Tensor = self.head(self.encoder(batch), batch.replace(graph_mask=batch.node_mask))
        return score.sigmoid()


class Projector(nn.Module):
    """Two embeddings side by side `[B, 2d]` to one `[B, d]`, by a hidden layer of width d."""

    def __init__(self, backbone: BackboneSettings) -> None:
        super().__init__()
        width = backbone.width
        self.first, self.norm = linear_before(backbone.batch_norm, 2 * width, width), norm(width, backbone.batch_norm)
        self.last, self.dropout = nn.Linear(width, width), Dropout(backbone.dropout)

    def forward(self, first: Tensor, second: Tensor, batch: GraphBatch) -> Tensor:
        """The projection."""
        both = torch.cat([first, second], dim=1)
        hidden = linear_norm(self.first, self.norm, both, batch.graph_mask, relu=True, dropout=self.dropout)
        projected: Tensor = self.last(hidden)
        return projected


def agreement_of(invariant: Tensor, projected: Tensor) -> Tensor:
    """Cosine of each embedding and its projection `[B]`, with a gradient to the projection alone."""
    return functional.cosine_similarity(invariant.detach(), projected, eps=1e-6)


def gate_penalty(gate: Tensor, batch: GraphBatch, gamma: float) -> Tensor:
    """Distance of the mean of the gate `[N, d]` over a graph's nodes and channels from γ, mean over graphs."""
    return batch.mean_graphs((batch.mean_nodes(gate).mean(1) - gamma).abs())
