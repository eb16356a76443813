"""ERM and the methods that reduce its losses in another way, or feed it other graphs."""

import dataclasses
import math

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import Batches, PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, find_method, method_settings
from outland.methods.irm import scale_slopes
from outland.methods.parts.environments import environment_means, variance_over
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings
from outland.training import Trainer
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole

# The shared toy of the golden values: logits, labels, environments.
LOGITS = torch.tensor([[1, 0, -1], [0.5, -0.5, 0], [2, 1, 0], [-1, 0, 1]], dtype=torch.double)
CLASSES = Task("multiclass", 3, "accuracy")


def toy(logits=LOGITS, y=(0, 1, 0, 2), environment=(0, 0, 1, 1)):
    batch = whole(PackedGraphs.from_data_list(odd_graphs()[: len(logits)]))
    return batch.replace(y=torch.tensor(y), environment=torch.tensor(environment))


def built(name, **changes):
    return build_method(name, REAL, SMALL, method_settings(name, changes)).double()


def all_known(any_set):
    """The same graphs with every unknown label answered by no."""
    schema, graphs = any_set
    return schema, dataclasses.replace(graphs, y=graphs.y.nan_to_num(0.0) if graphs.y.is_floating_point() else graphs.y)


def assert_same_slopes(found, expected, method, atol=1e-9):
    """Two values move the classifier in the same direction, by the same amount."""
    parameters = list(method.classifier.parameters())
    slopes = [
        torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True) for value in (found, expected)
    ]
    moved = 0
    for one, other in zip(*slopes, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert torch.allclose(one, other, atol=atol)
            moved += bool((other.abs() > 1e-6).any())
    assert moved > 5


class TestERM(MethodCase):
    name = "erm"
    zero = {}


class TestIRM(MethodCase):
    name = "irm"
    zero = {"penalty": 0}

    def test_golden(self):
        method = built("irm")
        slopes = scale_slopes(LOGITS, toy(), CLASSES)
        g, _ = environment_means(slopes, torch.ones(4, 1).bool(), torch.tensor([0, 0, 1, 1]), 2)
        assert g.tolist() == pytest.approx([0.1176443583, -0.4247896174], abs=1e-9)
        assert method.penalty(LOGITS, toy()).item() == pytest.approx(0.0971432070, abs=1e-9)
        assert built("irm", estimator="halves").penalty(LOGITS, toy()).item() == pytest.approx(-0.0499741019, abs=1e-9)

    def test_golden_binary(self):
        batch = toy(torch.zeros(2, 1), y=((1.0,), (1.0,)), environment=(0, 0))
        slopes = scale_slopes(torch.tensor([[2.0], [-1.0]], dtype=torch.double), batch, Task("binary", 1, "rocauc"))
        assert slopes.mean().item() == pytest.approx(0.2463263673, abs=1e-9)

    @pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
    def test_closed_form_equals_autograd(self, kind):
        task = Task(kind, 3, "accuracy")
        y = torch.tensor([0, 1, 0, 2]) if kind == "multiclass" else torch.randint(0, 2, (4, 3)).double()
        batch = toy(y=y.tolist())
        scale = torch.ones((), dtype=torch.double, requires_grad=True)
        losses, _ = label_losses(LOGITS * scale, batch, task)
        (expected,) = torch.autograd.grad(losses.sum(), scale)
        assert scale_slopes(LOGITS, batch, task).sum().item() == pytest.approx(expected.item(), abs=1e-9)

    def test_repeating_an_environment_changes_nothing_and_resting_logits_cost_nothing(self):
        method = built("irm")
        twice = toy(torch.cat([LOGITS, LOGITS[:2]]), y=(0, 1, 0, 2, 0, 1), environment=(0, 0, 1, 1, 0, 0))
        assert method.penalty(torch.cat([LOGITS, LOGITS[:2]]), twice).item() == pytest.approx(0.0971432070, abs=1e-9)
        assert method.penalty(torch.zeros(4, 3).double(), toy()).item() == 0

    def test_class_frequencies_are_a_resting_point(self):
        y = (0, 0, 1, 2)
        logits = torch.tensor([2.0, 1.0, 1.0]).log().expand(4, 3).double()
        assert built("irm").penalty(logits, toy(y=y, environment=(0, 0, 0, 0))).item() == pytest.approx(0, abs=1e-15)

    @pytest.mark.parametrize("estimator", ["square", "halves"])
    def test_the_loss_has_the_gradient_of_its_equation(self, any_set, estimator):
        """By a second backward pass, which the closed form saves."""
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, penalty=3.0, estimator=estimator)
        batch = doubled(whole(graphs))
        logits = method.classifier(batch)
        slopes = []
        for environment in (0, 1):
            members = (batch.environment == environment).nonzero().flatten()
            parts = [members] if estimator == "square" else [members[::2], members[1::2]]
            pair = []
            for part in parts:
                scale = torch.ones((), dtype=torch.double, requires_grad=True)
                losses, known = label_losses(logits * scale, batch, schema.task)
                risk = losses[part].sum() / known[part].sum()
                pair.append(torch.autograd.grad(risk, scale, create_graph=True)[0])
            slopes.append(pair[0] * pair[-1])
        expected = 3.0 * torch.stack(slopes).mean()
        found = method.loss(batch, Progress())["penalty"]
        assert found.item() == pytest.approx(expected.item(), abs=1e-12)
        assert_same_slopes(found, expected, method)

    def test_halves_do_not_mind_padding_with_a_foreign_environment(self):
        graphs = PackedGraphs.from_data_list(odd_graphs())
        graphs.environment[0] = 6  # a graph of a later part, which padding repeats
        method = self.build(REAL, estimator="halves")
        chosen = torch.tensor([1, 2, 3, 4, 5])
        values = [
            method.loss(doubled(next(iter(Batches(graphs, chosen, size, layout=layout)))), Progress())["penalty"].item()
            for size, layout in ((5, "exact"), (8, "padded"))
        ]
        assert values[0] == pytest.approx(values[1], abs=1e-12)

    def test_warm_up_holds_the_weight_at_one(self):
        method = built("irm", penalty=100.0, warm_up=10)
        batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
        early = method.loss(batch, Progress(step=9))["penalty"]
        late = method.loss(batch, Progress(step=10))["penalty"]
        assert (late / early).item() == pytest.approx(100)


