"""What tests of several methods share: toy batches and models."""

import dataclasses

import torch

from outland.graphs import Batches, BatchShape, PackedGraphs, Schema, Task
from outland.graphs.batches import Gatherer
from outland.methods import Progress, build_method, method_settings
from outland.methods.parts.weighting import WeightingSettings, scaled_dependence
from tests.cases import SMALL, doubled
from tests.conftest import REAL, SETS, odd_graphs, whole

# The shared toy of the golden values: logits, labels, environments.
LOGITS = torch.tensor([[1, 0, -1], [0.5, -0.5, 0], [2, 1, 0], [-1, 0, 1]], dtype=torch.double)
LATE = Progress(epoch=9, epochs=10)
CLASSES = Task("multiclass", 3, "accuracy")


def toy(y=(0, 1, 0, 2), environment=(0, 0, 1, 1)):
    batch = whole(PackedGraphs.from_data_list(odd_graphs()[: len(y)]))
    return batch.replace(y=torch.tensor(y), environment=torch.tensor(environment[: len(y)]))


def built(name, schema=REAL, backbone=SMALL, **changes):
    torch.manual_seed(0)
    method = build_method(name, schema, backbone, method_settings(name, changes)).double()
    method.reseed(0, torch.device("cpu"))
    return method


def odd_batch(layout="exact"):
    return doubled(whole(PackedGraphs.from_data_list(odd_graphs()), layout))


def some(kind="real", layout="exact"):
    schema, make = SETS[kind]
    return schema, doubled(whole(PackedGraphs.from_data_list(make()), layout))


def numbers(*values, **kinds):
    return torch.tensor(values, dtype=torch.double, **kinds)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def same_graphs(one, other):
    return all(torch.equal(one.tensors()[name], value) for name, value in other.tensors().items())


def regression():
    """Graphs with one real label, one of them unknown."""
    graphs = odd_graphs()
    for index, graph in enumerate(graphs):
        graph.y = torch.tensor([[float("nan") if index == 2 else index / 3]])
    schema = Schema(REAL.node, Task("regression", 1, "rmse"), environments=2)
    return schema, doubled(whole(PackedGraphs.from_data_list(graphs)))


def motif_batch(motif, size=6, layout="exact"):
    batch = next(iter(Batches(motif.graphs, motif["train"][:size], size, layout=layout)))
    return batch.replace(x=batch.x.double())


def padded_with_graphs(graphs):
    """All graphs as one batch, and three that are padding."""
    shape = BatchShape(len(graphs) + 3, int(graphs.node_counts.sum()) + 5, int(graphs.edge_counts.sum()) + 4)
    return doubled(Gatherer(graphs).padded(torch.arange(len(graphs)), shape))


def all_known(any_set):
    """The same graphs with every unknown label answered by no."""
    schema, graphs = any_set
    return schema, dataclasses.replace(graphs, y=graphs.y.nan_to_num(0.0) if graphs.y.is_floating_point() else graphs.y)


def gradients(value, module):
    actual = torch.autograd.grad(value, list(module.parameters()), retain_graph=True, allow_unused=True)
    return [torch.zeros(()) if gradient is None else gradient for gradient in actual]


def assert_same_grads(found, expected, method, atol=1e-9):
    """Two values move the classifier in the same direction, by the same amount."""
    parameters = list(method.classifier.parameters())
    grads = [
        torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True) for value in (found, expected)
    ]
    moved = 0
    for first, second in zip(*grads, strict=True):
        assert (first is None) == (second is None)
        if first is not None:
            assert torch.allclose(first, second, atol=atol)
            moved += bool((second.abs() > 1e-6).any())
    assert moved > 5


def drawn_scores(batch, seed=0):
    scores = torch.randn(batch.num_edges, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return (scores + batch.reversed(scores)) / 2


def correlated(rows=40, width=6, seed=0):
    random = torch.Generator().manual_seed(seed)
    base = torch.randn(rows, 2, generator=random, dtype=torch.double)
    return base @ torch.randn(2, width, generator=random, dtype=torch.double)


def uniform(rows):
    return torch.full((rows,), 1 / rows, dtype=torch.double)


class Frozen:
    """A dependence of which every inner step is the first."""

    def __init__(self, first):
        self.first = first

    def value(self, step, weights):
        return self.first.value(0, weights)

    def gradient(self, step, weights):
        return self.first.gradient(0, weights)


def frozen(seed=0, **changes):
    """Fourier dependence whose draws are the same at every inner step."""
    settings = WeightingSettings(**changes)
    return lambda rows, valid: Frozen(scaled_dependence(rows, valid, seeded(seed), settings))
