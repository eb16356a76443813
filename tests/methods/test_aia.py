import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import Progress, build_method
from outland.methods.aia import AIA
from outland.methods.parts.masks import random_mask
from outland.nn import BackboneSettings, Mask
from outland.training import TrainSettings
from outland.training.stepper import Stepper
from tests.cases import MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import motif_batch
from tests.methods.plain_aia import PlainAIA

SMALL = BackboneSettings(width=8, layers=4, dropout=0.0)
PRESETS = {name: preset() for name, preset in AIA.presets.items()}
every_preset = pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)


@pytest.mark.parametrize(
    "settings", [AIA.paper(), AIA.paper(statistics="both"), AIA.released()], ids=["paper", "mixed", "released"]
)
def test_twenty_steps_equal_the_hand_written_loop(motif, settings):
    torch.manual_seed(3)
    frame = TrainSettings(epochs=1, schedule="constant", weight_decay=1e-3)
    method = AIA(motif.schema, SMALL, settings).double()
    batch = motif_batch(motif)
    # On Motif's constant feature some gradients are 0 but for rounding, and Adam would blow that up to full steps.
    batch = batch.replace(x=torch.randn_like(batch.x))
    plain = PlainAIA(method, batch, settings, settings.front_layers, SMALL.layers - settings.front_layers)
    stepper = Stepper(method, frame)
    before = {name: value.detach().clone() for name, value in method.named_parameters()}
    for _ in range(20):
        expected = plain.step(frame.weight_decay)
        log = stepper.step(batch, Progress())
        for phase, loss in expected.items():
            ours = sum(value.item() for name, value in log.items() if name.startswith(f"{phase}."))
            assert ours == pytest.approx(loss, abs=1e-5)
    for name, value in method.named_parameters():
        assert torch.allclose(value, plain.p[name], atol=1e-5), name
        if "head" in name or "eps" in name:
            assert not torch.allclose(value, before[name], atol=1e-3), f"{name} did not move"
    for name, value in method.named_buffers():
        if "running" in name:
            assert torch.allclose(value, plain.running[name], atol=1e-5), name


def test_presets_are_what_paper_and_code_say():
    paper, released = AIA.paper(), AIA.released()
    assert (paper.front_layers, paper.distance, paper.update) == (0, "squared", "simultaneous")
    assert (paper.lr, paper.lr_augmenter, paper.gamma, paper.lambda_s) == (5e-3, 1e-3, 0.2, 0.5)
    assert (paper.stable_weight, paper.adversarial_weight, paper.lambda_a_edge) == (1, 1, 1)
    assert (released.front_layers, released.distance, released.update) == (2, "mean", "sequential")
    assert (released.lr, released.lr_augmenter, released.adversarial_weight, released.lambda_a_edge) == (
        1e-3,
        5e-3,
        0.5,
        0.8,
    )
    assert (paper.statistics, released.statistics) == ("stable", "both")
    assert AIA.paper(gamma=1.5).gamma == 1.5


@every_preset
def test_each_phase_moves_its_own_side_and_nothing_else(motif, settings):
    torch.manual_seed(0)
    method = build_method("aia", motif.schema, dataclasses.replace(SMALL, dropout=0.5), settings).double()
    stepper = Stepper(method, TrainSettings())
    batch = motif_batch(motif)
    for optimizer in stepper.optimizers:
        state = {name: value.clone() for name, value in method.state_dict().items()}
        stepper.backward(optimizer, batch, Progress())
        trained = {id(parameter) for parameter in optimizer.parameters}
        for name, parameter in method.named_parameters():
            if id(parameter) in trained:
                assert parameter.grad is not None, name
                parameter.grad = None
            else:
                assert parameter.grad is None, name
                assert not parameter.requires_grad
        augmenting = optimizer.phase.name == "adversarial"
        for name, value in method.state_dict().items():
            if "running_mean" in name and name.startswith("augmenter") != augmenting:
                assert torch.equal(value, state[name]), f"{name}: a side that stands still keeps its statistics"


def test_phases_take_their_gradients_where_the_update_rule_says(motif):
    """Simultaneous phases see the same parameters; in sequential order the second sees what the first moved."""
    batch, second = motif_batch(motif), {}
    for update in ("simultaneous", "sequential"):
        torch.manual_seed(0)
        method = AIA(motif.schema, SMALL, AIA.released(update=update)).double()
        alone = AIA(motif.schema, SMALL, AIA.released(update=update)).double()
        alone.load_state_dict(method.state_dict())
        untouched = Stepper(alone, TrainSettings())
        phases = {optimizer.phase.name: optimizer for optimizer in untouched.optimizers}
        fresh = untouched.backward(phases["adversarial"], batch, Progress())["adversarial"].item()
        second[update] = (
            Stepper(method, TrainSettings()).step(batch, Progress())["adversarial.adversarial"].item() - fresh
        )
    assert second["simultaneous"] == 0
    assert abs(second["sequential"]) > 1e-6