class TestVREx(MethodCase):
    name = "vrex"
    zero = {"penalty": 0}

    def test_golden(self):
        losses, known = label_losses(LOGITS, toy(), CLASSES)
        risks, present = environment_means(losses, known, torch.tensor([0, 0, 1, 1]), 2)
        assert risks.tolist() == pytest.approx([1.0439378175, 0.4076059644], abs=1e-9)
        assert variance_over(risks, present, True).item() == pytest.approx(0.2024591136, abs=1e-9)
        assert variance_over(risks, present, False).item() == pytest.approx(0.1012295568, abs=1e-9)

    def test_variance_scales_with_the_square_and_has_the_right_gradient(self):
        risks = torch.tensor([0.2, 0.9, 0.4], dtype=torch.double, requires_grad=True)
        present = torch.tensor([True, True, True])
        variance = variance_over(risks, present, True)
        assert variance_over(3 * risks, present, True).item() == pytest.approx(9 * variance.item())
        (slope,) = torch.autograd.grad(variance, risks)
        assert torch.allclose(slope, 2 / 2 * (risks - risks.mean()).detach())

    def test_the_loss_has_the_gradient_of_its_equation(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, penalty=3.0)
        batch = doubled(whole(graphs))
        losses, known = label_losses(method.classifier(batch), batch, schema.task)
        members = [batch.environment == environment for environment in (0, 1)]
        risks = torch.stack([losses[here].sum() / known[here].sum() for here in members])
        found = method.loss(batch, Progress())["variance"]
        assert found.item() == pytest.approx(3 * risks.var().item(), abs=1e-12)
        assert_same_slopes(found, 3 * risks.var(), method)

    def test_equal_environments_have_no_variance(self):
        twice = toy(torch.cat([LOGITS[:2], LOGITS[:2]]), y=(0, 1, 0, 1))
        losses, known = label_losses(torch.cat([LOGITS[:2], LOGITS[:2]]), twice, CLASSES)
        risks, present = environment_means(losses, known, twice.environment, 2)
        assert variance_over(risks, present, True).item() == 0

    def test_absent_and_single_environments(self):
        risks = torch.tensor([0.2, 5.0, 0.4], dtype=torch.double)
        assert variance_over(risks, torch.tensor([True, False, True]), True).item() == pytest.approx(0.02)
        assert variance_over(risks, torch.tensor([False, True, False]), True).item() == 0


