"""OOD-GNN, StableGNN, and the weights they are made of."""

import math

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.graphs.gather import Gatherer, Shape
from outland.methods import Progress, build_method, find_method, method_settings
from outland.methods.parts.independence import (
    decorrelation,
    fourier_features,
    gaussian_kernels,
    hsic,
    hsic_dependence,
    standardised,
)
from outland.methods.parts.risk import label_losses
from outland.methods.parts.weighting import (
    SampleWeighter,
    WeightingSettings,
    effective_share,
    scaled_dependence,
    simplex,
    weighted_risk,
)
from outland.training.stepper import Stepper
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole


def padded_with_graphs(graphs):
    """All graphs as one batch, and three that are padding."""
    shape = Shape(len(graphs) + 3, int(graphs.node_counts.sum()) + 5, int(graphs.edge_counts.sum()) + 4)
    return doubled(Gatherer(graphs).padded(torch.arange(len(graphs)), shape))


def so_many(rows):
    """A batch of so many graphs, for the sake of its number."""
    return whole(PackedGraphs.from_data_list((odd_graphs() * rows)[:rows]))


def uniform(rows):
    return torch.full((rows,), 1 / rows, dtype=torch.double)


def correlated(rows=40, width=6, seed=0):
    random = torch.Generator().manual_seed(seed)
    base = torch.randn(rows, 2, generator=random, dtype=torch.double)
    return base @ torch.randn(2, width, generator=random, dtype=torch.double)


def golden_features():
    x = torch.tensor([[0, 0], [1, 1], [2, 0]], dtype=torch.double)
    phase = torch.tensor([0, math.pi / 2], dtype=torch.double)[None, None]
    return fourier_features(x, torch.ones(1, 1, 1, dtype=torch.double), phase)


def frozen(seed=0, **changes):
    """Fourier dependence whose draws are the same at every call."""
    settings = WeightingSettings(**changes)

    def measure(rows, valid):
        def dependence(weights):
            return scaled_dependence(rows, valid, torch.Generator().manual_seed(seed), settings)(weights)

        return dependence

    return measure


