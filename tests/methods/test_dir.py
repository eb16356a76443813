import math

import pytest
import torch

from outland.graphs import PackedGraphs, Task
from outland.methods import Progress
from outland.methods.dir import intervened_risks
from outland.methods.parts.risk import label_losses
from tests.cases import doubled, statistics
from tests.conftest import REAL, odd_graphs, whole
from tests.methods.cases import built, gradients, numbers, some
from tests.methods.families import SubgraphCase


class TestDIR(SubgraphCase):
    name = "dir"
    zero = {"ratio": 1.0, "alpha": 0}

    def test_golden(self):
        task = Task("multiclass", 2, "accuracy")
        batch = whole(PackedGraphs.from_data_list(odd_graphs()[:2])).replace(y=torch.tensor([0, 1]))
        risks = intervened_risks(numbers([1, 0], [0, 2]), numbers([0, 0], [2, -2]), batch, task)
        assert risks.tolist() == pytest.approx([0.3936693358, 0.4638873226], abs=1e-9)
        assert batch.mean_graphs(risks).item() == pytest.approx(0.4287783292, abs=1e-9)
        assert built("dir").variance(risks, batch).item() == pytest.approx(0.0024652828, abs=1e-9)
        summed = built("dir", variance="batch").variance(risks, batch)
        assert summed.item() == pytest.approx(0.0098611313, abs=1e-9)

    def test_golden_schedule(self):
        actual = [built("dir", alpha=0.01).weight(Progress(epoch=epoch)) for epoch in (0, 1, 10, 100)]
        assert actual == pytest.approx([0, 0.01, 0.3981071706, 15.8489319246], abs=1e-9)
        assert built("dir", alpha=0.01, power=0).weight(Progress(epoch=0)) == 0.01
        assert built("dir", alpha=0.5, power=0).weight(Progress(epoch=0)) == 0.5

    def test_the_weight_in_good_is_a_ramp_whatever_the_epoch_is_to_the_power(self):
        method = built("dir:good")
        actual = [method.weight(Progress(epoch=epoch, epochs=100)) for epoch in (0, 9, 24, 49, 99)]
        assert actual == pytest.approx([0.0249947930, 0.4422303560, 0.8411229016, 0.9859328257, 0.9999045493], abs=1e-9)
        shares = [(epoch + 0.5) / 100 for epoch in (0, 9, 24, 49, 99)]
        assert actual == pytest.approx([2 / (1 + math.exp(-10 * share)) - 1 for share in shares], abs=1e-12)
        assert method.weight(Progress(epoch=199, epochs=200)) < 1

    @pytest.mark.parametrize("steps", [36, 52])
    def test_a_ramp_by_epoch_is_near_that_by_batch(self, steps):
        """The numbers are those of docs/protocol.md."""
        method, apart = built("dir:good"), list[list[float]]()
        for epoch in range(100):
            weight = method.weight(Progress(epoch=epoch, epochs=100))
            shares = [(epoch * steps + step) / (100 * steps) for step in range(steps)]
            apart.append([abs(weight - (2 / (1 + math.exp(-10 * share)) - 1)) for share in shares])
        assert max(map(max, apart)) == max(apart[0]) == pytest.approx(0.025, abs=1e-4)
        assert 0.0102 < max(map(max, apart[20:])) < 0.0104
        assert sum(map(sum, apart)) / (100 * steps) == pytest.approx(0.0025, abs=1e-5)

    def test_terms_in_good_are_those_of_risks_divided_by_the_labels_twice(self):
        _, batch = some()
        method, risks = built("dir:good"), torch.rand(6, dtype=torch.double)
        divided = risks / 6
        assert method.mean(risks, batch).item() == pytest.approx(divided.mean().item(), abs=1e-12)
        assert method.variance(risks, batch).item() == pytest.approx((6 * divided).var().item(), abs=1e-12)

    @pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
    def test_all_pairs_equal_a_double_loop(self, kind):
        _, batch = some("chemical" if kind == "binary" else "real")
        task = Task(kind, 3 if kind == "multiclass" else 2, "accuracy")
        if kind == "regression":
            batch = batch.replace(y=torch.randn(6, 2, dtype=torch.double))
        logits, environment = torch.randn(2, 6, task.outputs, dtype=torch.double)
        risks = intervened_risks(logits, environment, batch, task)
        for j in range(6):
            losses, known = [], []
            for i in range(6):
                alone = batch.replace(y=batch.y[i : i + 1])
                loss, counts = label_losses(logits[i : i + 1] * environment[j].sigmoid(), alone, task)
                losses.append(loss.sum().item())
                known.append(counts.sum().item())
            assert risks[j].item() == pytest.approx(sum(losses) / sum(known), abs=1e-12)

    def test_equal_gates_have_no_variance_and_one_graph_has_none_either(self):
        _, batch = some()
        method, logits = built("dir"), torch.randn(6, 3, dtype=torch.double)
        risks = intervened_risks(logits, torch.randn(3, dtype=torch.double).expand(6, 3), batch, REAL.task)
        assert method.variance(risks, batch).item() == pytest.approx(0, abs=1e-25)
        single = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[:1])))
        assert method.loss(single, Progress(epoch=10))["variance"].item() == 0

    def test_complement_loss_moves_its_head_alone_and_nothing_else_moves_the_head(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        complement = terms.pop("complement")
        others = torch.stack(list(terms.values())).sum()
        assert not any(g.any() for part in (method.scorer, method.classifier) for g in gradients(complement, part))
        assert any(g.any() for g in gradients(complement, method.environment_head))
        assert not any(g.any() for g in gradients(others, method.environment_head))
        assert any(g.any() for g in gradients(others, method.scorer))
        assert any(g.any() for g in gradients(terms["variance"], method.scorer))

    def test_the_loss_is_made_of_the_parts_it_says(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        fresh = self.build(schema)
        parts = fresh.parts(batch)
        logits = fresh.classifier.head(fresh.embed_part(batch, parts.rationale, parts), batch)
        for name, value in statistics(fresh.classifier).items():
            assert torch.equal(value, method.classifier.get_buffer(name))  # complements leave no trace
        gates = fresh.environment_head(fresh.embed_part(batch, parts.complement, parts), batch)
        risks = intervened_risks(logits, gates, batch, schema.task)
        weight = fresh.weight(Progress(epoch=10))
        expected = {
            "rationale": fresh.risk(logits, batch),
            "interventions": weight * risks.mean(),
            "variance": weight * risks.var(),
            "complement": fresh.risk(gates, batch),
        }
        assert list(terms) == list(expected)
        for name, value in expected.items():
            assert terms[name].item() == pytest.approx(value.item(), abs=1e-9)

    def test_without_strength_scores_learn_from_the_rationale_alone(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, alpha=0), doubled(whole(graphs))
        terms = method.loss(batch, Progress(epoch=10))
        together = gradients(torch.stack(list(terms.values())).sum(), method.scorer)
        alone = gradients(method.risk(method(batch), batch), method.scorer)
        assert any(g.any() for g in alone)
        for first, second in zip(together, alone, strict=True):
            assert torch.allclose(first, second, atol=1e-12)

    def test_objectives_and_cap(self, any_set):
        schema, graphs = any_set
        batch, late = doubled(whole(graphs)), Progress(epoch=100)
        free, capped, paper = (
            self.build(schema, **changes).loss(batch, late) for changes in ({}, {"cap": 1.0}, {"objective": "paper"})
        )
        assert list(paper) == ["interventions", "variance", "complement"]
        assert free["interventions"].item() == pytest.approx(0.01 * 100**1.6 * paper["interventions"].item())
        assert capped["interventions"].item() == pytest.approx(paper["interventions"].item())
        assert free["variance"].item() == capped["variance"].item() == paper["variance"].item()

    @pytest.mark.parametrize("changes", [{}, {"variance": "batch"}, {"objective": "paper"}, {"mean": "graph"}])
    def test_padding_changes_nothing_late_in_training_either(self, any_set, changes):
        schema, graphs = any_set
        exact, padded = (
            self.build(schema, **changes).loss(doubled(whole(graphs, layout)), Progress(epoch=50))
            for layout in ("exact", "padded")
        )
        assert [term.item() for term in exact.values()] == pytest.approx([t.item() for t in padded.values()], abs=1e-9)
