"""Curves of explanations, against a model of which it is known what it reads."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Batches, PackedGraphs
from outland.graphs.induced import spanning_subgraphs
from outland.methods import build_method, method_settings
from outland.models import edge_curves as room
from outland.models.edge_curves import SHARES, class_logits, edge_curves, edge_ranks, leave_one_out, random_curves
from outland.nn import BackboneSettings
from tests.conftest import odd_graphs, undirected
from tests.models.cases import SMALL, bbbp

EDGES = 20  # of each ring, the first two of which decide
PROBABILITY = torch.tensor([0.15, 0.55, 0.95], dtype=torch.double)  # of class 1, by how many of the two are there


def rings(number: int) -> PackedGraphs:
    pairs = [(node, (node + 1) % EDGES) for node in range(EDGES)]
    decides = torch.tensor([[float(n < 2)] for n in range(EDGES)]).repeat(2, 1)
    ring = Data(x=torch.zeros(EDGES, 1), edge_index=undirected(*pairs), edge_attr=decides, y=torch.tensor([1]))
    return PackedGraphs.from_data_list([ring] * number)


def reads_two_edges(graphs: PackedGraphs) -> torch.Tensor:
    graph = torch.arange(len(graphs)).repeat_interleave(graphs.edge_counts)
    count = torch.zeros(len(graphs)).index_add(0, graph, graphs.edge_attr[:, 0]) / 2
    probability = PROBABILITY[count.long()]
    return torch.stack([1 - probability, probability], 1).log()


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_edges_that_decide_come_first(generator):
    graphs = rings(3)
    curves = edge_curves(reads_two_edges, graphs, graphs.edge_attr[:, 0], generator)
    deletion, insertion = curves.deletion, curves.insertion
    assert torch.allclose(deletion.fall, torch.tensor([0, 0.4] + [0.8] * 10).double().expand(3, -1))
    assert torch.allclose(insertion.fall, torch.tensor([0.8, 0.4] + [0] * 10).double().expand(3, -1))
    assert deletion.kept.tolist() == [[1, 1] + [0] * 10] * 3
    assert insertion.kept.tolist() == [[0] + [1] * 11] * 3
    assert torch.allclose(deletion.area, torch.tensor(0.05 * 0.2 + 0.05 * 0.6 + 0.9 * 0.8).double())
    assert torch.allclose(insertion.area, torch.tensor(0.05 * 0.6 + 0.05 * 0.2).double())


def test_edges_that_decide_come_last(generator):
    graphs = rings(1)
    curves = edge_curves(reads_two_edges, graphs, -graphs.edge_attr[:, 0], generator)
    assert curves.deletion.area.item() == pytest.approx(0.1 * 0.4)  # nothing falls before 90 %
    assert curves.insertion.area.item() == pytest.approx(0.9 * 0.8 + 0.1 * 0.4)


def test_a_random_order_has_the_analytic_mean(generator):
    curves = random_curves(reads_two_edges, rings(300), generator, draws=4)
    share = torch.tensor(SHARES).double()
    assert torch.allclose(curves.deletion.fall.mean(0), 0.8 * share, atol=0.02)
    assert torch.allclose(curves.insertion.fall.mean(0), 0.8 * (1 - share), atol=0.02)
    removed = EDGES * share
    assert torch.allclose(curves.deletion.kept.mean(0), 1 - removed * (removed - 1) / (20 * 19), atol=0.04)
    assert curves.deletion.area.mean().item() == pytest.approx(0.4, abs=0.01)


def test_ties_are_broken_at_random(generator):
    """Two edges that decide among four that tie: two of the four take one of them on average."""
    graphs = rings(500)
    score = torch.tensor([1.0] * 4 + [0.0] * 16).repeat(2).repeat(500)
    fall = edge_curves(reads_two_edges, graphs, score, generator).deletion.fall
    assert fall[:, 2].mean().item() == pytest.approx(0.4, abs=0.03)
    assert fall[:, 2].std().item() == pytest.approx(0.4 / 3**0.5, abs=0.03)  # 0, 1, 2 of them: 1/6, 4/6, 1/6
    assert (fall[:, 3] - 0.8).abs().max() < 1e-9


def test_gains_over_a_random_order_are_paired(generator):
    graphs = rings(30)
    curves = edge_curves(reads_two_edges, graphs, graphs.edge_attr[:, 0], generator)
    random = random_curves(reads_two_edges, graphs, generator, draws=2)
    intervals = curves.intervals(random)
    assert intervals["deletion"] == pytest.approx((0.76, 0.76, 0.76))
    gain = 0.76 - random.deletion.area.mean().item()
    spread = random.deletion.area.std().item() / 30**0.5
    assert intervals["deletion_gain"].mean == pytest.approx(gain)
    assert intervals["deletion_gain"].low == pytest.approx(gain - 1.96 * spread, abs=0.4 * spread)
    assert intervals["insertion_gain"].mean == pytest.approx(random.insertion.area.mean().item() - 0.04)
    same = random.intervals(random)
    assert same["deletion_gain"] == same["insertion_gain"] == (0, 0, 0)


def test_single_edges_are_left_out(monkeypatch):
    """Of copies with at most so many nodes together, or one graph that has more."""
    graphs = rings(2)
    fall = leave_one_out(reads_two_edges, graphs)
    one = (PROBABILITY[2].logit() - PROBABILITY[1].logit()).item()
    assert torch.allclose(fall, one * graphs.edge_attr[:, 0].double())
    asked = []

    def counted(some):
        asked.append(len(some))
        return reads_two_edges(some)

    for most, blocks in ((7 * EDGES + 1, [7] * 5 + [5]), (EDGES - 1, [1] * 40)):
        asked.clear()
        monkeypatch.setattr("outland.models.occlusion._MOST_NODES", most)
        assert torch.equal(leave_one_out(counted, graphs), fall)
        assert asked == [2, *blocks]
    asked.clear()
    bare = spanning_subgraphs(graphs, torch.zeros(len(fall), dtype=torch.bool))
    assert leave_one_out(counted, bare).shape == (0,)
    assert asked == [2]  # and no set of no graphs


def test_odd_graphs_are_ranked_by_undirected_edges(generator):
    """No edges, one node, a self-loop, one way only."""
    graphs = PackedGraphs.from_data_list(odd_graphs())
    score = torch.rand(len(graphs.reverse), generator=torch.Generator().manual_seed(0))
    rank, count = edge_ranks(graphs, score, generator)
    assert count.tolist() == [5, 0, 0, 3, 6, 1]
    for ranks, edges, number in zip(
        rank.split(graphs.edge_counts.tolist()), graphs.to_data_list(), count.tolist(), strict=True
    ):
        by_pair = {
            frozenset(pair): value for pair, value in zip(edges.edge_index.T.tolist(), ranks.tolist(), strict=True)
        }
        assert sorted(by_pair.values()) == list(range(int(number)))
    mean = (score + score[room.partners(graphs)]) / 2
    assert mean[rank[:10].argsort(stable=True)].diff().max() <= 0  # of the first graph


@pytest.mark.parametrize("name", ["erm", "cal", "aia"])
def test_padded_and_exact_batches_agree(any_set, generator, name):
    schema, graphs = any_set
    torch.manual_seed(0)
    method = build_method(name, schema, BackboneSettings(width=8, layers=3), method_settings(name, {})).double().eval()
    real = graphs.x.is_floating_point()

    def predict(layout):
        def logits(some):
            batches = Batches(some, torch.arange(len(some)), 4, layout=layout)
            with torch.inference_mode():
                rows = [(b, method(b.replace(x=b.x.double()) if real else b)) for b in batches]
            return torch.cat([out[batch.real_graphs] for batch, out in rows])

        return logits

    score = torch.rand(len(graphs.reverse), generator=torch.Generator().manual_seed(0))
    exact, padded = (edge_curves(predict(way), graphs, score, np.random.default_rng(0)) for way in ("exact", "padded"))
    assert exact.deletion.fall.abs().max() > 1e-3
    for first, second in ((exact.deletion, padded.deletion), (exact.insertion, padded.insertion)):
        assert torch.allclose(first.fall, second.fall, atol=1e-9)
    assert torch.allclose(leave_one_out(predict("exact"), graphs), leave_one_out(predict("padded"), graphs), atol=1e-9)
    assert exact.deletion.fall[:, 0].abs().max() < 1e-9  # nothing is removed, all is there
    assert exact.insertion.fall[:, -1].abs().max() < 1e-9


def test_logits_of_a_trained_model(fitted):
    smiles, labels = bbbp()
    graphs = read_inputs(smiles[:6]).graphs
    outputs = fitted.model_.predict(graphs).outputs.double()
    assert torch.allclose(class_logits(fitted.model_)(graphs).softmax(1)[:, 1:], outputs.sigmoid(), atol=1e-6)
    three = GraphClassifier("erm", epochs=1, backbone=SMALL).fit(smiles[:60], [n % 3 for n in range(60)]).model_
    assert torch.allclose(class_logits(three)(graphs), three.predict(graphs).outputs.double())
    numbers = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles[:40], [float(y) for y in labels[:40]]).model_
    with pytest.raises(OutlandError, match="one label with classes"):
        class_logits(numbers)