class TestGroupDRO(MethodCase):
    """With a step of 0 it is the mean of the environments' means; ERM where they are equally large."""

    name = "groupdro"
    zero = {"step": 0}

    def test_zero_strength_is_erm(self, any_set):
        """The six graphs are three and three in two environments; every label must be known for them to weigh alike."""
        super().test_zero_strength_is_erm(all_known(any_set))

    def test_golden(self):
        losses, known = label_losses(LOGITS, toy(), CLASSES)
        risks, present = environment_means(losses, known, torch.tensor([0, 0, 1, 1]), 2)
        for memory, second in (
            ("persistent", [0.7811983895, 0.2188016105, 0.9047073833]),
            ("batch", [0.6539238010, 0.3460761990, 0.8237185085]),
        ):
            method = built("groupdro", step=1.0, memory=memory)
            first = method.weights(risks, present)
            assert [*first.tolist(), (first * risks).sum().item()] == pytest.approx(
                [0.6539238010, 0.3460761990, 0.8237185085], abs=1e-9
            )
            again = method.weights(risks, present)
            assert [*again.tolist(), (again * risks).sum().item()] == pytest.approx(second, abs=1e-9)

    def test_large_steps_leave_the_worst_environment_and_never_overflow(self):
        method = built("groupdro", step=1e4)
        for _ in range(100):
            weights = method.weights(torch.tensor([1.0, 0.0]).double(), torch.tensor([True, True]))
        assert weights.tolist() == pytest.approx([1, 0])

    @pytest.mark.parametrize("memory", ["persistent", "batch"])
    def test_the_loss_has_the_gradient_of_its_equation_with_given_weights(self, any_set, memory):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, step=2.0, memory=memory)
        batch = doubled(whole(graphs))
        losses, known = label_losses(method.classifier(batch), batch, schema.task)
        members = [batch.environment == environment for environment in (0, 1)]
        risks = torch.stack([losses[here].sum() / known[here].sum() for here in members])
        weights = (2.0 * risks.detach()).softmax(0)
        found = method.loss(batch, Progress())["weighted_risk"]
        assert found.item() == pytest.approx((weights * risks).sum().item(), abs=1e-6)
        assert_same_slopes(found, (weights * risks).sum(), method, atol=1e-6)

    def test_an_environment_without_labels_takes_no_part(self):
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        graphs.y[graphs.environment == 1] = math.nan
        method, batch = self.build(CHEMICAL, step=1.0), doubled(whole(graphs))
        expected = method.risk(method.classifier(batch), batch)
        assert method.loss(batch, Progress())["weighted_risk"].item() == pytest.approx(expected.item(), abs=1e-9)

    @pytest.mark.parametrize("memory", ["persistent", "batch"])
    def test_absent_environment_keeps_its_memory_and_takes_no_part_in_the_loss(self, memory):
        method = built("groupdro", step=1.0, memory=memory)
        weights = method.weights(torch.tensor([0.0, 0.0]).double(), torch.tensor([True, False]))
        assert weights.tolist() == pytest.approx([1, 0])
        if memory == "persistent":
            assert method.log_weights.exp().tolist() == pytest.approx([0.5, 0.5])

    def test_without_steps_it_is_the_mean_of_the_present_environments(self):
        method = built("groupdro", step=0.0)
        risks = torch.tensor([0.4, 0.8]).double()
        assert (method.weights(risks, torch.tensor([True, True])) * risks).sum().item() == pytest.approx(0.6)
        assert (method.weights(risks, torch.tensor([False, True])) * risks).sum().item() == pytest.approx(0.8)


