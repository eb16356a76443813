import math

import pytest
import torch

from outland.graphs import Batches
from outland.graphs.induced import spanning_subgraphs
from outland.methods import Progress
from outland.methods.cal import uniform_divergence
from outland.methods.parts.risk import label_losses
from tests.cases import MethodCase, doubled
from tests.conftest import whole


class TestEvidence(MethodCase):
    name = "evidence"
    zero = {"whole": 1, "bare": 0, "gate": False, "layer": False, "readout": "backbone"}
    still = {"whole": 1, "bare": 0}
    lowers = 18

    def test_rates_are_drawn_graph_by_graph(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:400], 400)))
        method = self.build(motif.schema, whole=0.5, drop=0.4, bare=0.25)
        rates, bare = zip(*(method.draw_rates(batch) for _ in range(20)), strict=True)
        rate, is_bare = torch.stack(rates)[:, :-1], torch.stack(bare)
        assert float(is_bare.double().mean()) == pytest.approx(0.25, abs=0.02)
        assert float(rate[is_bare].min()) >= 0.5
        assert float(rate[is_bare].mean()) == pytest.approx(0.75, abs=0.02)
        rest = rate[~is_bare]
        assert float((rest == 0).double().mean()) == pytest.approx(0.5, abs=0.02)
        assert float(rest.max()) <= 0.4
        assert float(rest[rest > 0].mean()) == pytest.approx(0.2, abs=0.01)

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

    def test_bare_graphs_are_to_predict_nothing(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, bare=1, absence=2)
        batch = doubled(whole(graphs))
        state = method.random.get_state()
        terms = method.loss(batch, Progress())
        method.random.set_state(state)
        edge = method.thin(batch, method.draw_rates(batch)[0])
        logits = method.classifier.head(method.readout(batch, edge), batch)
        some = batch.edge_count > 0
        assert not some.all()  # a graph without edges is never bare: it keeps its loss
        divergence = uniform_divergence(logits, batch, schema.task)
        expected = 2 * batch.mean_graphs(torch.where(some, divergence, 0))
        losses, known = label_losses(logits, batch, schema.task)
        assert float(terms["risk"].detach()) == pytest.approx(
            float((losses[~some].sum() / known.sum()).detach()), rel=1e-9
        )
        assert float(terms["absence"].detach()) == pytest.approx(float(expected.detach()), rel=1e-9)
        assert float(expected.detach()) > 0

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
