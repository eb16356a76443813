"""What predictions rest on."""

import torch
from torch_geometric.explain import Explanation, groundtruth_metrics

from outland.chem.featurizer import ATOMS, BONDS, parse
from outland.estimators import GraphClassifier
from outland.estimators.inputs import read_inputs
from outland.graphs import Batches, Schema, Task
from outland.methods import build_method, method_settings
from outland.models.explanations import explain_weights, saliency, weights_phrase
from outland.nn import BackboneSettings
from tests.models.cases import SMALL, bbbp


def quick() -> GraphClassifier:
    return GraphClassifier("erm", epochs=1, backbone=SMALL).fit(*bbbp())


def test_explanations_are_pygs(fitted):
    smiles, _ = bbbp()
    explanations = fitted.explain(smiles[:5])
    assert all(isinstance(explanation, Explanation) and explanation.validate() for explanation in explanations)
    assert [len(explanation.x) for explanation in explanations] == [parse(text).GetNumAtoms() for text in smiles[:5]]
    first = explanations[0]
    assert first.kind == "stable mask"
    assert ((first.node_mask >= 0) & (first.node_mask <= 1)).all()
    pairs = {
        (u, v): weight for (u, v), weight in zip(first.edge_index.T.tolist(), first.edge_mask.tolist(), strict=True)
    }
    assert all(pairs[v, u] == weight for (u, v), weight in pairs.items())
    truth = (first.edge_mask > first.edge_mask.median()).long()
    assert groundtruth_metrics(first.edge_mask, truth, metrics="auroc") == 1.0


def test_a_method_without_masks_is_explained_by_saliency():
    smiles, _ = bbbp()
    model = quick()
    plain = model.explain(smiles[:2])
    assert plain[0].kind == "gradient saliency"
    assert float(plain[0].node_mask.max()) == 1.0
    assert float(plain[0].node_mask.min()) < 0.9
    assert "the atom that moves it most" in weights_phrase(model.model_)
    for parameter in model.model_.method.parameters():  # the output depends on no node
        parameter.data.zero_()
    (explanation,) = model.explain(["CCO"])
    assert explanation.node_mask.tolist() == [[0.0], [0.0], [0.0]]


def test_weights_are_split_by_graph(fitted):
    graphs = read_inputs(["CCO", "C", "c1ccccc1"]).graphs
    weights = explain_weights(fitted.model_, graphs)
    assert [(len(node), len(edge)) for node, edge in weights.by_graph(graphs)] == [(3, 4), (1, 0), (6, 12)]


def test_saliency_is_that_of_the_target():
    """Of two targets of which one depends on no node."""
    task = Task("binary", 2, "rocauc")
    schema = Schema(ATOMS, task, BONDS)
    method = build_method("erm", schema, BackboneSettings(width=8, layers=3), method_settings("erm", {}))
    head = [module for module in method.modules() if isinstance(module, torch.nn.Linear)][-1]
    assert head.out_features == 2
    head.weight.data[1] = 0
    graphs = read_inputs(["CCO", "c1ccccc1N"]).graphs
    (batch,) = Batches(graphs, torch.arange(2), 2)
    first, second = (saliency(method, batch, target).node for target in (0, 1))
    assert [float(part.max()) for part in first.split([3, 7])] == [1.0, 1.0]
    assert second.tolist() == [0.0] * 10
