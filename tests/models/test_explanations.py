"""What predictions rest on."""

import pytest
import torch
from torch_geometric.explain import Explanation, groundtruth_metrics

from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import GraphClassifier
from outland.estimators.inputs import read_inputs
from outland.models.contributions import contributions
from outland.models.explanations import stable_mask
from tests.models.cases import SMALL, bbbp


@pytest.mark.parametrize(("show", "kind"), [("contributions", "contributions"), ("mask", "stable mask")])
def test_explanations_are_pygs(fitted, show, kind):
    smiles, _ = bbbp()
    explanations = fitted.explain(smiles[:5], show)
    assert all(isinstance(explanation, Explanation) and explanation.validate() for explanation in explanations)
    assert [len(explanation.x) for explanation in explanations] == [parse(text).GetNumAtoms() for text in smiles[:5]]
    first = explanations[0]
    assert first.kind == kind
    assert bool((first.node_mask < 0).any()) is (show == "contributions")
    pairs = {
        (u, v): weight for (u, v), weight in zip(first.edge_index.T.tolist(), first.edge_mask.tolist(), strict=True)
    }
    assert all(pairs[v, u] == weight for (u, v), weight in pairs.items())
    truth = (first.edge_mask > first.edge_mask.median()).long()
    assert groundtruth_metrics(first.edge_mask, truth, metrics="auroc") == pytest.approx(1.0)


def test_contributions_of_smiles_and_molecules_are_the_same(fitted):
    texts = ["CCO", "c1ccccc1N"]
    molecules = [parse(text) for text in texts]
    expected = contributions(fitted.model_, read_inputs(texts).graphs, molecules).node.float()
    for rows in (texts, molecules):
        assert torch.allclose(torch.cat([e.node_mask[:, 0] for e in fitted.explain(rows)]), expected, atol=1e-6)
    first = fitted.explain(["CCO"])[0]
    ends = first.node_mask[first.edge_index, 0]
    assert torch.allclose(first.edge_mask, ends.mean(0))


def test_masks_are_split_by_graph_and_refused_where_there_are_none(fitted):
    graphs = read_inputs(["CCO", "C", "c1ccccc1"]).graphs
    nodes, edges = stable_mask(fitted.model_, graphs)
    assert [(len(node), len(edge)) for node, edge in zip(nodes, edges, strict=True)] == [(3, 4), (1, 0), (6, 12)]
    assert all(((node >= 0) & (node <= 1)).all() for node in nodes)
    plain = GraphClassifier("erm", epochs=1, backbone=SMALL).fit(*bbbp()).model_
    with pytest.raises(OutlandError, match="erm has learned no mask: show contributions instead"):
        stable_mask(plain, graphs)