class TestDropEdge(MethodCase):
    name = "dropedge"
    zero = {"drop": 0}

    def test_everything_dropped_is_erm_on_graphs_without_edges(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, drop=1.0)
        bare = [Data(**{**graph.to_dict(), "edge_index": graph.edge_index[:, :0]}) for graph in graphs.to_data_list()]
        for graph in bare:
            if graph.edge_attr is not None:
                graph.edge_attr = graph.edge_attr[:0]
        edgeless = doubled(whole(PackedGraphs.from_data_list(bare)))
        expected = method.risk(method.classifier(edgeless), edgeless)
        batch = doubled(whole(graphs))
        assert method.loss(batch, Progress())["risk"].item() == pytest.approx(expected.item(), abs=1e-9)
        assert expected.item() != pytest.approx(method.risk(method.classifier(batch), batch).item(), abs=1e-3)

    def test_dropping_nothing_trains_exactly_as_erm_does(self, any_splits):
        """Dropout and all: its draws are not the method's."""
        curves = []
        for name, changes in (("erm", {}), ("dropedge", {"drop": 0.0})):
            torch.manual_seed(0)
            backbone = dataclasses.replace(SMALL, dropout=0.5)
            method = build_method(name, any_splits.schema, backbone, method_settings(name, changes))
            run = Trainer(method, any_splits, FRAME, 0)
            run.fit()
            curves.append(run.curves)
        assert curves[0] == curves[1]

    def test_both_directions_go_together_at_the_right_rate(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:400], 400)))
        method = build_method("dropedge", motif.schema, SMALL, method_settings("dropedge", {"drop": 0.3}))
        kept = method.thinned(batch).edge
        assert torch.equal(kept, kept[batch.reverse])
        undirected = len(kept) / 2
        assert abs(kept.mean().item() - 0.7) < 3 * math.sqrt(0.7 * 0.3 / undirected)
        assert not torch.equal(kept, method.thinned(batch).edge)

    def test_everything_dropped_still_runs_and_eval_is_deterministic(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, drop=1.0)
        batch = doubled(whole(graphs))
        assert stepper.step(batch, Progress())["risk.risk"].isfinite()
        method.eval()
        assert torch.equal(method(batch), method(batch))


class TestMMixup(MethodCase):
    name = "m-mixup"
    zero = {}

    def zero_strength(self, method):
        method.share = lambda batch: torch.ones((), dtype=torch.double)

    def test_zero_strength_is_erm(self, any_set):
        """A label counts where both graphs of a pair know theirs, so every label must be known."""
        super().test_zero_strength_is_erm(all_known(any_set))

    def test_padding_changes_neither_losses_nor_gradients(self, any_set, monkeypatch):
        monkeypatch.setattr(
            "outland.methods.mmixup.permutation",
            lambda batch, random: torch.tensor([1, 2, 3, 4, 5, 0, 6, 7])[: batch.num_graphs],
        )
        monkeypatch.setattr("outland.methods.mmixup.MMixup.share", lambda self, batch: torch.tensor(0.3).double())
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    def test_mixed_loss_is_the_loss_on_soft_labels(self, any_set):
        schema, graphs = all_known(any_set)
        method, batch = self.build(schema).eval(), doubled(whole(graphs))
        share, order = torch.tensor(0.3).double(), torch.tensor([1, 2, 3, 4, 5, 0])
        h = method.classifier.embed(batch)
        logits = method.classifier.head(share * h + (1 - share) * h[order], batch)
        if schema.task.kind == "multiclass":
            hot = torch.nn.functional.one_hot(batch.y, 3).double()
            loss = torch.nn.functional.cross_entropy
        else:
            hot = batch.y.double()
            loss = torch.nn.functional.binary_cross_entropy_with_logits
        expected = loss(logits, share * hot + (1 - share) * hot[order])
        assert method.mixed(batch, share, order).item() == pytest.approx(expected.item(), abs=1e-12)

    def test_a_label_counts_where_both_graphs_know_theirs(self):
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        method, batch = self.build(CHEMICAL).eval(), doubled(whole(graphs))
        share, order = torch.tensor(0.3).double(), torch.tensor([1, 2, 3, 4, 5, 0])
        h = method.classifier.embed(batch)
        logits = method.classifier.head(share * h + (1 - share) * h[order], batch)
        found = []
        for i, j in enumerate(order.tolist()):
            for task in range(2):
                own, other = batch.y[i, task].item(), batch.y[j, task].item()
                if not (math.isnan(own) or math.isnan(other)):
                    signs = [torch.nn.functional.softplus(-(2 * y - 1) * logits[i, task]) for y in (own, other)]
                    found.append((share * signs[0] + (1 - share) * signs[1]).item())
        assert 0 < len(found) < 12
        assert method.mixed(batch, share, order).item() == pytest.approx(sum(found) / len(found), abs=1e-12)
        own_pairs = torch.arange(6)
        half = torch.tensor(0.5).double()
        expected = method.risk(method(batch), batch).item()
        assert method.mixed(batch, half, own_pairs).item() == pytest.approx(expected, abs=1e-12)

    def test_shares_follow_the_beta_law(self):
        method, batch = built("m-mixup", alpha=2.0), whole(PackedGraphs.from_data_list(odd_graphs()))
        draws = torch.stack([method.share(batch) for _ in range(4000)])
        assert draws.mean().item() == pytest.approx(0.5, abs=0.02)
        assert draws.var().item() == pytest.approx(0.05, abs=0.005)


