"""Evidence with bare graphs: some lose most of their edges and are to predict the uniform distribution. A prototype.

Its log is in docs/ours.md; `python benchmarks/develop.py` runs it on draws that are not published.
"""

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import Progress, Terms
from outland.methods.cal import uniform_divergence
from outland.methods.evidence import Evidence, EvidenceSettings
from outland.methods.parts.risk import partial_risk
from outland.settings import Fraction, NonNegative, settings


@settings("method")
class BareSettings(EvidenceSettings):
    """Hyper-parameters of the prototype, which has neither closed walks nor mixed features unless it is asked to.

    Args:
        bare: share of the graphs that lose edges at a rate between a half and 1; their target is uniform.
        absence: weight of the divergence of a bare graph's prediction from the uniform one.
    """

    mix: Fraction = 0.0
    walks: int = 0
    bare: Fraction = 0.25
    absence: NonNegative = 1.0


class Bare(Evidence):
    """The part that decides a label rarely survives in a bare graph, so that no class is what remains without it."""

    name = "bare"
    Settings = BareSettings
    settings: BareSettings

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk on whole and thinned graphs, and the divergence of the bare ones' predictions from uniform."""
        batch = batch.replace(x=self.mix(batch))
        rate, bare = self.draw_bare(batch)
        logits = self.classifier.head(self.readout(batch, self.thin(batch, rate)), batch)
        divergence = torch.where(bare, uniform_divergence(logits, batch, self.schema.task), 0)
        return {
            "risk": partial_risk(logits, batch, self.schema.task, ~bare),
            "absence": self.settings.absence * batch.mean_graphs(divergence),
        }

    def draw_bare(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The rate at which each graph loses edges `[B + 1]`, and which graphs are bare `[B]`: none without edges."""
        settings, shape = self.settings, (3, batch.num_graphs + 1)
        uniform, whole, bare = torch.rand(shape, generator=self.random, device=batch.x.device)
        rate = torch.where(whole < settings.whole, 0, settings.drop * uniform)
        has_edges = torch.cat([batch.edge_count, batch.edge_count.new_zeros(1)]) > 0
        is_bare = (bare < settings.bare) & has_edges
        return torch.where(is_bare, (1 + uniform) / 2, rate), is_bare[:-1]
