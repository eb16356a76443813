import pytest
import torch

from outland.methods import Progress, method_settings
from tests.cases import SMALL, doubled
from tests.conftest import whole
from tests.methods.cases import correlated, uniform
from tests.methods.families import WeightedCase


class StableCase(WeightedCase):
    """With the layer on the pooled graph at 0, clusters add up to ERM's readout."""

    def zero_strength(self, method):
        for part in (method.clusters.own, method.clusters.neighbours):
            for parameter in part.parameters():
                torch.nn.init.zeros_(parameter)


class TestStableGNN(StableCase):
    name = "stablegnn"
    rounding_only = {"clusters.own.bias"}

    @pytest.mark.parametrize("pool", ["mean", "sum"])
    def test_clusters_equal_a_plain_loop_and_add_up_to_the_readout(self, any_set, pool):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, clusters=3, backbone={"pool": pool, "batch_norm": False})
        method.eval()
        batch, parts = doubled(whole(graphs)), method.clusters
        nodes = method.classifier.encoder(batch)
        z, update = parts(nodes, batch, method.classifier.readout)
        assert torch.allclose(z.sum(1), method.classifier.embed(batch))
        assignment = parts.assign(parts.encoder(batch)).softmax(1)
        for g in range(batch.num_graphs):
            members = [v for v in range(batch.num_nodes) if batch.node_batch[v] == g]
            dense = torch.zeros(batch.num_nodes, batch.num_nodes).double()
            for source, target in batch.edge_index.T.tolist():
                dense[target, source] += float(batch.node_batch[target] == g)
            expected = assignment[members].T @ nodes[members] / (len(members) if pool == "mean" else 1)
            ties = assignment.T @ dense @ assignment
            around = ties @ expected / ties.sum(1, keepdim=True).clamp(min=1e-6)
            assert torch.allclose(z[g], expected)
            assert torch.allclose(update[g], (parts.own(expected) + parts.neighbours(around)).relu())

    @pytest.mark.parametrize("kind", ["fourier", "hsic"])
    def test_all_clusters_enter_the_weights(self, any_set, kind, monkeypatch):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, dependence=kind)
        seen, dependence = [], type(method).dependence
        monkeypatch.setattr(
            type(method), "dependence", lambda self, z, valid: seen.append(z) or dependence(self, z, valid)
        )
        method.loss(doubled(whole(graphs)), Progress())
        assert seen[0].shape == (6 + method.settings.memory, 7 * SMALL.width)
        assert (seen[0][:6].unflatten(1, (7, -1)).abs().sum((0, 2)) > 0).all()

    def test_assignment_learns(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs)
        stepper.backward(stepper.optimizers[0], doubled(whole(graphs)), Progress())
        assert (method.clusters.assign.weight.grad != 0).any()


class TestStableGNNByHSIC(StableCase):
    name = "stablegnn:hsic"
    rounding_only = {"clusters.own.bias"}

    def test_preset(self):
        actual = method_settings(self.name, {})
        assert (actual.dependence, actual.bandwidth, actual.inner_steps, actual.memory) == ("hsic", "median", 50, 0)

    def test_weights_lower_hsic(self, motif):
        graphs = motif.graphs.select(motif["train"][:32])
        method, _ = self.ready(motif.schema, graphs)
        z, valid = correlated(32, 7 * SMALL.width), torch.ones(32).bool()
        weights = method.weights(z, whole(graphs), Progress()) / 32
        dependence = method.dependence(z, valid)
        assert dependence.value(0, weights) < dependence.value(0, uniform(32))
