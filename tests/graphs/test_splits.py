import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Splits
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs


def splits(schema, graphs, **parts):
    index = {"train": [0, 1], "val": [2, 3], "test": [4, 5]} | parts
    packed = PackedGraphs.from_data_list(graphs)
    return Splits(packed, {name: torch.tensor(value, dtype=torch.long) for name, value in index.items()}, schema)


def test_sound_splits_pass():
    assert splits(REAL, odd_graphs()).check()
    assert splits(CHEMICAL, chemical_graphs()).check()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_bad_feature_names_graph_and_node(value):
    graphs = odd_graphs()
    graphs[4].x[2, 1] = value
    with pytest.raises(OutlandError, match="graph 4, node 2: a feature is NaN or infinite"):
        splits(REAL, graphs).check()


def test_category_outside_the_vocabulary():
    graphs = chemical_graphs()
    graphs[3].edge_attr[1] = 4
    with pytest.raises(OutlandError, match="graph 3, edge 1: a feature is outside the vocabulary"):
        splits(CHEMICAL, graphs).check()


@pytest.mark.parametrize(("label", "expected"), [(3, "a class from 0 to 2"), (-1, "a class from 0 to 2")])
def test_label_out_of_range_names_the_graph(label, expected):
    graphs = odd_graphs()
    graphs[5].y[0] = label
    with pytest.raises(OutlandError, match=f"graph 5 has the label {label}; it must be {expected}"):
        splits(REAL, graphs).check()


def test_binary_label_that_is_neither():
    graphs = chemical_graphs()
    graphs[2].y[0, 1] = 0.5
    with pytest.raises(OutlandError, match="graph 2 has the label"):
        splits(CHEMICAL, graphs).check()


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_empty_part_is_named(part):
    with pytest.raises(OutlandError, match=f"part '{part}' has no graphs"):
        splits(REAL, odd_graphs(), **{part: []}).check()


@pytest.mark.parametrize(
    ("parts", "words"),
    [({"test": [4, 9]}, "part 'test' names a graph beyond the 6"), ({"val": [-1]}, "part 'val' names")],
)
def test_part_beyond_the_set(parts, words):
    with pytest.raises(OutlandError, match=words):
        splits(REAL, odd_graphs(), **parts).check()


def test_environment_beyond_the_schema():
    graphs = odd_graphs()
    graphs[1].environment[0] = 2
    with pytest.raises(OutlandError, match="training graph 1 has the environment 2; the schema has 2"):
        splits(REAL, graphs).check()


def test_graph_without_nodes_and_classes_that_are_no_whole_numbers():
    graphs = odd_graphs()
    graphs[2].x = graphs[2].x[:0]
    with pytest.raises(OutlandError, match="graph 2 has no nodes"):
        splits(REAL, graphs).check()
    graphs = odd_graphs()
    for graph in graphs:
        graph.y = graph.y.float()
    with pytest.raises(OutlandError, match="classes must be whole numbers"):
        splits(REAL, graphs).check()


def test_feature_width_must_match_the_schema():
    wide = dataclasses.replace(REAL, node=Features(4))
    with pytest.raises(OutlandError, match="nodes have 3 features, the schema says 4"):
        splits(wide, odd_graphs()).check()


def test_limit_draws_a_part_of_each_part(motif):
    small = motif.limit(100, seed=1)
    assert {len(index) for index in small.parts.values()} == {100}
    assert all(set(small[name].tolist()) <= set(motif[name].tolist()) for name in motif.parts)
    assert small["train"].equal(motif.limit(100, seed=1)["train"])
    assert not small["train"].equal(motif.limit(100, seed=2)["train"])