@every_preset
def test_losses_and_gradients_do_not_see_padding(any_set, settings):
    schema, graphs = any_set
    if settings.adversary == "random":  # its draws depend on the number of rows, unless it drops nothing
        settings = dataclasses.replace(settings, drop=0.0)
    results = []
    for selected in ("exact", "padded"):
        torch.manual_seed(0)
        method = AIA(schema, dataclasses.replace(SMALL, head="mlp"), settings).double()
        batch = whole(graphs, selected)
        batch = batch.replace(x=batch.x.double()) if batch.x.is_floating_point() else batch
        stepper = Stepper(method, TrainSettings())
        actual = []
        for optimizer in stepper.optimizers:
            terms = stepper.backward(optimizer, batch, Progress())
            actual += [*terms.values(), *(p.grad for p in optimizer.parameters if p.grad is not None)]
        results.append(actual)
    assert len(results[0]) > 20
    for first, second in zip(*results, strict=True):
        assert torch.allclose(first, second, atol=1e-9)


@every_preset
def test_inference_and_masks(any_set, settings):
    schema, graphs = any_set
    torch.manual_seed(0)
    method, batch = AIA(schema, SMALL, settings).eval(), whole(graphs)
    assert method(batch).shape == (6, schema.task.outputs)
    masks = method.masks(batch)
    assert list(masks) == (["stable", "adversarial", "merged"] if settings.stable else ["adversarial"])
    for mask in masks.values():
        assert mask.node.shape == (batch.num_nodes,)
        assert torch.equal(mask.edge, mask.edge[batch.reverse])
        assert ((mask.node >= 0) & (mask.node <= 1)).all()
    if settings.stable:
        assert (masks["merged"].edge >= masks["stable"].edge - 1e-6).all()
        whole_graph = method.classifier(batch, Mask.full(batch), method.hidden_states(batch)[0])
        assert not torch.allclose(method(batch), whole_graph)


def test_without_stable_features_inference_uses_the_whole_graph(any_set):
    schema, graphs = any_set
    method, batch = AIA(schema, SMALL, AIA.released(stable=False)).eval(), whole(graphs)
    assert torch.allclose(method(batch), method.classifier(batch, None, method.hidden_states(batch)[0]))
    assert method.parameter_counts().get("generator") is None


def test_without_adversary_the_augmented_graph_is_the_graph(any_set):
    schema, graphs = any_set
    torch.manual_seed(0)
    method, batch = AIA(schema, SMALL, AIA.released(adversary="none")).eval(), whole(graphs)
    terms = method.stable_loss(batch, Progress())
    plain = method.risk(method.classifier(batch, None, method.hidden_states(batch)[0]), batch)
    assert terms["augmented"].item() == pytest.approx(plain.item(), abs=1e-6)
    assert [phase.name for phase in method.phases()] == ["stable"]


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_running_statistics_can_be_those_of_the_stable_part(motif, layout):
    batch = motif_batch(motif, layout=layout)
    actual = {}
    for statistics in ("both", "stable"):
        torch.manual_seed(0)
        method = AIA(motif.schema, SMALL, AIA.released(statistics=statistics)).double().train()
        method.augmenter.eval()
        terms = method.stable_loss(batch, Progress())
        actual[statistics] = terms, {name: value.clone() for name, value in method.classifier.named_buffers()}
    assert actual["both"][0] == actual["stable"][0]  # what is minimised is the same
    torch.manual_seed(0)
    method = AIA(motif.schema, SMALL, AIA.released()).double().train()
    with torch.no_grad():
        method.classifier(batch, method.generator(batch), method.hidden_states(batch)[0])
    expected = dict(method.classifier.named_buffers())
    means = [name for name in expected if name.endswith("running_mean")]
    assert means
    for name in means:
        assert torch.equal(actual["stable"][1][name], expected[name])
        assert not torch.equal(actual["both"][1][name], expected[name])


def test_front_must_leave_a_layer_to_mask(motif):
    with pytest.raises(OutlandError, match=r"front_layers \(4\) must be at least 0 and below"):
        AIA(motif.schema, SMALL, AIA.released(front_layers=4))


class TestAIA(MethodCase):
    """With a generator that keeps everything and an adversary that drops nothing, both its risks are ERM's."""

    name = "aia"
    one_pass = False
    zero = {"adversary": "random", "drop": 0, "front_layers": 0, "stable_weight": 0}

    def zero_strength(self, method):
        method.generator.forward = lambda batch: Mask.full(batch, 1.0, torch.double)

    def classifier_gradients(self, method):
        gradients = super().classifier_gradients(method)
        return {name: None if gradient is None else gradient / 2 for name, gradient in gradients.items()}


class TestRDIA(TestAIA):
    """The same with random masks; comparing layouts it drops nothing, for its draws depend on the number of rows."""

    name = "aia:rdia"
    still = {"drop": 0}

    def test_the_classifier_meets_the_dropped_graph(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, drop=0.5), doubled(whole(graphs))
        actual = method.stable_loss(batch, Progress())["augmented"]
        fresh = self.build(schema, drop=0.5)
        states, stable = fresh.hidden_states(batch)[0], fresh.generator(batch)
        fresh.classifier(batch, stable, states)
        mask = random_mask(batch, 0.5, torch.Generator().manual_seed(2**32), torch.double)
        assert (mask.edge == 0).any()
        expected = fresh.risk(fresh.classifier(batch, stable.merge(mask), states), batch)
        assert actual.item() == pytest.approx(expected.item(), abs=1e-12)
        whole_graph = fresh.risk(fresh.classifier(batch, stable.merge(Mask.full(batch)), states), batch)
        assert actual.item() != pytest.approx(whole_graph.item(), abs=1e-4)
