import doctest
import math

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from outland.errors import OutlandError
from outland.graphs import Features, Task
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.tables import data_list
from outland.tables.data_list import splits_from_data_list
from outland.training import Trainer, TrainSettings
from tests.conftest import chemical_graphs, odd_graphs, undirected

NAN = float("nan")


def rings(count: int = 20, **fields) -> list[Data]:
    """Rings of 3, 4, 5, ... nodes with real features of width 2; fields are made from each one's index."""
    random = torch.Generator().manual_seed(0)
    graphs = []
    for index in range(count):
        size = 3 + index
        made = {
            "x": torch.randn(size, 2, generator=random),
            "edge_index": undirected(*((node, (node + 1) % size) for node in range(size))),
            "y": torch.tensor([index % 2]),
        }
        made |= {name: make(index) for name, make in fields.items()}
        graphs.append(Data(**{name: value for name, value in made.items() if value is not None}))
    return graphs


class Rings(InMemoryDataset):
    def __init__(self):
        super().__init__()
        self.data, self.slices = self.collate(rings())


def sizes(splits) -> dict[str, int]:
    return {name: len(index) for name, index in splits.parts.items()}


def test_doc_string_example():
    result = doctest.testmod(data_list)
    assert result.attempted > 0
    assert result.failed == 0


def test_random_split_follows_the_seed():
    first, again, other = (splits_from_data_list(rings(), seed=seed) for seed in (1, 1, 2))
    assert sizes(first) == {"train": 16, "val": 2, "test": 2}
    assert torch.cat(list(first.parts.values())).sort().values.equal(torch.arange(20))
    assert all(first[part].equal(again[part]) for part in first.parts)
    assert not first["train"].equal(other["train"])
    assert sizes(splits_from_data_list(rings(), fractions=(0.5, 0.3, 0.2))) == {"train": 10, "val": 6, "test": 4}
    assert first.source == {"dataset": "own", "domain": "random", "kind": "none", "seed": 1}


def test_size_split_trains_on_the_largest_and_tests_on_the_smallest():
    splits = splits_from_data_list(rings(), split="size")
    assert splits["train"].tolist() == list(range(19, 3, -1))
    assert splits["val"].tolist() == [3, 2]
    assert splits["test"].tolist() == [1, 0]
    same = splits_from_data_list([rings(1)[0]] * 10, split="size")
    assert torch.cat(list(same.parts.values())).tolist() == list(range(10))
    assert splits.source["kind"] == "covariate"


def test_given_split():
    indices = {"train": range(10), "id_val": torch.tensor([10]), "val": [12, 11], "test": [19]}
    splits = splits_from_data_list(rings(), split=indices)
    assert {name: index.tolist() for name, index in splits.parts.items()} == {
        "train": list(range(10)),
        "id_val": [10],
        "val": [12, 11],
        "test": [19],
    }


def test_pyg_dataset_gives_the_same_as_a_list():
    listed, dataset = splits_from_data_list(rings()), splits_from_data_list(Rings())
    assert listed.schema == dataset.schema
    for name, tensor in listed.graphs.tensors().items():
        assert tensor.equal(dataset.graphs.tensors()[name]), name


def test_graphs_of_every_kind():
    splits = splits_from_data_list(odd_graphs() * 2)
    assert splits.schema.node == Features(3)
    assert splits.schema.task == Task("multiclass", 3, "accuracy")
    assert splits.schema.environments == 2
    splits = splits_from_data_list(
        chemical_graphs() * 2, split={"train": range(6), "val": range(6, 9), "test": range(9, 12)}
    )
    x, kinds = (torch.cat([graph[name] for graph in chemical_graphs()]) for name in ("x", "edge_attr"))
    assert splits.schema.node == Features(2, tuple((x.amax(0) + 1).tolist()))
    assert splits.schema.edge == Features(1, (int(kinds.max()) + 1,))
    assert splits.schema.task == Task("binary", 2, "rocauc")


def test_graphs_without_x_get_a_constant():
    splits = splits_from_data_list(rings(x=lambda index: None, num_nodes=lambda index: 5 + index))
    assert splits.schema.node == Features(1)
    assert splits.graphs.x.equal(torch.ones(sum(range(5, 25)), 1))
    assert splits.graphs.node_counts.tolist() == list(range(5, 25))


def test_one_column_and_double_precision():
    splits = splits_from_data_list(rings(x=lambda index: torch.zeros(3 + index, dtype=torch.float64)))
    assert splits.schema.node == Features(1)
    assert splits.graphs.x.dtype == torch.float32


