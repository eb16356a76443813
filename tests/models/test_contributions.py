"""Contributions with a sign, against known answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from outland.chem.featurizer import parse, rdkit
from outland.estimators import GraphClassifier
from outland.estimators.inputs import read_inputs
from outland.models.calibration import Calibration
from outland.models.contributions import SHARES, contributions, summarize_falls, towards_phrase
from outland.models.trees import fit_forest
from tests.models.cases import bbbp


@pytest.fixture(scope="module")
def halogens():
    """Molecules, the halogens among their atoms, and a network that was taught whether there is one."""
    pattern = rdkit().MolFromSmarts("[F,Cl,Br,I;X1]")
    smiles = [text for text in bbbp()[0] if parse(text).GetNumAtoms() < 30][:160]
    matches = [parse(text).GetSubstructMatches(pattern) for text in smiles]
    labels = [int(bool(match)) for match in matches]
    model = GraphClassifier("erm", epochs=16, backbone={"width": 32, "layers": 2}, method_params={"lr": 0.01})
    return smiles, matches, model.fit(smiles, labels).model_


def test_the_atoms_that_decide_are_found(halogens):
    smiles, matches, model = halogens
    with_one = [number for number, match in enumerate(matches) if match][:25]
    graphs = read_inputs([smiles[number] for number in with_one]).graphs
    result = contributions(model, graphs)
    truth = []
    for number, count in zip(with_one, graphs.node_counts.tolist(), strict=True):
        decides = np.zeros(count)
        decides[[atom for match in matches[number] for atom in match]] = 1
        truth.append(decides)
    assert roc_auc_score(np.concatenate(truth), result.node) > 0.95
    assert result.node[np.concatenate(truth) == 1].mean() > 0.4
    assert result.faithfulness.low > 0
    assert len(result.faithfulness.top) == len(result.faithfulness.random) == len(SHARES)
    again = contributions(model, graphs)
    assert again.faithfulness == result.faithfulness
    away = contributions(model, graphs, towards="0", judge=False)
    assert torch.allclose(away.node, -result.node, atol=1e-6)
    assert away.faithfulness is None


def test_a_forest_finds_them_through_bits_and_descriptors(halogens):
    smiles, matches, model = halogens
    inputs = read_inputs(smiles).graphs
    labels = torch.tensor([float(bool(match)) for match in matches])[:, None]
    forest = fit_forest(replace(inputs, y=labels), model.task, 0, trees=40)
    some = [number for number, match in enumerate(matches) if match][:15]
    graphs = inputs.select(torch.tensor(some))
    trees = replace(model, members=(forest,), calibration=Calibration.identity(model.task))
    result = contributions(trees, graphs, [parse(smiles[number]) for number in some], judge=False)
    scores = []
    for number, values in zip(some, result.by_graph(graphs), strict=True):
        decides = np.isin(np.arange(len(values)), [atom for match in matches[number] for atom in match])
        scores.append(roc_auc_score(decides, values))
    assert np.mean(scores) > 0.8


def test_a_model_that_reads_no_atoms_is_not_called_faithful(halogens):
    smiles, _, model = halogens
    graphs = read_inputs(smiles[:10]).graphs
    weights = {name: value.clone() for name, value in model.method.state_dict().items()}
    for parameter in model.method.parameters():
        parameter.data.zero_()
    result = contributions(model, graphs)
    model.method.load_state_dict(weights)
    assert result.node.abs().max() == 0
    assert (result.faithfulness.score, result.faithfulness.low, result.faithfulness.high) == (0, 0, 0)


def test_single_atoms_have_contributions_and_no_faithfulness(halogens):
    graphs = read_inputs(["C", "O"]).graphs
    result = contributions(halogens[-1], graphs)
    assert [len(part) for part in result.by_graph(graphs)] == [1, 1]
    assert result.faithfulness is None


def test_the_interval_is_over_molecules():
    generator = np.random.default_rng(0)
    top, random = generator.normal(1.0, 0.5, (400, len(SHARES))), np.zeros((400, len(SHARES)))
    result = summarize_falls(top, random, generator)
    spread = top.mean(1).std() / 20
    assert result.score == pytest.approx(top.mean())
    assert result.low == pytest.approx(result.score - 1.96 * spread, abs=0.3 * spread)
    assert result.high == pytest.approx(result.score + 1.96 * spread, abs=0.3 * spread)
    assert result.graphs == 400


def test_what_contributions_are_towards(halogens):
    model = halogens[-1]
    assert towards_phrase(model) == "1"
    assert towards_phrase(model, towards="0") == "0"
