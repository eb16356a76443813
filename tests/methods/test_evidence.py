import math

import pytest
import torch

from outland.graphs import Batches
from outland.graphs.induced import spanning_subgraphs
from outland.methods import Progress
from outland.methods.parts.risk import mean_risk
from tests.cases import MethodCase, doubled
from tests.conftest import whole


class TestEvidence(MethodCase):
    name = "evidence"
    zero = {"whole": 1, "mix": 0, "walks": 0, "gate": False, "layer": False, "readout": "backbone"}
    still = {"whole": 1, "mix": 0}
    lowers = 18

    def test_rates_are_drawn_graph_by_graph(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:400], 400)))
        method = self.build(motif.schema, whole=0.5, drop=0.4)
        rate = torch.stack([method.draw_rates(batch) for _ in range(20)])[:, :-1]
        assert float((rate == 0).double().mean()) == pytest.approx(0.5, abs=0.02)
        assert float(rate.max()) <= 0.4
        assert float(rate[rate > 0].mean()) == pytest.approx(0.2, abs=0.01)

    def test_edges_go_at_the_rate_of_their_graph_in_both_directions(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:200], 200)))
        method = self.build(motif.schema)
        rate = torch.linspace(0, 1, batch.num_graphs + 1)
        thinned = torch.stack([1 - method.thin(batch, rate) for _ in range(50)])
        assert torch.equal(thinned, thinned[:, batch.reverse])
        dropped = thinned.mean(0)
        for low, high in ((0, 0.2), (0.4, 0.6), (0.8, 1)):
            inside = (rate[batch.edge_batch] >= low) & (rate[batch.edge_batch] <= high)
            assert float(dropped[inside].mean()) == pytest.approx(
                float(rate[batch.edge_batch][inside].mean()), abs=0.02
            )

    def test_the_risk_is_that_of_altered_graphs(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, whole=0, mix=1)
        batch = doubled(whole(graphs))
        state = method.random.get_state()
        risk = method.loss(batch, Progress())["risk"]
        method.random.set_state(state)
        mixed = batch.replace(x=method.mix(batch))
        edge = method.thin(batch, method.draw_rates(batch))
        assert 0 < float(edge.sum()) < batch.num_edges
        logits = method.classifier.head(method.readout(mixed, edge), mixed)
        assert float(risk.detach()) == pytest.approx(float(mean_risk(logits, batch, schema.task).detach()), rel=1e-9)

    def test_real_features_are_mapped_alike_in_all_of_a_graph(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, mix=0.5), doubled(whole(graphs))
        if schema.node.vocabulary is not None:
            assert torch.equal(method.mix(batch), batch.x)
            return
        width = schema.node.width
        x = torch.randn(3 * width, width, dtype=torch.double)
        batch = batch.replace(
            x=x, node_batch=torch.arange(3).repeat_interleave(width), node_count=torch.full((3,), width)
        )
        maps = torch.cat(
            [
                torch.linalg.solve(x.reshape(3, width, width), method.mix(batch).reshape(3, width, width))
                for _ in range(400)
            ]
        )
        size = maps.square().sum((1, 2))
        assert torch.allclose(size, torch.full_like(size, width), rtol=1e-6)
        is_identity = (maps - torch.eye(width)).abs().amax((1, 2)) < 1e-6
        assert float(is_identity.double().mean()) == pytest.approx(0.5, abs=0.05)
        assert float(maps[~is_identity].mean(0).abs().max()) < 0.1

    def test_closed_gates_leave_no_graph_to_tell_from_another(self, any_set):
        schema, graphs = any_set
        method = self.build(schema).eval()
        with torch.no_grad():
            before = method(doubled(whole(graphs)))
            for gate in (method.node_gate, method.edge_gate):
                gate.weight.zero_()
                gate.bias.fill_(-1000.0)
            after = method(doubled(whole(graphs)))
        assert float(before.std(0).min()) > 1e-6
        assert float(after.std(0).max()) < 1e-9

    def test_a_mask_is_the_probability_that_is_lost(self, motif):
        graphs = motif.graphs.select(motif["train"][:3])
        method = self.build(motif.schema).eval()
        batch = doubled(whole(graphs))
        with torch.no_grad():
            mask = method.masks(batch)["stable"]
            p = method(batch).softmax(1)
        called = p.argmax(1)
        first = torch.arange(batch.num_edges)[batch.first_direction & (batch.edge_batch == 1)]
        ends = batch.edge_index[:, batch.edge_batch == 1]

        def lost(keep):
            left = doubled(whole(spanning_subgraphs(graphs, keep)))
            with torch.no_grad():
                share = method(left).softmax(1)[1, called[1]] / p[1, called[1]]
            return max(0.0, -math.log(float(share)))

        everything = torch.ones(batch.num_edges, dtype=torch.bool)
        node_loss = {}
        for node in ends.unique().tolist():
            node_loss[node] = lost(everything & ~(batch.edge_index == node).any(0))
            assert float(mask.node[node]) == pytest.approx(1 - math.exp(-node_loss[node]), abs=1e-9)
        for edge in first.tolist():
            keep = everything.clone()
            keep[[edge, int(batch.reverse[edge])]] = False
            u, v = batch.edge_index[:, edge].tolist()
            expected = 1 - math.exp(-lost(keep) - min(node_loss[u], node_loss[v]))
            assert float(mask.edge[edge]) == pytest.approx(expected, abs=1e-9)
        assert float(mask.edge.max()) > 0

    def test_masks_do_not_depend_on_the_layout(self, any_set):
        schema, graphs = any_set
        method = self.build(schema).eval()
        with torch.no_grad():
            exact, padded = (method.masks(doubled(whole(graphs, layout)))["stable"] for layout in ("exact", "padded"))
        assert torch.allclose(padded.node[: len(exact.node)], exact.node, atol=1e-9)
        assert torch.allclose(padded.edge[: len(exact.edge)], exact.edge, atol=1e-9)
        assert float(exact.edge.min()) >= 0
        assert float(exact.edge.max()) <= 1