@pytest.mark.parametrize(
    ("label", "task", "shape"),
    [
        (lambda i: torch.tensor([i % 3]), Task("multiclass", 3, "accuracy"), (20,)),
        (lambda i: torch.tensor([0]), Task("multiclass", 2, "accuracy"), (20,)),
        (lambda i: i % 4, Task("multiclass", 4, "accuracy"), (20,)),
        (lambda i: torch.tensor(i % 2 == 0), Task("multiclass", 2, "accuracy"), (20,)),
        (lambda i: torch.tensor([[1.0, NAN if i else 0.0]]), Task("binary", 2, "rocauc"), (20, 2)),
        (lambda i: torch.tensor([float(i % 2)]), Task("binary", 1, "rocauc"), (20, 1)),
        (lambda i: torch.tensor([[i % 2, 1]]), Task("binary", 2, "rocauc"), (20, 2)),
        (lambda i: i / 7, Task("regression", 1, "rmse"), (20, 1)),
        (lambda i: torch.tensor([[0.5, NAN, i]]), Task("regression", 3, "rmse"), (20, 3)),
    ],
)
def test_labels_tell_the_task(label, task, shape):
    splits = splits_from_data_list(rings(y=label))
    assert splits.schema.task == task
    assert splits.graphs.y.shape == shape
    assert splits.graphs.y.is_floating_point() == (task.kind != "multiclass")


def test_given_task_decides_the_form_of_the_labels():
    binary = splits_from_data_list(rings(), task=Task("binary", 1, "ap"))
    assert binary.graphs.y.equal((torch.arange(20) % 2).float()[:, None])
    classes = splits_from_data_list(rings(y=lambda i: float(i % 2)), task=Task("multiclass", 3, "accuracy"))
    assert classes.graphs.y.equal(torch.arange(20) % 2)
    assert splits_from_data_list(rings(y=lambda i: i), task=Task("regression", 1, "rmse")).graphs.y.shape == (20, 1)


def test_environments_of_the_training_part_come_first():
    indices = {"train": range(10, 20), "val": range(5), "test": range(5, 10)}
    graphs = rings(environment=lambda i: torch.tensor([{0: 2, 1: 4, 2: 30, 3: 7}[i // 5]]))
    splits = splits_from_data_list(graphs, split=indices)
    assert splits.schema.environments == 2
    assert splits.graphs.environment[::5].tolist() == [2, 3, 1, 0]
    named = splits_from_data_list(graphs, split=indices, environments=[("b", "a")[i % 2] for i in range(20)])
    assert named.graphs.environment.tolist() == [1, 0] * 10
    assert splits_from_data_list(rings(), split=indices).graphs.environment is None
    assert splits_from_data_list(rings(), split=indices).schema.environments == 0
    numbers = splits_from_data_list(rings(), split=indices, environments=torch.arange(20) // 10)
    assert (numbers.schema.environments, numbers.graphs.environment[::10].tolist()) == (1, [1, 0])


def test_the_graphs_are_left_as_they_are():
    graphs = rings(x=lambda index: None, num_nodes=lambda index: 3 + index, environment=lambda index: index % 2 + 5)
    splits_from_data_list(graphs, environments=[0] * 20)
    assert all(graph.x is None and graph.environment >= 5 for graph in graphs)


def only(index: int, value, otherwise):
    """A field that differs in one graph."""
    return lambda i: value if i == index else otherwise(i) if callable(otherwise) else otherwise


def real(index: int) -> torch.Tensor:
    return torch.zeros(3 + index, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": only(4, torch.zeros(7, 3), real)}, "graph 4 has 3 columns of x, graph 0 has 2"),
        ({"x": only(4, None, real)}, "graph 4 has no x, though others do"),
        ({"x": only(0, None, real)}, "graph 0 has no x, though others do"),
        ({"x": only(4, torch.zeros(7, 2).long(), real)}, "x is real in one of graph 0 and graph 4"),
        ({"x": only(4, [[0.0, 1.0]], real)}, "graph 4: x must have 1 rows of features, not list"),
        ({"x": only(4, torch.full((7, 2), NAN), real)}, r"graph 4, node 0: a feature is NaN or infinite"),
        ({"x": only(4, -torch.ones(7, 2).long(), lambda i: real(i).long())}, "graph 4, node 0: .* outside the voc"),
        ({"x": lambda i: real(i).long() + 2**31}, r"node feature 0 goes up to 2147483648: .* make the features real"),
        ({"edge_attr": only(4, None, lambda i: torch.ones(6 + 2 * i))}, "graph 4 has no edge_attr, though others do"),
        ({"edge_attr": only(0, None, lambda i: torch.ones(6 + 2 * i))}, "graph 0 has no edge_attr, though others do"),
        (
            {"edge_attr": lambda i: torch.ones(6)},
            r"graph 1: edge_attr must have 8 rows of features, not \[6\] of float",
        ),
        ({"edge_index": only(4, None, undirected((0, 1)))}, "graph 4 has no edge_index"),
        (
            {"edge_index": only(4, torch.tensor([[0], [7]]), undirected((0, 1)))},
            "graph 4 has an edge to a node it does",
        ),
        ({"edge_index": only(4, torch.tensor([[0], [-1]]), undirected((0, 1)))}, "graph 4 has an edge to node -1"),
        ({"edge_index": only(4, torch.zeros(3, 2).long(), undirected((0, 1)))}, r"graph 4: edge_index must be \[2, e"),
        ({"y": only(4, None, 1)}, "graph 4 has no y"),
        ({"y": only(4, -1, 1)}, "graph 4 has the label -1; it must be a class from 0 to 1"),
        ({"y": only(4, "yes", 1)}, "graph 4: the label 'yes' is not a number"),
        ({"y": only(4, torch.ones(3), torch.ones(2))}, "graph 4 has 3 labels, graph 0 has 2"),
        ({"y": only(4, 10**7, 1)}, "graph 4 has the label 10000000: .* make the labels real numbers"),
        ({"y": only(4, math.inf, 0.5)}, r"graph 4 has the label \[inf\]; it must be a finite number"),
        ({"y": lambda i: NAN}, "no graph has a label"),
        ({"environment": only(4, None, 1)}, "graph 4 has no environment, though others do"),
        ({"environment": only(4, "lab", 1)}, "graph 4: environment must be one whole number, not 'lab'"),
        ({"environment": only(4, torch.tensor([0.5]), 1)}, "graph 4: environment must be one whole number"),
        ({"environment": only(4, torch.tensor([0, 1]), 1)}, "graph 4: environment must be one whole number"),
    ],
)
def test_bad_graph_is_named(fields, message):
    with pytest.raises(OutlandError, match=message):
        splits_from_data_list(rings(**fields))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "sise"}, r"unknown split 'sise'\. Did you mean 'size'\? Valid: random, size"),
        ({"split": {"train": [0], "vall": [1], "test": [2]}}, r"unknown part 'vall'\. Did you mean 'val'"),
        ({"split": {"train": [0, 5], "val": [1], "test": [2, 5]}}, "graph 5 is in 'train' and 'test'; a graph is in"),
        ({"split": {"train": [0, 0], "val": [1], "test": [2]}}, "graph 0 is in 'train' twice"),
        ({"split": {"train": [0], "val": [20], "test": [2]}}, "'val' names graph 20; there are graphs 0 to 19"),
        ({"split": {"train": [0], "val": [-1], "test": [2]}}, "'val' names graph -1"),
        ({"split": {"train": [0], "val": [], "test": [2]}}, "the part 'val' has no graphs"),
        ({"split": {"train": [0], "test": [2]}}, "the part 'val' has no graphs"),
        ({"split": {"val": [0], "test": [2]}}, "the part 'train' has no graphs"),
        ({"split": {"train": [0], "val": [1], "test": [2], "id_val": []}}, "the part 'id_val' has no graphs"),
        ({"split": {"train": [0.5], "val": [1], "test": [2]}}, "'train' must be a list of whole numbers"),
        ({"split": {"train": torch.ones(20).bool(), "val": [1], "test": [2]}}, "'train' must be a list of whole"),
        ({"fractions": (0.8, 0.1, 0.2)}, "three positive numbers that add up to 1"),
        ({"fractions": (0.98, 0.01, 0.01)}, "the part 'val' has no graphs"),
        ({"environments": [0, 1]}, "there are 2 environments for 20 graphs"),
        ({"task": Task("binary", 2, "rocauc")}, "the graphs have 1 labels each, the task asks for 2"),
    ],
)
def test_bad_option_is_refused_in_a_sentence(options, message):
    with pytest.raises(OutlandError, match=message):
        splits_from_data_list(rings(), **options)


