"""Evidence: a gated readout, trained on graphs thinned at random, explained by what thinning loses. A prototype.

Its log is in docs/ours.md; `python benchmarks/develop.py` runs it on draws of Motif that are not published.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.cal import Branch, BranchHead, uniform_divergence
from outland.methods.parts.pairing import permutation
from outland.methods.parts.ranking import both_directions, rank_within_group
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings, Mask, Readout, build_encoder
from outland.nn.convs import GCN, LayerInputs
from outland.nn.layers import norm, pair_linear
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class EvidenceSettings(MethodSettings):
    """Hyper-parameters of the prototype.

    Args:
        drop: rate at which edges are dropped in training, `fixed` or the largest of a `uniform` one for each graph.
        rates: see `drop`.
        whole: share of the graphs that are left whole.
        heavy: share of the graphs of which half of the edges or more are dropped; what is left is to predict nothing.
        absence: weight of the divergence of their predictions from the uniform one.
        robust: exponent q of the generalized cross-entropy (1 - p^q) / q of the label; 0 is cross-entropy.
        gate: whether nodes and edges have a weight between encoder and readout.
        layer: whether a GCN layer of weighted edges stands between the gate and the readout.
        head: `linear`, or CAL's of two layers with batch norm.
        uniform: weight of CAL's divergence of the complement's prediction from the uniform one.
        mixed: weight of CAL's risk beside another graph's complement.
        mask: what is lost with an edge alone (`loo`), and with the lesser of its ends too (`ends`); what thinnings tell
            of an edge (`banzhaf`); or its gate.
        samples: thinnings of which an explanation is the mean.
        sample_drop: their rate.
    """

    drop: Fraction = 0.2
    rates: Literal["fixed", "uniform"] = "fixed"
    whole: Fraction = 0.0
    heavy: Fraction = 0.0
    absence: NonNegative = 1.0
    robust: Fraction = 0.0
    gate: bool = True
    layer: bool = True
    head: Literal["linear", "norm"] = "norm"
    uniform: NonNegative = 0.0
    mixed: NonNegative = 0.0
    mask: Literal["ends", "loo", "banzhaf", "gate"] = "ends"
    samples: PositiveInt = 64
    sample_drop: Fraction = 0.1


class Evidence(Method[EvidenceSettings]):
    """CAL's causal branch alone, on thinned graphs."""

    name = "evidence"
    family = "augmentation"
    citation = "ours"
    training_only = ("trivial", "trivial_head", "mixed_head")

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: EvidenceSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        s, width, outputs = self.settings, backbone.width, schema.task.outputs
        self.encoder = build_encoder(backbone, schema.node, schema.edge)
        self.node = nn.Linear(width, 1)
        self.edge = nn.Linear(2 * width, 1)
        self.norm = norm(width, backbone.batch_norm)
        self.conv = GCN(width, backbone, 1) if s.layer else None
        self.pool = Readout(backbone)
        self.head = BranchHead(width, backbone, outputs) if s.head == "norm" else nn.Linear(width, outputs)
        if s.uniform or s.mixed:
            self.trivial = Branch(backbone)
            self.trivial_head, self.mixed_head = (BranchHead(width, backbone, outputs) for _ in range(2))

    def parts(self, batch: GraphBatch, edge: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Embeddings of the evidence and, in training with CAL's terms, of its complement."""
        s = self.settings
        h = self.encoder(batch, None, edge)
        node = self.node(h).squeeze(1).sigmoid() if s.gate else None
        weight = pair_linear(self.edge, h, batch).squeeze(1).sigmoid() if s.gate else None
        x = h if node is None else h * node[:, None]
        if self.conv is not None:
            both = weight if edge is None else edge if weight is None else weight * edge
            x = self.conv(self.norm(x, batch.node_mask), LayerInputs(batch, both, None), x).relu()
        embeddings = self.pool(x, batch, node)
        trivial = None
        if (s.uniform or s.mixed) and self.training:
            assert node is not None
            assert weight is not None
            rest = (1 - weight) if edge is None else (1 - weight) * edge
            trivial = self.trivial(h, Mask(1 - node, rest), batch)
        return embeddings, trivial

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk on thinned graphs, and CAL's two terms."""
        s = self.settings
        rate, heavy = self.rate(batch)
        embeddings, trivial = self.parts(batch, self.thin(batch, rate[batch.edge_batch]) if s.drop else None)
        logits = self.logits(embeddings, batch)
        if s.robust:
            p = logits.softmax(1).gather(1, batch.y.view(-1, 1).long().clamp(min=0)).squeeze(1).clamp(min=1e-6)
            each = (1 - p**s.robust) / s.robust
            absent = s.absence * uniform_divergence(logits, batch, self.schema.task)
            terms = {"risk": batch.mean_graphs(torch.where(heavy, absent, each))}
        elif s.heavy:
            losses, known = label_losses(logits, batch, self.schema.task)
            each = losses.sum(1) / known.sum(1).clamp(min=1)
            absent = s.absence * uniform_divergence(logits, batch, self.schema.task)
            terms = {"risk": batch.mean_graphs(torch.where(heavy, absent, each))}
        else:
            terms = {"risk": self.risk(logits, batch)}
        if trivial is not None:
            permuted = trivial.index_select(0, permutation(batch, self.random))
            divergence = uniform_divergence(self.trivial_head(trivial, batch), batch, self.schema.task)
            terms["uniform"] = s.uniform * batch.mean_graphs(divergence)
            terms["mixed"] = s.mixed * self.risk(self.mixed_head(embeddings + permuted, batch), batch)
        return terms

    def logits(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """What the head says of embeddings."""
        logits: Tensor = self.head(embeddings, batch) if isinstance(self.head, BranchHead) else self.head(embeddings)
        return logits

    def rate(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Rate at which each graph's edges are dropped `[B + 1]`, and which graphs lose too many to be known `[B]`."""
        s = self.settings
        first, second, third = torch.rand(3, batch.num_graphs + 1, generator=self.random, device=batch.x.device)
        rate = s.drop * first if s.rates == "uniform" else torch.full_like(first, s.drop)
        rate = torch.where(second < s.whole, 0.0, rate)
        heavy = third < s.heavy
        return torch.where(heavy, 0.5 + 0.5 * first, rate), heavy[:-1]

    def thin(self, batch: GraphBatch, rate: Tensor | float, random: torch.Generator | None = None) -> Tensor:
        """Weight 0 for edges that are dropped, both directions together, and 1 for the others `[E]`."""
        random = random or self.random
        draw = both_directions(torch.rand(batch.num_edges, generator=random, device=batch.x.device), batch)
        return (draw >= rate).to(self.node.weight.dtype)

    def readout(self, batch: GraphBatch) -> Tensor:
        return self.parts(batch, None)[0]

    def embed(self, batch: GraphBatch) -> Tensor:
        z = self.readout(batch)
        return self.head.hidden(z, batch) if isinstance(self.head, BranchHead) else z

    def to_logits(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.head.last(embeddings) if isinstance(self.head, BranchHead) else self.head(embeddings)
        return logits

    def smoothed(self, batch: GraphBatch, rate: float, samples: int) -> tuple[Tensor, Tensor]:
        """Mean log-probabilities over random thinnings `[B, classes]`, and what each edge adds to them `[E, classes]`.

        The mean is the multilinear extension of the classifier at this rate; what an edge adds, the mean with it less
        the mean without it, is its gradient there, the Banzhaf value.
        """
        random = torch.Generator(batch.x.device).manual_seed(0)
        total, present, count = torch.zeros(()), torch.zeros(()), torch.zeros(())
        for _ in range(samples):
            edge = self.thin(batch, rate, random)
            logp = self.logits(self.parts(batch, edge)[0], batch).log_softmax(1)
            padded = torch.cat([logp, logp.new_zeros(1, logp.shape[1])])[batch.edge_batch]
            total, present, count = (
                logp + total.to(logp),
                edge[:, None] * padded + present.to(logp),
                edge + count.to(edge),
            )
        everywhere = torch.cat([total, total.new_zeros(1, total.shape[1])])[batch.edge_batch]
        absent = (samples - count).clamp(min=1)[:, None]
        return total / samples, present / count.clamp(min=1)[:, None] - (everywhere - present) / absent

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """What each edge adds to the class that is called, or its gate."""
        if self.settings.mask == "gate":
            h = self.encoder(batch)
            e = pair_linear(self.edge, h, batch).squeeze(1).sigmoid()
            return {"stable": Mask(self.node(h).squeeze(1).sigmoid(), e).symmetric(batch)}
        logits = self(batch)
        called = logits.argmax(1)
        if self.settings.mask in ("loo", "ends"):
            lost = self.lost(batch, logits.log_softmax(1), called)
            if self.settings.mask == "ends":
                source, target = self.lost_with(batch, logits.log_softmax(1), called)[batch.edge_index]
                lost = lost + torch.minimum(source, target).clamp(min=0)
            return {"stable": Mask.on_edges(lost, batch)}
        _, added = self.smoothed(batch, self.settings.sample_drop, self.settings.samples)
        column = torch.cat([called, called.new_zeros(1)])[batch.edge_batch]
        return {"stable": Mask.on_edges(added.gather(1, column[:, None]).squeeze(1), batch)}

    def lost(self, batch: GraphBatch, whole: Tensor, called: Tensor) -> Tensor:
        """What the class that is called loses when an edge is dropped `[E]`, both directions together."""
        first = batch.first_direction
        order = rank_within_group(torch.where(first, 0.0, torch.inf), batch.edge_batch, batch.num_graphs + 1)
        order = torch.where(first, order, order[batch.reverse])
        lost = torch.zeros(batch.num_edges, device=whole.device)
        for number in range(int(order[first & batch.real_edges].max()) + 1):
            dropped = order == number
            logp = self.logits(self.parts(batch, 1 - dropped.to(whole.dtype))[0], batch).log_softmax(1)
            change = (whole - logp).gather(1, called[:, None]).squeeze(1)
            lost = torch.where(dropped, torch.cat([change, change.new_zeros(1)])[batch.edge_batch], lost)
        return lost

    def lost_with(self, batch: GraphBatch, whole: Tensor, called: Tensor) -> Tensor:
        """What the class that is called loses when a node's edges are dropped `[N]`."""
        nodes = torch.arange(batch.num_nodes, device=whole.device)
        starts = torch.cat([batch.node_count.cumsum(0) - batch.node_count, batch.node_count.new_zeros(1)])
        order = nodes - starts[batch.node_batch]
        lost = torch.zeros(batch.num_nodes, device=whole.device)
        for number in range(int(batch.node_count.max())):
            dropped = (order == number)[batch.edge_index].any(0)
            logp = self.logits(self.parts(batch, 1 - dropped.to(whole.dtype))[0], batch).log_softmax(1)
            change = (whole - logp).gather(1, called[:, None]).squeeze(1)
            lost = torch.where(order == number, torch.cat([change, change.new_zeros(1)])[batch.node_batch], lost)
        return lost
