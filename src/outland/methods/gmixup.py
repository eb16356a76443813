"""G-Mixup: mix the graphons of classes, and train on graphs sampled from the mixtures as well."""

from dataclasses import replace

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import BatchShape, GraphBatch, PackedGraphs, Schema
from outland.graphs.batches import Gatherer
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.graphons import class_labels, degrees, fit_graphon, join, mixed_graphs
from outland.nn import BackboneSettings
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class GMixupSettings(MethodSettings):
    """Hyper-parameters of G-Mixup.

    Args:
        share: largest share λ of the first class; each draw takes one from [share/2, share]. The paper has [0.1, 0.2];
            the public code [0.005, 0.01], which is all but the second class alone.
        ratio: synthetic graphs for each training graph.
        threshold: singular values of a class's mean adjacency below `threshold`·√n are dropped.
        draws: how many pairs of classes and shares are drawn.
    """

    share: Fraction = 0.2
    ratio: NonNegative = 0.15
    threshold: NonNegative = 0.2
    draws: PositiveInt = 10


class GMixup(ERM[GMixupSettings]):
    r"""G-Mixup: Graph Data Augmentation for Graph Classification (Han et al., ICML 2022).

    .. math:: W = \lambda W_i + (1-\lambda) W_j, \quad y = \lambda y_i + (1-\lambda) y_j, \quad
              A_{uv} \sim \mathrm{Bernoulli}(W_{uv}), \quad
              \min_\theta \frac{\hat R + \rho\,\hat R_{syn}}{1 + \rho}

    Before training, the training graphs of each class are aligned by degree, cropped or filled to their median number
    of nodes, averaged, and denoised by singular value thresholding into a graphon W. Node features of a position are
    mixed likewise: real ones are means, categories are drawn by their frequencies, and where the only feature of every
    training node is its degree, a new node has its own. A new edge has the features of a random edge of class i (with
    probability λ) or j. Classes of yes/no questions are the answers to the first; of regression, the halves below and
    above the median of the first number; and a class's label is its mean label, in every column. Each batch is joined
    by ρ times as many synthetic graphs, so that batch norm meets both in proportion. Without two classes there is
    nothing to mix: ERM.
    """

    name = "g-mixup"
    family = "augmentation"
    citation = "Han et al., ICML 2022"
    presets = {"paper": GMixupSettings, "released": lambda: GMixupSettings(share=0.01)}
    space = {"share": (0.01, 0.2), "ratio": (0.1, 0.2), "threshold": (0.05, 0.2)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GMixupSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.synthetic: Gatherer | None = None  # no buffer: `prepare` makes the same graphs again
        self.largest = (0, 0)  # nodes and edges of the largest of them

    def prepare(self, graphs: PackedGraphs, train: Tensor, seed: int) -> None:
        """Fit a graphon to each class of the training graphs and sample the synthetic ones."""
        self.synthetic = None
        if not self.settings.ratio:
            return
        train = train.cpu()
        classes, labels = class_labels(graphs.y[train.to(graphs.device)].cpu(), self.schema.task)
        size = int(graphs.node_counts[train].median())
        graphons, feature_is_degree = [], self.schema.node.width == 1
        for number in classes[classes >= 0].unique():
            in_class = classes == number
            members = graphs.select(train[in_class]).to("cpu")
            feature_is_degree = feature_is_degree and bool((members.x == degrees(members, self.schema.node)).all())
            label = labels[in_class].nanmean(0)
            graphons.append(fit_graphon(members, label, size, self.settings.threshold, self.schema.node))
        if len(graphons) > 1:
            total = max(1, round(self.settings.ratio * len(train)))
            random = torch.Generator().manual_seed(seed)
            sampled = mixed_graphs(graphons, total, self.settings.draws, self.settings.share, self.schema.node, random)
            if feature_is_degree:
                sampled = replace(sampled, x=degrees(sampled, self.schema.node).to(sampled.x.dtype))
            self.synthetic = Gatherer(sampled.to(graphs.device))
            self.largest = int(sampled.node_counts.max()), int(sampled.edge_counts.max())

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss over original and synthetic graphs."""
        if self.synthetic is None:
            return super().loss(batch, progress)
        more, ratio = self.draw(self.synthetic, batch), self.settings.ratio
        logits = self.classifier(join(batch, more))
        original, synthetic = logits.split([batch.num_graphs, more.num_graphs])
        return {
            "risk": self.risk(original, batch) / (1 + ratio),
            "synthetic": ratio / (1 + ratio) * self.risk(synthetic, more.replace(y=more.y.to(logits.dtype))),
        }

    def draw(self, synthetic: Gatherer, batch: GraphBatch) -> GraphBatch:
        """Synthetic graphs to go with a batch, at least one, padded to a shape that holds any of them."""
        graphs, (nodes, edges) = synthetic.graphs, self.largest
        count = max(1, round(self.settings.ratio * batch.num_graphs))
        index = torch.randint(len(graphs), (count,), generator=self.random, device=graphs.device)
        real_count = (self.settings.ratio * batch.real_graphs.sum()).round().clamp(min=1)
        index = torch.where(torch.arange(count, device=graphs.device) < real_count, index, -1)
        return synthetic.padded(index, BatchShape(count, count * nodes + 1, count * edges))

    def augment(self, batch: GraphBatch) -> PackedGraphs:
        """All synthetic graphs, whatever the batch."""
        if self.synthetic is None:
            raise OutlandError("g-mixup has made no graphs: call its prepare(graphs, train, seed) first")
        return self.synthetic.graphs
