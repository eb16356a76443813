"""G-Mixup: mix the graphons of classes, and train on graphs drawn from the mixtures as well."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from outland.graphs import GraphBatch, PackedGraphs, Schema, Shape
from outland.graphs.gather import Gatherer
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.graphons import class_labels, degrees, fit_graphon, join, mixed_graphs
from outland.nn import BackboneSettings
from outland.settings import check_ranges


@dataclass(frozen=True)
class GMixupSettings(MethodSettings):
    """Hyper-parameters of G-Mixup.

    Args:
        share: largest share λ of the first class; each draw takes one from [share/2, share]. The paper has [0.1, 0.2];
            the public code [0.005, 0.01], which is all but the second class alone.
        ratio: synthetic graphs for each training graph.
        threshold: singular values of a class's mean adjacency below `threshold`·√n are dropped.
        draws: how many pairs of classes and shares are drawn.
    """

    share: float = 0.2
    ratio: float = 0.15
    threshold: float = 0.2
    draws: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", share=(0, 1), ratio=(0, None), threshold=(0, None), draws=(1, None))


class GMixup(ERM):
    r"""G-Mixup: Graph Data Augmentation for Graph Classification (Han et al., ICML 2022).

    .. math:: W = \lambda W_i + (1-\lambda) W_j, \quad y = \lambda y_i + (1-\lambda) y_j, \quad
              A_{uv} \sim \mathrm{Bernoulli}(W_{uv}), \quad
              \min_\theta \frac{\hat R + \rho\,\hat R_{syn}}{1 + \rho}

    Before training, the training graphs of each class are aligned by degree, cropped or filled to their median number
    of nodes, averaged, and cleaned by singular value thresholding into a graphon W. Node features of a place are mixed
    likewise: real ones are means, categories are drawn by their frequencies, and where the only feature of every
    training node is its degree, a new node has its own. A new edge has the features of a random edge of class i (with
    chance λ) or j. Classes of yes/no questions are the answers to the first; of regression, the halves below and above
    the median of the first number; and a class's label is its mean label, in every column. Each batch is joined by ρ
    times as many synthetic graphs, so that batch norm meets both in proportion. Without two classes there is nothing
    to mix: ERM.
    """

    name: ClassVar[str] = "g-mixup"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Han et al., ICML 2022"
    Settings: ClassVar[type[MethodSettings]] = GMixupSettings
    presets: ClassVar[Mapping[str, Callable[[], MethodSettings]]] = {
        "paper": GMixupSettings,
        "released": lambda: GMixupSettings(share=0.01),
    }
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "share": (0.01, 0.2),
        "ratio": (0.1, 0.2),
        "threshold": (0.05, 0.2),
    }

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GMixupSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.synthetic: Gatherer | None = None  # no buffer: `prepare` makes the same graphs again
        self.largest = (0, 0)  # nodes and edges of the largest of them

    def prepare(self, graphs: PackedGraphs, train: Tensor, seed: int) -> None:
        """Fit a graphon to each class of the training graphs and draw the synthetic ones."""
        chosen: GMixupSettings = self.settings
        self.synthetic = None
        if not chosen.ratio:
            return
        train = train.cpu()
        group, label = class_labels(graphs.y[train.to(graphs.device)].cpu(), self.schema.task)
        size = int(graphs.node_counts[train].median())
        graphons, tells_degree = [], self.schema.node.width == 1
        for number in group[group >= 0].unique():
            own = group == number
            members = graphs.select(train[own]).to("cpu")
            tells_degree = tells_degree and bool((members.x == degrees(members, self.schema.node)).all())
            graphons.append(fit_graphon(members, label[own].nanmean(0), size, chosen.threshold, self.schema.node))
        if len(graphons) > 1:
            total = max(1, round(chosen.ratio * len(train)))
            random = torch.Generator().manual_seed(seed)
            made = mixed_graphs(graphons, total, chosen.draws, chosen.share, self.schema.node, random)
            if tells_degree:
                made = replace(made, x=degrees(made, self.schema.node).to(made.x.dtype))
            self.synthetic = Gatherer(made.to(graphs.device))
            self.largest = int(made.node_counts.max()), int(made.edge_counts.max())

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss over originals and synthetic graphs."""
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
        """Synthetic graphs to go with a batch, at least one, in a layout that has room for any of them."""
        made, (nodes, edges) = synthetic.graphs, self.largest
        count = max(1, round(self.settings.ratio * batch.num_graphs))
        index = torch.randint(len(made), (count,), generator=self.random, device=made.device)
        wanted = (self.settings.ratio * batch.real_graphs.sum()).round().clamp(min=1)
        index = torch.where(torch.arange(count, device=made.device) < wanted, index, -1)
        return synthetic.padded(index, Shape(count, count * nodes + 1, count * edges))
