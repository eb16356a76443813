"""Rows with what their predictions rest on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators.inputs import read_inputs
from outland.models.explained_rows import explain_part, explain_table, has_more_rows, label_text
from tests.models.cases import TABLE, bbbp


def test_explained_rows_carry_weights_and_truth(fitted):
    explained = explain_table(fitted.model_, TABLE, "smiles", "p_np", most=70)
    rows = explained.rows
    assert (explained.show, explained.towards) == ("contributions", "1")
    assert [row.row for row in rows] == list(range(1, 71))
    assert {row.problem for row in rows} == {"", "RDKit cannot read the SMILES"}
    for row in rows[:20]:
        molecule = parse(row.smiles)
        assert (len(row.nodes), row.edges, row.ends) == (molecule.GetNumAtoms(), (), ())
        assert row.truth == row.cells["p_np"]
        assert row.is_training
    (explanation,) = fitted.explain([rows[0].smiles])
    assert np.allclose(rows[0].nodes, explanation.node_mask[:, 0], atol=1e-6)
    assert (
        explain_table(fitted.model_, TABLE, "smiles", most=5).rows[0].truth == ""
    )  # the model does not know the column
    with pytest.raises(OutlandError, match="is 'name' its column of SMILES"):
        explain_table(fitted.model_, TABLE, "name", most=1)


@pytest.mark.parametrize("show", ["contributions", "mask"])
def test_a_part_is_explained_edge_by_edge(fitted, show):
    smiles, labels = bbbp()
    graphs = replace(read_inputs(smiles).graphs, y=torch.tensor(labels).float()[:, None])
    table = explain_table(fitted.model_, TABLE, "smiles", "p_np", most=3, show=show).rows
    rows = explain_part(fitted.model_, graphs, most=3, show=show).rows
    assert [row.row for row in rows] == [1, 2, 3]
    for row, same in zip(rows, table, strict=True):
        assert row.smiles == ""
        assert row.truth == same.truth
        assert len(row.nodes) == len(same.nodes)
        assert show == "contributions" or np.allclose(row.nodes, same.nodes, atol=1e-6)  # descriptors are left whole
        assert np.allclose(sorted(row.edges), sorted(same.edges))
        bonds = parse(same.smiles).GetNumBonds()
        assert (len(row.ends), len(row.edges)) == (bonds, bonds if show == "mask" else 0)
        assert all(source < target for source, target in row.ends)
        assert row.prediction == same.prediction
    assert label_text(fitted.model_, replace(graphs, y=torch.full((298, 1), float("nan"))), 0) == ""


def test_whether_a_table_has_more_rows():
    assert (has_more_rows(TABLE, 299), has_more_rows(TABLE, 300)) == (True, False)


def test_labels_of_several_targets_are_told_apart(fitted):
    graphs = replace(read_inputs(["CCO"]).graphs, y=torch.tensor([[1.0, 0.0, float("nan"), 7.0]]))
    assert [label_text(fitted.model_, graphs, 0, target) for target in range(5)] == ["1", "0", "", "7", ""]


def test_labels_of_any_spelling_are_named_as_the_model_does(fitted, tmp_path):
    (tmp_path / "t.csv").write_text("smiles,y\nCCO,1.0\nCCN,0\nCCC,TRUE\nCCF,2\nCCl,\n")
    rows = explain_table(fitted.model_, tmp_path / "t.csv", "smiles", "y").rows
    assert [row.truth for row in rows] == ["1", "0", "1", "", ""]
    named = replace(fitted.model_, classes=("no", "Yes"))
    (tmp_path / "t.csv").write_text("smiles,y\nCCO,YES\nCCN,no\nCCC,1\n")
    assert [row.truth for row in explain_table(named, tmp_path / "t.csv", "smiles", "y").rows] == ["Yes", "no", ""]
