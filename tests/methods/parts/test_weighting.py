import pytest
import torch

from outland.graphs import PackedGraphs
from outland.methods import build_method, method_settings
from outland.methods.parts.dependence import HSICDependence
from outland.methods.parts.weighting import (
    SampleWeighter,
    WeightingSettings,
    effective_share,
    scaled_dependence,
    weighted_risk,
)
from tests.cases import SMALL
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole
from tests.methods.cases import correlated, frozen, padded_with_graphs


def so_many(rows):
    """A batch of so many graphs, for the sake of its number."""
    return whole(PackedGraphs.from_data_list((odd_graphs() * rows)[:rows]))


class NoDependence:
    def gradient(self, step, weights):
        return 0 * weights


class TestWeighter:
    def weighter(self, width=6, **changes):
        return SampleWeighter(width, WeightingSettings(**changes)).double()

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
        actual = weighter.descend(torch.ones(40).double(), valid, frozen()(z, valid))
        logits = torch.ones(40, dtype=torch.double, requires_grad=True)
        optimizer = torch.optim.SGD([logits], lr=0.7, momentum=0.9)
        for step in range(6):
            optimizer.param_groups[0]["lr"] = 0.7 if step < 3 else 0.07
            weights = logits.softmax(0)
            optimizer.zero_grad()
            (frozen()(z, valid).value(step, weights) / 70 + weights.square().sum()).backward()
            optimizer.step()
        assert torch.allclose(actual, logits.detach(), atol=1e-9)

    def test_dependence_falls_with_frozen_draws(self):
        z, valid = correlated(), torch.ones(40).bool()
        actual = []
        for steps in (0, 2, 5, 10, 20):
            weighter = self.weighter(memory=0, inner_steps=steps, inner_lr=0.1)
            weights = weighter(z, so_many(40), frozen()) / 40
            actual.append(frozen()(z, valid).value(0, weights).item())
        assert actual == sorted(actual, reverse=True)
        assert actual[-1] < 0.7 * actual[0]

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
        weights = self.weighter()(z, so_many(40), lambda rows, valid: NoDependence())
        assert torch.allclose(weights, torch.ones(40).double(), atol=1e-12)
        one_block = self.weighter()(z, so_many(40), lambda rows, valid: HSICDependence(rows, valid, 1, "median"))
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
        actual = []
        for batch in (exact, padded):
            weighter = self.weighter()
            actual.append((weighter(z[: batch.num_graphs], batch, frozen()), *weighter.buffers()))
        assert torch.allclose(actual[0][0], actual[1][0][:6])
        assert (actual[1][0][6:] == 0).all()
        for first, second in zip(actual[0][1:], actual[1][1:], strict=True):
            assert torch.allclose(first, second)
        assert actual[1][3].sum() == 6

    @pytest.mark.parametrize(("schema", "graphs"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
    def test_weighted_risk_equals_a_plain_loop(self, schema, graphs):
        batch = padded_with_graphs(PackedGraphs.from_data_list(graphs()))
        torch.manual_seed(0)
        method = build_method("erm", schema, SMALL, method_settings("erm", {})).double().eval()
        logits, weights = method(batch), torch.rand(batch.num_graphs).double() * batch.graph_mask
        total = number = 0.0
        for i in range(6):
            row, label = logits[i], batch.y[i]
            if schema.task.kind == "multiclass":
                rows = [(-row.log_softmax(0)[label]).item()]
            else:
                rows = [-(o if y else -o).sigmoid().log().item() for o, y in zip(row, label, strict=True) if y == y]
            total += weights[i].item() * sum(rows)
            number += weights[i].item() * len(rows)
        actual = weighted_risk(logits, batch, schema.task, weights)
        assert actual.item() == pytest.approx(total / number, abs=1e-9)
