"""Graph stochastic attention: every edge is uncertain unless the label pays for its certainty."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.attention import AttentionScore, bernoulli_kl, concrete
from outland.methods.parts.risk import mean_over
from outland.methods.parts.schedules import staircase
from outland.nn import BackboneSettings, GraphNet, Mask
from outland.settings import check_ranges


@dataclass(frozen=True)
class GSATSettings(MethodSettings):
    """Hyper-parameters of GSAT.

    Args:
        bottleneck: c, weight of the divergence from coins with chance r.
        final_r: r in the end.
        first_r: r in the first epochs.
        step_r: by how much r falls every `interval` epochs.
        interval: epochs between two values of r.
        over: attention over each `edge`, or over each `node`, whose product weighs the edge between two.
        temperature: τ of the relaxed coins.
        dropout: inside the attention network.
        divergence: of the `sample` α, as the authors' code has it, whose expectation is not 0 at p = r; or of the
            `probability` p itself, as the paper's bound has it.
        symmetric: both directions of an edge share their mean weight; without it, each keeps its own, which is
            what early versions of the code, and those derived from them, did by mistake.
    """

    bottleneck: float = 1.0
    final_r: float = 0.7
    first_r: float = 0.9
    step_r: float = 0.1
    interval: int = 10
    over: Literal["edge", "node"] = "edge"
    temperature: float = 1.0
    dropout: float = 0.5
    divergence: Literal["sample", "probability"] = "sample"
    symmetric: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", bottleneck=(0, None), final_r=(0.01, 0.99), first_r=(0.01, 0.99), step_r=(0, 1))
        check_ranges(self, "method", interval=(1, None), temperature=(1e-3, None), dropout=(0, 0.99))


class GSAT(Method):
    r"""Interpretable and Generalizable Graph Learning via Stochastic Attention Mechanism (Miao et al., ICML 2022).

    One GNN reads the graph twice: first whole, to score its edges z (or nodes), then with every message weighed by
    a coin α, relaxed and drawn anew in each step, σ(z) at inference.

    .. math:: \min \hat R(f(g; \alpha)) + c\,\overline{\alpha\log\frac{\alpha}{r}
              + (1-\alpha)\log\frac{1-\alpha}{1-r}}, \quad
              \alpha = \sigma\Big(\frac{z + \log u - \log(1-u)}{\tau}\Big), \quad u \sim U(0, 1)

    The mean is over all edges (nodes) of the batch, each direction with its own coin. r falls by steps; the authors
    take checkpoints only once it has reached its final value. Weights act on messages alone: a node's own state stays,
    and a virtual node passes them by.
    """

    name: ClassVar[str] = "gsat"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Miao et al., ICML 2022"
    Settings: ClassVar[type[MethodSettings]] = GSATSettings
    presets: ClassVar[Mapping[str, Callable[[], MethodSettings]]] = {
        "spurious-motif": lambda: GSATSettings(lr=3e-3),
        "mnist": lambda: GSATSettings(over="node", interval=30),
        "molecules": lambda: GSATSettings(over="node", interval=20),
    }
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "final_r": (0.5, 0.7),
        "interval": (10, 20),
        "bottleneck": (0.1, 1.0),
    }

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GSATSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: GSATSettings = self.settings
        self.classifier = GraphNet(backbone, schema)
        self.attention = AttentionScore(backbone.width, chosen.over, chosen.dropout)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss under the drawn coins, and what their certainty costs."""
        chosen: GSATSettings = self.settings
        states, score = self._read(batch)
        alpha = concrete(score, chosen.temperature, self.random)
        priced = alpha if chosen.divergence == "sample" else score.sigmoid()
        r = progress.scalar(
            lambda now: staircase(now.epoch, chosen.interval, chosen.first_r, chosen.step_r, chosen.final_r)
        )
        real = batch.real_edges if chosen.over == "edge" else batch.real_nodes
        return {
            "risk": self.risk(self.classifier(batch, self.weigh(alpha, batch), states), batch),
            "divergence": chosen.bottleneck * mean_over(bernoulli_kl(priced, r), real),
        }

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits with every edge weighed by its probability."""
        states, score = self._read(batch)
        logits: Tensor = self.classifier(batch, self.weigh(score.sigmoid(), batch), states)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The probabilities; over edges, no node is masked."""
        _, score = self._read(batch)
        alpha = score.sigmoid()
        mask = self.weigh(alpha, batch).symmetric(batch)
        return {"stable": mask if self.settings.over == "edge" else Mask(alpha, mask.edge)}

    def weigh(self, alpha: Tensor, batch: GraphBatch) -> Mask:
        """Edge weights from coins on edges or nodes; node inputs keep weight 1."""
        if self.settings.over == "node":
            edge = batch.at_source(alpha) * batch.at_target(alpha)
        else:
            edge = (alpha + batch.reversed(alpha)) / 2 if self.settings.symmetric else alpha
        return Mask.on_edges(edge, batch)

    def _read(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The first pass: the vectors that enter the network, and the scores that leave it."""
        states = self.classifier.encoder.embed(batch)
        score: Tensor = self.attention(self.classifier.encoder(batch, states=states), batch)
        return states, score
