"""GALA: graphs of one class should look alike across what an assistant, a plain network, tells apart."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from outland.errors import OutlandError
from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Terms, warm_up_epochs
from outland.methods.gsat import AttentionScore
from outland.methods.parts.clusters import Clusters
from outland.methods.parts.contrast import pair_contrast, pairs_across
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, GraphNet, Mask, build_encoder
from outland.settings import Fraction, NonNegative, settings


@settings("method")
class GALASettings(MethodSettings):
    """Hyper-parameters of GALA.

    Args:
        alpha: α, weight of the contrastive loss.
        clusters: k, into which the assistant's embeddings fall; 1 takes the classes that it predicts instead.
        warm_up: share of the epochs, from the start, in which the assistant is trained, and nothing is contrasted;
            none of them is selected. At 0 the assistant stays as it is initialised.
        temperature: τ of the contrastive loss.
        decay: share of the old in the moving sums that cluster centres are the directions of.
    """

    alpha: NonNegative = 1.0
    clusters: Annotated[int, Field(ge=1, le=64)] = 3
    warm_up: Fraction = 0.1
    temperature: Annotated[float, Field(ge=1e-3)] = 1.0
    decay: Annotated[float, Field(ge=1e-3, le=0.9999)] = 0.99


class GALA(Method[GALASettings]):
    r"""Does Invariant Graph Learning via Environment Augmentation Learn Invariance? (Chen et al., NeurIPS 2023).

    .. math:: \min \hat R(f(g \odot m)) - \alpha \operatorname*{mean}_{i:\,P(i) \ne \emptyset} \frac1{|P(i)|}
              \sum_{j \in P(i)} \Big[A_{ij} - \log\sum_{k \in P(i) \cup N(i)} e^{A_{ik}}\Big], \quad
              A_{ij} = \frac{h_i^\top h_j}{\tau\,\|h_i\| \|h_j\|}

    with soft weights m on the edges of the whole graph and embeddings h of it. P(i) are the graphs of i's label in
    another cluster c of the assistant's, :math:`y_j = y_i, c_j \ne c_i`, and N(i) those of another label in the same,
    :math:`y_j \ne y_i, c_j = c_i`. An anchor without positives adds 0; the authors' code then changes the pairs.

    The assistant is ERM on the same backbone, trained in the first epochs beside f, which has no contrast yet, and
    frozen for the rest; the authors' has a run of its own. They cluster the training graphs' embeddings once; here the
    centres move with the batches. Their over-sampling of graphs that the assistant gets wrong, before training, is left
    out, and so is the cut of graphs to their best edges, which they have on superpixels and sentences.
    """

    name = "gala"
    family = "graph"
    citation = "Chen et al., NeurIPS 2023"
    space = {"alpha": (1.0, 8.0, 32.0, 128.0), "clusters": (1, 3)}
    training_only = ("assistant",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GALASettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        k, width = self.settings.clusters, backbone.width
        if k == 1 and schema.task.kind == "regression":
            raise OutlandError("gala needs method.clusters of 2 or more for labels that are numbers, not classes")
        self.classifier = GraphNet(backbone, schema)
        self.scorer = build_encoder(backbone, schema.node, schema.edge)
        self.score = AttentionScore(width, "edge", backbone.dropout)
        self.assistant = GraphNet(backbone, schema)
        self.clusters = Clusters(k, width, self.settings.decay) if k > 1 else None
        self.shares: Terms = {}

    def barred_epochs(self, epochs: int) -> int:
        """Those of the warm-up."""
        return warm_up_epochs(self.settings.warm_up, epochs)

    def is_warming_up(self, now: Progress) -> bool:
        """Whether the assistant is still trained."""
        return now.epoch < self.barred_epochs(now.epochs)

    def phases(self) -> list[Phase]:
        """Classifier and edge scores in every step, the assistant in those of the warm-up."""
        lr, modules = self.settings.lr, (self.classifier, self.scorer, self.score)
        return [
            Phase("risk", modules, self.loss, lr),
            Phase("assistant", (self.assistant,), self.assistant_loss, lr, when=self.is_warming_up),
        ]

    def assistant_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk of the assistant on whole graphs."""
        return {"risk": self.risk(self.assistant(batch), batch)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risk of the weighted graphs and, after the warm-up, the contrast across what the assistant tells apart."""
        h, self.shares = self.readout(batch), {}
        terms = {"risk": self.risk(self.classifier.head(h, batch), batch)}
        if not progress.branch(self.is_warming_up):
            labels = batch.y.reshape(len(h), -1)
            known = ~labels.isnan() & batch.real_graphs[:, None]
            positive, negative = pairs_across(labels, known, self.groups(batch, progress))
            terms["contrast"] = self.settings.alpha * pair_contrast(
                h, positive, positive | negative, self.settings.temperature
            )
            self.shares = pair_shares(positive, negative, known)
        return terms

    @torch.no_grad()
    def groups(self, batch: GraphBatch, progress: Progress) -> Tensor:
        """The group of each graph by the assistant: a cluster `[B, 1]`, or a predicted class of each label `[B, T]`."""
        if self.clusters is None:
            logits: Tensor = self.assistant(batch)
            return logits.argmax(1, keepdim=True) if self.schema.task.kind == "multiclass" else logits > 0
        h = self.assistant.embed(batch).to(self.clusters.total.dtype)
        unit, real = functional.normalize(h, dim=1, eps=1e-6), batch.real_graphs
        if progress.branch(lambda now: now.epoch == self.barred_epochs(now.epochs)):
            self.clusters.seed(unit, real, self.random)
        index = self.clusters.nearest(unit)
        self.clusters.update(unit, index, real)
        return index[:, None]

    def diagnostics(self) -> Terms:
        """After the warm-up, shares of the anchors that have pairs, and of the batches that have none."""
        return self.shares

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the weighted graphs."""
        return self.classifier.embed(batch, self.masks(batch)["stable"])

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """Edge weights, the same in both directions; no node is masked."""
        weight = self.score(self.scorer(batch), batch).sigmoid()
        return {"stable": Mask.on_edges(weight, batch).symmetric(batch)}


def pair_shares(positive: Tensor, negative: Tensor, known: Tensor) -> Terms:
    """Of known labels those with positive pairs, with both kinds; 1 for a batch without a positive pair, else 0."""
    anchors, opposed = positive.any(2).T, negative.any(2).T
    return {
        "anchors": mean_over(anchors.float(), known),
        "opposed_anchors": mean_over((anchors & opposed).float(), known),
        "batches_without_pairs": (~anchors.any()).float(),
    }