class TestDecorrelation:
    def test_golden(self):
        weights = [uniform(3), torch.tensor([0.5, 0.25, 0.25]).double(), torch.tensor([0.0, 1.0, 0.0]).double()]
        found = [decorrelation(golden_features(), weight).item() for weight in weights]
        assert found == pytest.approx([0.0172568507, 3.0380347974e-5, 0], abs=1e-9)

    @pytest.mark.parametrize("pairs", ["same", "all"])
    @pytest.mark.parametrize("shape", [(3, 7, 4), (2, 4, 9), (2, 5, 1)])
    def test_it_equals_a_plain_loop(self, pairs, shape):
        torch.manual_seed(0)
        features, weights = torch.randn(shape).double(), torch.rand(shape[1]).double()
        weights = weights / weights.sum()
        expected = 0.0
        for k in range(shape[0]):
            for m in range(shape[0]):
                for i in range(shape[2]):
                    for j in range(shape[2]):
                        if i == j or (pairs == "same" and k != m):
                            continue
                        one, two = features[k, :, i], features[m, :, j]
                        covariance = (weights * one * two).sum() - (weights * one).sum() * (weights * two).sum()
                        expected += covariance.item() ** 2
        assert decorrelation(features, weights, pairs).item() == pytest.approx(expected, abs=1e-9)

    def test_its_gradient_is_right(self):
        logits = torch.randn(5, dtype=torch.double, requires_grad=True)
        features, valid = torch.randn(2, 5, 3, dtype=torch.double), torch.tensor([True, True, False, True, True])
        for pairs in ("same", "all"):
            assert torch.autograd.gradcheck(lambda w, p=pairs: decorrelation(features, simplex(w, valid), p), logits)

    def test_independent_coordinates_cost_ever_less_and_dependent_ones_do_not(self):
        torch.manual_seed(0)
        found = []
        for rows in (100, 2000):
            z = torch.randn(rows, 3, dtype=torch.double)
            z = torch.cat([z, z[:, :1].square()], dim=1)  # the last depends on the first and does not correlate with it
            features = fourier_features(z, torch.ones(1, 1, 4).double(), torch.zeros(1, 1, 4).double())
            found.append((decorrelation(features[:, :, :3], uniform(rows)), decorrelation(features, uniform(rows))))
        assert found[1][0] < found[0][0] / 10
        assert found[1][0] < 1e-3 < 1e-2 < found[1][1]

    def test_features_of_the_paper_and_of_the_code(self):
        z, settings = (
            correlated(5, 3),
            {"frequency": torch.randn(2, 1, 1).double(), "phase": torch.rand(2, 1, 3).double()},
        )
        code = fourier_features(z, **settings, normalise=True)
        assert code.shape == (4, 5, 3)
        angle = settings["frequency"][1] * z[2] + settings["phase"][1]
        angle = ((angle - angle.min()) / (angle.max() - angle.min()) * math.pi / 2)[0]
        assert torch.allclose(code[1, 2], angle.cos())
        assert torch.allclose(code[3, 2], angle.sin())
        assert fourier_features(z[:, :1], settings["frequency"], settings["phase"][:, :, :1], True).isfinite().all()

    def test_standardised_rows_leave_padding_out(self):
        z, valid = torch.randn(6, 3).double() * 5 + 2, torch.tensor([True] * 4 + [False] * 2)
        found = standardised(z, valid)
        assert torch.allclose(found[:4].mean(0), torch.zeros(3).double(), atol=1e-12)
        assert torch.allclose(found[:4].var(0, correction=0), torch.ones(3).double(), atol=1e-4)
        assert (found[4:] == 0).all()
        assert torch.allclose(found[:4], standardised(z[:4], valid[:4]))

    def test_price_grows_with_the_square_of_the_width(self):
        z, valid = correlated(10, 6), torch.ones(10).bool()
        plain = frozen(scale="none")(z, valid)(uniform(10))
        assert frozen()(z, valid)(uniform(10)).item() == pytest.approx(plain.item() * 50**2)


