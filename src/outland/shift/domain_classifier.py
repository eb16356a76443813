"""The domain classifier: a small network that learns from which of two sets a graph comes, and its features."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import update_bn

from outland.graphs import Batches, GraphBatch, Schema, Task
from outland.nn import GraphNet, Mask
from outland.shift.settings import ShiftSettings
from outland.shift.weighted import WeightedGraphs

_EVAL_BATCH = 128
_MAX_GRAD_NORM = 10.0  # only exceeded where all graphs are alike, and batch norm divides by almost nothing

WeightedBatch = tuple[GraphBatch, Mask | None]


class DomainClassifier(nn.Module):
    r"""Features z of a graph, and logits of the set it comes from, given its class y where classes are known.

    .. math:: z = h(g), \quad \mathrm{logits} = C\,(z \odot B\,\mathrm{onehot}(y))

    No non-linearity follows z, so the sets are linearly separable in it as far as the network can separate them. The
    class as an input lets z hold what differs only together with it; without labels there are 0 `classes`.
    """

    def __init__(self, settings: ShiftSettings, schema: Schema, classes: int) -> None:
        super().__init__()
        width = settings.features
        self.graph = GraphNet(settings.backbone, replace(schema, task=Task("regression", width, "rmse")))
        self.gate = nn.Linear(classes, width) if classes else None
        self.out = nn.Linear(width, 2)
        for layer in (self.graph.head.linear, self.gate, self.out):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, inputs: WeightedBatch) -> tuple[Tensor, Tensor]:
        """Features `[B, features]` and logits `[B, 2]` of a batch under its weights."""
        batch, mask = inputs
        z: Tensor = self.graph(batch, mask)
        if self.gate is None:
            return z, self.out(z)
        return z, self.out(z * self.gate(nn.functional.one_hot(batch.y, self.gate.in_features).to(z.dtype)))


def domain_features(
    graphs: WeightedGraphs,
    schema: Schema,
    classes: int,
    held_out: Tensor,
    settings: ShiftSettings,
    seed: int,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Features of all graphs by a domain classifier trained on those that are not held out.

    Args:
        graphs: both sets as one; `environment` is the side of each graph, `y` its class.
        schema, settings, seed: of the graphs, of the measurement, of the initial weights and the order of batches.
        classes: number of classes; 0 without labels.
        held_out: boolean mask of the graphs that are not trained on `[G]`.
        weight: of each graph in the loss `[G]`; batches have as many graphs of either side already.

    Returns:
        The features of all graphs `[G, features]`, and whether each one's side is predicted correctly `[G]`.
    """
    train = (~held_out).nonzero().flatten()
    classifier = train_domain_classifier(graphs, schema, classes, train, settings, seed, weight)
    features, correct = [], []
    with torch.no_grad():
        classifier.eval()
        for batch, mask in _batches(graphs, torch.arange(len(graphs))):
            z, logits = classifier((batch, mask))
            features.append(z)
            correct.append(logits.argmax(1) == batch.environment)
    return torch.cat(features).cpu(), torch.cat(correct).cpu()


def train_domain_classifier(
    graphs: WeightedGraphs,
    schema: Schema,
    classes: int,
    train: Tensor,
    settings: ShiftSettings,
    seed: int,
    weight: Tensor | None = None,
) -> nn.Module:
    """A `DomainClassifier` fitted to the graphs at `train`, its weights averaged over the second half of the steps.

    SGD with momentum; the learning rate is annealed over the first half, and then constant. Averaged weights keep
    equal sets from being told apart by chance. The other arguments are those of `domain_features`.
    """
    device = graphs.graphs.device
    weight = torch.ones(len(graphs), device=device) if weight is None else weight.to(device, torch.float)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = DomainClassifier(settings, schema, classes).to(device)
    parameters: list[Tensor] = list(net.parameters())
    average = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.SGD(parameters, settings.lr, momentum=0.9, weight_decay=settings.weight_decay)
    annealed = settings.steps // 2
    schedule = CosineAnnealingLR(optimizer, max(annealed, 1), eta_min=settings.lr / 2)
    for step, (batch, mask) in enumerate(islice(_training_batches(graphs, train, settings, seed), settings.steps)):
        _, logits = net((batch, mask))
        assert batch.environment is not None
        losses, share = nn.functional.cross_entropy(logits, batch.environment, reduction="none"), weight[batch.index]
        optimizer.zero_grad()
        ((losses * share).sum() / share.sum()).backward()
        nn.utils.clip_grad_norm_(parameters, _MAX_GRAD_NORM)
        optimizer.step()
        if step < annealed:
            schedule.step()
        else:
            torch._foreach_lerp_(average, [parameter.detach() for parameter in parameters], 1 / (step - annealed + 1))
    with torch.no_grad():
        torch._foreach_copy_(parameters, average)
        update_bn(([inputs] for inputs in _batches(graphs, train)), net)
    return net


def _training_batches(
    graphs: WeightedGraphs, index: Tensor, settings: ShiftSettings, seed: int
) -> Iterator[WeightedBatch]:
    """Shuffled batches with both sides in equal parts, epoch after epoch without end."""
    batches = Batches(graphs.graphs, index, settings.batch_size, shuffle=True, balance=True, seed=seed)
    for epoch in count():
        for batch in batches.epoch(epoch):
            yield batch, graphs.mask(batch)


def _batches(graphs: WeightedGraphs, index: Tensor) -> Iterator[WeightedBatch]:
    for batch in Batches(graphs.graphs, index, _EVAL_BATCH):
        yield batch, graphs.mask(batch)
