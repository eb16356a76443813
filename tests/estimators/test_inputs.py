"""What people bring, as packed graphs."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from outland.estimators.inputs import BadInput, read_inputs
from tests.conftest import odd_graphs


def test_molecules_have_groups_where_they_are_asked_for():
    smiles = ["c1ccccc1O", "Oc1ccccc1", "CCO", "c1ccccc1N"]
    inputs = read_inputs(smiles, scaffold=True, clusters=True)
    assert (inputs.kind, inputs.texts) == ("molecules", tuple(smiles))
    assert inputs.groups["molecule"].tolist() == [0, 0, 1, 2]
    assert inputs.groups["scaffold"].tolist() == [0, 0, 1, 0]
    assert inputs.columns["size"].tolist() == [7, 7, 3, 7]
    assert set(inputs.columns) == {"molecule", "scaffold", "cluster", "size"}
    assert set(read_inputs(smiles).groups) == {"molecule"}


def test_graphs_are_taken_as_they_are():
    graphs = odd_graphs()
    inputs = read_inputs(graphs)
    assert (inputs.kind, inputs.texts, inputs.node.width, inputs.edge) == ("graphs", (), 3, None)
    assert inputs.graphs.node_counts.tolist() == [len(graph.x) for graph in graphs]
    assert graphs[2].y.tolist() == [2]  # the user's graphs stay as they are


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0, dtype=torch.long)), "this is one graph; give a list"),
        (7, "give a list of SMILES, molecules or graphs, not a int"),
        (np.zeros((2, 1, 1)), r"not a table of shape \(2, 1, 1\)"),
        (["x" * 100], r"row 0: RDKit cannot read the SMILES \('x{56}\.\.\.\)"),
    ],
)
def test_other_things_are_sentences(rows, words):
    with pytest.raises(BadInput, match=words):
        read_inputs(rows)