class TestHSIC:
    def test_golden(self):
        z = torch.arange(4).double()
        blocks = torch.stack([z, z.square(), torch.ones(4).double()])[:, :, None]
        found = hsic(gaussian_kernels(blocks, torch.ones(4).bool()), uniform(4), torch.tensor(4))
        assert found[0].tolist() == pytest.approx([0.2109122680, 0.2290774272, 0], abs=1e-9)

    @pytest.mark.parametrize("bandwidth", ["one", "median"])
    def test_it_equals_a_plain_loop(self, bandwidth):
        torch.manual_seed(0)
        blocks, n = torch.randn(3, 6, 2).double(), 6
        kernels = []
        for block in blocks:
            apart = torch.tensor([[(a - b).square().sum().item() for a in block] for b in block]).double()
            pairs = sorted(apart[a, b].item() for a in range(n) for b in range(n) if a != b)
            kernels.append((-apart / (2 * (1 if bandwidth == "one" else pairs[(len(pairs) - 1) // 2]))).exp())
        centre = torch.eye(n).double() - 1 / n
        found = hsic(gaussian_kernels(blocks, torch.ones(n).bool(), bandwidth), uniform(n), torch.tensor(n))
        for i in range(3):
            for j in range(3):
                expected = torch.trace(kernels[i] @ centre @ kernels[j] @ centre) / (n - 1) ** 2
                assert found[i, j].item() == pytest.approx(expected.item(), abs=1e-6)
        flat = blocks.transpose(0, 1).flatten(1)
        total = hsic_dependence(flat, torch.ones(n).bool(), 3, bandwidth)(uniform(n))
        assert total.item() == pytest.approx(1e3 * (found[0, 1] + found[0, 2] + found[1, 2]).item())

    def test_whole_weights_are_repeated_rows(self):
        """A graph of weight 2 is that graph twice: weights act on the kernels."""
        torch.manual_seed(0)
        blocks, weights = torch.randn(2, 4, 3).double(), torch.tensor([2, 1, 0, 1])
        twice = blocks.repeat_interleave(weights, dim=1)
        expected = hsic(gaussian_kernels(twice, torch.ones(4).bool()), uniform(4), torch.tensor(4))
        found = hsic(gaussian_kernels(blocks, torch.ones(4).bool()), weights / weights.sum().double(), torch.tensor(4))
        assert torch.allclose(found, expected)

    def test_it_sees_dependence_and_not_its_absence(self):
        torch.manual_seed(0)
        z = torch.randn(400, dtype=torch.double)
        blocks = torch.stack([z, z.square(), torch.randn(400).double()])[:, :, None]
        found = hsic(gaussian_kernels(blocks, torch.ones(400).bool(), "median"), uniform(400), torch.tensor(400))
        assert found[0, 0] > 0.05
        assert found[0, 2] < 1e-3
        assert found[0, 1] > 10 * found[0, 2]

    def test_padding_does_not_count(self):
        torch.manual_seed(0)
        blocks, valid = torch.randn(2, 7, 3).double(), torch.tensor([True] * 5 + [False] * 2)
        weights = simplex(torch.zeros(7).double(), valid)
        padded = hsic(gaussian_kernels(blocks, valid, "median"), weights, valid.sum())
        exact = hsic(gaussian_kernels(blocks[:, :5], valid[:5], "median"), uniform(5), valid.sum())
        assert torch.allclose(padded, exact)


class TestWeighter:
    def weighter(self, width=6, **changes):
        return SampleWeighter(width, WeightingSettings(**changes)).double()

    def test_simplex(self):
        valid = torch.tensor([True, False, True, True])
        found = simplex(torch.tensor([1e4, 7.0, 1e4, -1e4]).double(), valid)
        assert found.tolist() == [0.5, 0, 0.5, 0]
        assert (simplex(torch.ones(49), torch.ones(49).bool(), 49) == 1).all()
        assert (simplex(torch.ones(4), torch.zeros(4).bool()) == 0).all()

    def test_effective_share(self):
        real = torch.tensor([True, True, True, True, False])
        assert effective_share(torch.tensor([1.0, 1, 1, 1, 0]), real).item() == 1
        assert effective_share(torch.tensor([4.0, 0, 0, 0, 0]), real).item() == 0.25
        assert effective_share(torch.tensor([2.0, 2, 0, 0, 0]), real).item() == 0.5

    @pytest.mark.parametrize("steps", [1, 2, 3, 10, 20])
    def test_weights_are_weights_after_every_step(self, steps):
        z = correlated()
        weighter = self.weighter(inner_steps=steps)
        weights = weighter(z, so_many(40), frozen())
        assert (weights >= 0).all()
        assert weights.mean().item() == pytest.approx(1)
        assert weighter.share.item() == pytest.approx(40**2 / weights.square().sum().item() / 40)
        assert weighter.share < 1

    def test_inner_steps_equal_sgd_with_momentum(self):
        z, valid = correlated(), torch.ones(40).bool()
        weighter = self.weighter(memory=0, inner_steps=6, inner_lr=0.7)
        found = weighter.descend(torch.ones(40).double(), valid, valid, frozen()(z, valid))
        logits = torch.ones(40, dtype=torch.double, requires_grad=True)
        optimizer = torch.optim.SGD([logits], lr=0.7, momentum=0.9)
        for step in range(6):
            optimizer.param_groups[0]["lr"] = 0.7 if step < 3 else 0.07
            weights = logits.softmax(0)
            optimizer.zero_grad()
            (frozen()(z, valid)(weights) / 70 + weights.square().sum()).backward()
            optimizer.step()
        assert torch.allclose(found, logits.detach(), atol=1e-9)

    def test_dependence_falls_with_frozen_draws(self):
        z, valid = correlated(), torch.ones(40).bool()
        found = []
        for steps in (0, 2, 5, 10, 20):
            weighter = self.weighter(memory=0, inner_steps=steps, inner_lr=0.1)
            weights = weighter(z, so_many(40), frozen()) / 40
            found.append(frozen()(z, valid)(weights).item())
        assert found == sorted(found, reverse=True)
        assert found[-1] < 0.7 * found[0]

    @pytest.mark.parametrize("width", [64, 300, 600])
    def test_default_weights_are_neither_uniform_nor_on_a_few_graphs(self, width):
        """The scale trap: what is sane at one width is ERM or a single graph at another unless λ grows with it."""
        random = torch.Generator().manual_seed(0)
        z = torch.randn(128, 8, generator=random) @ torch.randn(8, width, generator=random) / 8**0.5
        z = z + 0.5 * torch.randn(128, width, generator=random)
        weighter = SampleWeighter(width, WeightingSettings())
        weighter(z, so_many(128), lambda rows, valid: scaled_dependence(rows, valid, random, weighter.settings))
        assert 0.3 < weighter.share < 0.95

    def test_without_dependence_weights_stay_uniform(self):
        z = correlated()
        weights = self.weighter()(z, so_many(40), lambda rows, valid: lambda q: 0 * q.sum())
        assert torch.allclose(weights, torch.ones(40).double(), atol=1e-12)
        one_block = self.weighter()(z, so_many(40), lambda rows, valid: hsic_dependence(rows, valid, 1, "median"))
        assert torch.allclose(one_block, torch.ones(40).double(), atol=1e-12)

    def test_nothing_flows_back(self):
        z = correlated().requires_grad_()
        weighter = self.weighter()
        assert not weighter(z, so_many(40), frozen()).requires_grad
        assert not any(buffer.requires_grad for buffer in weighter.buffers())
        assert z.grad is None

    def test_memory_is_a_running_mean_then_a_moving_average_row_by_row(self):
        weighter = self.weighter(width=2, memory=5, inner_steps=1, inner_lr=0.0)
        values = [torch.full((4, 2), float(i)).double() for i in range(13)]
        expected = 0.0
        for count, z in enumerate(values):
            weighter(z, so_many(4), frozen())
            expected = sum(range(count + 1)) / (count + 1) if count < 10 else 0.9 * expected + 0.1 * count
            assert weighter.features[:4].tolist() == [pytest.approx([expected] * 2)] * 4
        weighter(values[0][:2], so_many(2), frozen())
        assert weighter.seen.tolist() == [14, 14, 13, 13, 0]
        assert weighter.features[1, 0].item() == pytest.approx(0.9 * expected)
        assert weighter.features[2, 0].item() == pytest.approx(expected)
        large = torch.ones(7, 2).double()
        assert weighter(large, so_many(7), frozen()).tolist() == pytest.approx([1] * 7)
        assert weighter.seen.tolist() == [15, 15, 14, 14, 1]

    def test_memory_weighs_in_and_empty_rows_do_not(self):
        z, old = correlated(), correlated(seed=1)
        empty, none, full = self.weighter(memory=64), self.weighter(memory=0), self.weighter(memory=64)
        assert torch.allclose(empty(z, so_many(40), frozen()), none(z, so_many(40), frozen()))
        full(old, so_many(40), frozen())
        assert full.logits[:40].std() > 0
        assert (full.logits[40:] == 1).all()
        assert not torch.allclose(full(z, so_many(40), frozen()), none(z, so_many(40), frozen()), atol=1e-3)

    def test_padding_graphs_have_no_weight_and_no_memory(self):
        graphs = PackedGraphs.from_data_list(odd_graphs())
        exact, padded = whole(graphs), padded_with_graphs(graphs)
        z = correlated(padded.num_graphs)
        found = []
        for batch in (exact, padded):
            weighter = self.weighter()
            found.append((weighter(z[: batch.num_graphs], batch, frozen()), *weighter.buffers()))
        assert torch.allclose(found[0][0], found[1][0][:6])
        assert (found[1][0][6:] == 0).all()
        for one, other in zip(found[0][1:], found[1][1:], strict=True):
            assert torch.allclose(one, other)
        assert found[1][3].sum() == 6

    @pytest.mark.parametrize(("schema", "graphs"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
    def test_weighted_risk_equals_a_plain_loop(self, schema, graphs):
        batch = padded_with_graphs(PackedGraphs.from_data_list(graphs()))
        torch.manual_seed(0)
        method = build_method("erm", schema, SMALL, method_settings("erm", {})).double().eval()
        logits, weights = method(batch), torch.rand(batch.num_graphs).double() * batch.graph_mask
        total = number = 0.0
        for i in range(6):
            one, label = logits[i], batch.y[i]
            if schema.task.kind == "multiclass":
                rows = [(-one.log_softmax(0)[label]).item()]
            else:
                rows = [-(o if y else -o).sigmoid().log().item() for o, y in zip(one, label, strict=True) if y == y]
            total += weights[i].item() * sum(rows)
            number += weights[i].item() * len(rows)
        found = weighted_risk(logits, batch, schema.task, weights)
        assert found.item() == pytest.approx(total / number, abs=1e-9)


class WeightedCase(MethodCase):
    """What both methods share."""

    zero = {"inner_steps": 0}

    def test_no_inner_steps_and_no_warm_up_give_exactly_the_mean(self, any_set):
        schema, graphs = any_set
        for changes in ({"inner_steps": 0}, {"warm_up": 3}):
            for batch in (doubled(whole(graphs)), padded_with_graphs(graphs)):
                method, _ = self.ready(schema, graphs, **changes)
                method.eval()
                terms = method.loss(batch, Progress(epoch=2))
                assert torch.equal(terms["weighted_risk"], method.risk(method(batch), batch))
                assert method.watch()["effective_sample_size"] == 1
                assert (method.weighter.seen == 0).all()
        method.loss(batch, Progress(epoch=3))
        assert method.weighter.seen.sum() == min(len(graphs), method.settings.memory)

    def test_padding_graphs_change_neither_losses_nor_gradients(self, any_set):
        schema, graphs = any_set
        results = []
        for batch in (doubled(whole(graphs)), padded_with_graphs(graphs)):
            method, stepper = self.ready(schema, graphs)
            found = []
            for _ in range(2):  # the second step has a memory
                found += stepper.step(batch, Progress()).values()
            found += [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
            results.append([*found, *method.weighter.buffers()])
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other, atol=1e-7)

    def test_one_step_lowers_the_loss(self, motif, monkeypatch):
        """The loss with the step's own weights: those of the next are drawn anew and make another loss of it."""
        learned, kept = find_method(self.name).weights, {}

        def once(method, z, batch, progress):
            if id(method) not in kept:
                kept[id(method)] = method, learned(method, z, batch, progress)
            return kept[id(method)][1]

        monkeypatch.setattr(find_method(self.name), "weights", once)
        super().test_one_step_lowers_the_loss(motif)
        assert len(kept) == 20

    def test_weights_move_and_are_told(self, motif):
        graphs = motif.graphs.select(motif["train"][:32])
        method, _ = self.ready(motif.schema, graphs)
        terms = method.loss(doubled(whole(graphs)), Progress())
        assert list(terms) == ["weighted_risk"]
        assert 1 / 32 <= method.watch()["effective_sample_size"] < 1
        assert not method.watch()["effective_sample_size"].requires_grad


class TestOODGNN(WeightedCase):
    name = "ood-gnn"

    def test_no_gradient_comes_through_the_weights(self, any_set):
        """The gradient is that of the loss with the weights as given numbers."""
        schema, graphs = any_set
        batch = doubled(whole(graphs))
        method, stepper = self.ready(schema, graphs)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        found = [parameter.grad for parameter in method.parameters()]
        same, _ = self.ready(schema, graphs)
        same.train()
        h = same.classifier.embed(batch)
        weights = torch.tensor(same.weights(h, batch, Progress()).tolist()).double()
        losses, known = label_losses(same.classifier.head(h, batch), batch, schema.task)
        ((weights[:, None] * losses).sum() / (weights[:, None] * known).sum()).backward()
        for one, parameter in zip(found, same.parameters(), strict=True):
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            assert torch.allclose(one, expected, atol=1e-6)
        assert weights.std() > 0


class StableCase(WeightedCase):
    """With the layer on the pooled graph at 0, clusters add up to ERM's readout."""

    def zero_strength(self, method):
        for part in (method.clusters.own, method.clusters.neighbours):
            for parameter in part.parameters():
                torch.nn.init.zeros_(parameter)


class TestStableGNN(StableCase):
    name = "stablegnn"

    @pytest.mark.parametrize("pool", ["mean", "sum"])
    def test_clusters_equal_a_plain_loop_and_add_up_to_the_readout(self, any_set, pool):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, clusters=3, backbone={"pool": pool, "batch_norm": False})
        method.eval()
        batch, parts = doubled(whole(graphs)), method.clusters
        nodes = method.classifier.encoder(batch)
        z, update = parts(nodes, batch)
        assert torch.allclose(z.sum(1), method.classifier.embed(batch))
        assignment = parts.assign(parts.encoder(batch)).softmax(1)
        for g in range(batch.num_graphs):
            own = [v for v in range(batch.num_nodes) if batch.node_batch[v] == g]
            dense = torch.zeros(batch.num_nodes, batch.num_nodes).double()
            for source, target in batch.edge_index.T.tolist():
                dense[target, source] += float(batch.node_batch[target] == g)
            expected = assignment[own].T @ nodes[own] / (len(own) if pool == "mean" else 1)
            ties = assignment.T @ dense @ assignment
            around = ties @ expected / ties.sum(1, keepdim=True).clamp(min=1e-6)
            assert torch.allclose(z[g], expected)
            assert torch.allclose(update[g], (parts.own(expected) + parts.neighbours(around)).relu())

    @pytest.mark.parametrize("dependence", ["fourier", "hsic"])
    def test_all_clusters_enter_the_weights(self, any_set, dependence, monkeypatch):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, dependence=dependence)
        seen, measure = [], type(method).measure
        monkeypatch.setattr(type(method), "measure", lambda self, z, valid: seen.append(z) or measure(self, z, valid))
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

    def test_preset(self):
        found = method_settings(self.name, {})
        assert (found.dependence, found.bandwidth, found.inner_steps, found.memory) == ("hsic", "median", 50, 0)

    def test_weights_lower_hsic(self, motif):
        graphs = motif.graphs.select(motif["train"][:32])
        method, _ = self.ready(motif.schema, graphs)
        z, valid = correlated(32, 7 * SMALL.width), torch.ones(32).bool()
        weights = method.weights(z, whole(graphs), Progress()) / 32
        assert method.measure(z, valid)(weights) < method.measure(z, valid)(uniform(32))


@pytest.mark.parametrize("name", ["ood-gnn", "stablegnn"])
@pytest.mark.parametrize("features", ["standardised", "raw", "normalised"])
@pytest.mark.parametrize("pairs", ["same", "all"])
def test_every_kind_of_feature_trains(name, features, pairs):
    torch.manual_seed(0)
    settings = method_settings(name, {"features": features, "pairs": pairs, "frequencies": 3})
    method = build_method(name, CHEMICAL, SMALL, settings)
    stepper = Stepper(method, FRAME)
    batch = whole(PackedGraphs.from_data_list(chemical_graphs()))
    for _ in range(2):
        assert stepper.step(batch, Progress())["risk.weighted_risk"].isfinite()