def test_what_is_not_a_list_of_graphs():
    with pytest.raises(OutlandError, match="there are no graphs to pack"):
        splits_from_data_list([])
    with pytest.raises(OutlandError, match="graph 0 is a tuple, not a PyG Data"):
        splits_from_data_list(rings()[0])
    with pytest.raises(OutlandError, match="graph 0 has neither x nor num_nodes nor edge_index"):
        splits_from_data_list([Data(y=1)])
    with pytest.raises(OutlandError, match=r"graph 3 has the label 1\.5; a class is a whole number"):
        splits_from_data_list(rings(y=only(3, 1.5, 1.0)), task=Task("multiclass", 2, "accuracy"))


@pytest.mark.parametrize("name", ["erm", "aia"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"x": lambda i: torch.arange(3 + i), "edge_attr": lambda i: torch.rand(6 + 2 * i, 3)},
        {"x": lambda i: None, "num_nodes": lambda i: 3 + i, "y": lambda i: i / 9},
        {"y": lambda i: torch.tensor([[float(i % 2), NAN]]), "environment": lambda i: i % 3},
    ],
    ids=["classes", "categories", "numbers", "questions"],
)
def test_one_epoch(name, fields):
    splits = splits_from_data_list(rings(**fields), fractions=(0.5, 0.25, 0.25))
    method = build_method(name, splits.schema, BackboneSettings(width=8), method_settings(name, {}))
    trainer = Trainer(method, splits, TrainSettings(epochs=1, batch_size=5))
    trainer.fit()
    assert set(trainer.curves[0]) == {"epoch", "loss", "diagnostics", "val", "test"}
    assert all(math.isfinite(value) for value in trainer.curves[0]["loss"].values())
