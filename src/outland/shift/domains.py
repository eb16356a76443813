"""The domain classifier: a small network that learns from which of two sets a graph comes, and its features."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import AveragedModel, update_bn

from outland.graphs import Batches, GraphBatch, Schema, Task
from outland.nn import GraphNet, Mask
from outland.shift.settings import ShiftSettings
from outland.shift.weighted import WeightedGraphs

_SCORING = 128  # graphs a batch when features are read off
_STEEPEST = 10.0  # norm of a gradient; only where all graphs look alike, and batch norm divides by nothing, is it more

Seen = tuple[GraphBatch, Mask | None]


class DomainNet(nn.Module):
    r"""Features z of a graph, and logits of the set it comes from, given its class y where classes are known.

    .. math:: z = h(g), \quad \mathrm{logits} = C\,(z \odot B\,\mathrm{onehot}(y))

    No non-linearity follows z: what tells the sets apart is laid out in it. That the class comes in lets z hold what
    differs only together with it.

    Args:
        settings: of the measurement.
        schema: of the graphs.
        classes: how many; 0 without labels.
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

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Features `[B, features]` and logits `[B, 2]` of a batch under its weights."""
        batch, mask = seen
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
    """Train a domain classifier on all graphs but those held out, and read off the features of all.

    Stochastic gradient descent with momentum, under a rate that falls and then stays; over the second half of the
    steps weights are averaged, which keeps equal sets from being told apart by chance.

    Args:
        graphs: both sets as one; `environment` is the side of each graph, `y` its class.
        schema: of the graphs.
        classes: how many; 0 without labels.
        held_out: which graphs it must not see `[G]`.
        settings: of the measurement.
        seed: of the first weights and the order of batches.
        weight: of each graph in the loss `[G]`; batches have as many graphs of either side already.

    Returns:
        The features of all graphs `[G, features]`, and whether each one's side is told rightly `[G]`.
    """
    train = (~held_out).nonzero().flatten()
    net = _trained(graphs, schema, classes, train, settings, seed, weight)
    with torch.no_grad():
        return _read(net.eval(), graphs)


def _trained(
    graphs: WeightedGraphs,
    schema: Schema,
    classes: int,
    train: Tensor,
    settings: ShiftSettings,
    seed: int,
    weight: Tensor | None,
) -> nn.Module:
    """The mean of a domain classifier's weights over the second half of its training."""
    device = graphs.graphs.device
    weight = torch.ones(len(graphs), device=device) if weight is None else weight.to(device, torch.float)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = DomainNet(settings, schema, classes).to(device)
    rate = settings.lr
    optimizer = torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=settings.weight_decay)
    first = settings.steps // 2
    falling = CosineAnnealingLR(optimizer, max(first, 1), eta_min=rate / 2)
    mean = AveragedModel(net)
    for step, (batch, mask) in enumerate(islice(_endless(graphs, train, settings, seed), settings.steps)):
        _, logits = net((batch, mask))
        assert batch.environment is not None
        losses, share = nn.functional.cross_entropy(logits, batch.environment, reduction="none"), weight[batch.index]
        optimizer.zero_grad()
        ((losses * share).sum() / share.sum()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), _STEEPEST)
        optimizer.step()
        if step < first:
            falling.step()
        else:
            mean.update_parameters(net)
    with torch.no_grad():
        update_bn(([seen] for seen in _pairs(graphs, train)), mean)
    return mean


def _endless(graphs: WeightedGraphs, index: Tensor, settings: ShiftSettings, seed: int) -> Iterator[Seen]:
    """Batches of both sides in equal parts, epoch after epoch."""
    batches = Batches(graphs.graphs, index, settings.batch_size, shuffle=True, balance=True, seed=seed)
    for epoch in count():
        for batch in batches.epoch(epoch):
            yield batch, graphs.mask(batch)


def _pairs(graphs: WeightedGraphs, index: Tensor) -> Iterator[Seen]:
    for batch in Batches(graphs.graphs, index, _SCORING):
        yield batch, graphs.mask(batch)


def _read(net: nn.Module, graphs: WeightedGraphs) -> tuple[Tensor, Tensor]:
    features, right = [], []
    for batch, mask in _pairs(graphs, torch.arange(len(graphs))):
        z, logits = net((batch, mask))
        features.append(z)
        right.append(logits.argmax(1) == batch.environment)
    return torch.cat(features).cpu(), torch.cat(right).cpu()