class TestFLAG(MethodCase):
    name = "flag"
    zero = {"size": 0}
    one_pass = False

    def test_every_ascent_goes_up_the_loss(self, any_set, monkeypatch):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, size=1e-3, ascents=4)
        batch = doubled(whole(graphs))
        forward, seen = type(method.classifier).forward, []

        def spy(net, batch, mask=None, states=None):
            seen.append(states.detach())
            return forward(net, batch, mask, states)

        monkeypatch.setattr(type(method.classifier), "forward", spy)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        monkeypatch.undo()
        assert len(seen) == 4
        risks = []
        for states, following in zip(seen, [*seen[1:], None], strict=True):
            point = states.clone().requires_grad_()
            risk = method.risk(method.classifier(batch, states=point), batch)
            risks.append(risk.item())
            (slope,) = torch.autograd.grad(risk, point)
            clear = slope.abs() > 1e-9  # rounding decides the sign of the others
            if following is not None:
                assert clear.float().mean() > 0.5
                assert torch.allclose((following - states)[clear], 1e-3 * slope.sign()[clear], atol=1e-12)
        assert risks == sorted(risks)

    def test_noise_grows_by_its_size_each_ascent(self, any_set, monkeypatch):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, size=0.1, ascents=3)
        batch = doubled(whole(graphs))
        clean, seen = method.classifier.encoder.embed(batch), []
        forward = type(method.classifier).forward

        def spy(net, batch, mask=None, states=None):
            seen.append((states - clean).detach().abs().max().item())
            return forward(net, batch, mask, states)

        monkeypatch.setattr(type(method.classifier), "forward", spy)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        assert len(seen) == 3
        assert all(size <= (t + 1) * 0.1 + 1e-9 for t, size in enumerate(seen))
        assert seen[2] > 0.15

    def test_one_ascent_is_erm_on_uniform_noise(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, size=0.1, ascents=1)
        batch = doubled(whole(graphs))
        method.eval()
        risk = method.loss(batch, Progress())["risk"]
        method.reseed(0, torch.device("cpu"))
        x = method.classifier.encoder.embed(batch)
        noise = torch.rand(x.shape, generator=method.random, dtype=torch.double)
        expected = method.risk(method.classifier(batch, states=x + 0.1 * (2 * noise - 1)), batch)
        assert risk.item() == pytest.approx(expected.item(), abs=1e-12)


def test_backbones_all_serve_every_method():
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    schema: Schema = REAL
    for name in ("irm", "vrex", "groupdro", "dropedge", "m-mixup", "flag"):
        for kind in ("gcn", "gcnii", "gat"):
            settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2)
            method = build_method(name, schema, settings, method_settings(name, {})).double()
            terms = method.phases()[0].loss(batch, Progress())
            assert all(term.isfinite() for term in terms.values())


def test_a_parameter_of_the_method_itself_trains_too(any_splits):
    class Scaled(find_method("erm")):
        def __init__(self, *given):
            super().__init__(*given)
            self.scale = torch.nn.Parameter(torch.ones(1))

        def loss(self, batch, progress):
            return {"risk": self.risk(self.scale * self.classifier(batch), batch)}

    method = Scaled(any_splits.schema, SMALL)
    counts = method.parameter_counts()
    assert counts["total"] == counts["classifier"] + 1
    Trainer(method, any_splits, FRAME, 0).fit()
    assert method.scale.item() != 1
