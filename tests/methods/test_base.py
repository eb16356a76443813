from dataclasses import dataclass, replace

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import METHODS, Method, MethodSettings, build_method, find_method, method_settings
from outland.methods.aia import AIASettings
from outland.methods.erm import ERM
from outland.nn import BackboneSettings, GraphNet, Mask
from outland.settings import settings
from outland.training import Trainer
from tests.cases import FRAME, SMALL
from tests.conftest import whole

EVERY = [name for method in METHODS for name in (method, *(f"{method}:{p}" for p in find_method(method).presets))]


@settings("method")
class ScaledSettings(MethodSettings):
    scale: float = 2.0


class Scaled(Method[ScaledSettings]):
    name = "scaled"

    def __init__(self, *given):
        super().__init__(*given)
        self.classifier = GraphNet(self.backbone, self.schema)


def last_linear_input(method, batch):
    """The input of the last linear layer of output width that is called with a row for each graph."""
    inputs = []
    layers = [layer for layer in method.modules() if isinstance(layer, torch.nn.Linear)]
    for layer in layers:
        if layer.out_features == method.schema.task.outputs:
            layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    logits = method(batch)
    return logits, [rows for rows in inputs if len(rows) == batch.num_graphs][-1]


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("name", EVERY)
def test_an_embedding_is_the_input_of_the_last_linear_layer(any_set, name, layout, head):
    schema, graphs = any_set
    torch.manual_seed(0)
    method = build_method(name, schema, replace(SMALL, head=head), method_settings(name, {})).eval()
    batch = whole(graphs, layout)
    with torch.inference_mode():
        embedding = method.embed(batch)
        logits, expected = last_linear_input(method, batch)
        assert torch.equal(embedding, expected)
        assert torch.equal(method.to_logits(embedding), logits)


def test_a_forward_of_its_own_needs_an_embed_of_its_own(any_set):
    class Doubled(ERM):
        name = "doubled"

        def forward(self, batch):
            return 2 * self.classifier(batch)

    schema, graphs = any_set
    method = Doubled(schema, SMALL)
    assert method(whole(graphs)).shape == (6, schema.task.outputs)
    with pytest.raises(OutlandError, match=r"doubled has a forward\(batch\) of its own and no embeddings"):
        method.embed(whole(graphs))


def test_settings_are_the_type_argument_unless_they_are_given(any_set):
    @dataclass(frozen=True)
    class OwnSettings(MethodSettings):
        strength: float = 0.5

    class Given(ERM):
        Settings = OwnSettings

    class Kept(Scaled):
        pass

    schema, _ = any_set
    assert (Method.Settings, ERM.Settings) == (MethodSettings, MethodSettings)
    assert find_method("aia").Settings is AIASettings
    assert Scaled.Settings is Kept.Settings is ScaledSettings
    assert Scaled(schema, SMALL).settings == ScaledSettings()
    assert Scaled(schema, SMALL, ScaledSettings(scale=3)).settings.scale == 3
    assert Given(schema, SMALL).settings == OwnSettings()


def test_a_method_says_what_it_can_do(any_set):
    schema, graphs = any_set
    masked = {name for name in METHODS if find_method(name).has_masks}
    assert masked == {"dir", "cal", "gsat", "ciga", "disc", "grea", "aia", "prune", "leci", "imold", "gala", "evidence"}
    augmenting = {name for name in METHODS if find_method(name).augments}
    assert augmenting == {"dropedge", "eerm", "flag", "g-mixup", "m-mixup", "grea", "aia", "evidence"}
    assert {name for name in augmenting if not find_method(name).learns_augmentation} == {
        "dropedge",
        "g-mixup",
        "evidence",
    }
    method, batch = Scaled(schema, SMALL), whole(graphs)
    with pytest.raises(OutlandError, match="scaled has no masks"):
        method.masks(batch)
    with pytest.raises(OutlandError, match="scaled does not augment graphs"):
        method.augment(batch)
    assert method.unaugmented(batch) is None


@pytest.mark.parametrize("name", EVERY)
def test_masks_are_those_it_says_it_has(any_set, name):
    schema, graphs = any_set
    method, batch = build_method(name, schema, SMALL, method_settings(name, {})).eval(), whole(graphs)
    if not method.has_masks:
        assert name == "aia:no-stable" or not find_method(name).has_masks
        return
    masks = method.masks(batch)
    assert next(iter(masks)) == "stable"
    assert all(isinstance(mask, Mask) and torch.equal(mask.edge, mask.edge[batch.reverse]) for mask in masks.values())


def test_masks_act_on_the_input_or_after_some_layers(any_set):
    schema, _ = any_set
    backbone = BackboneSettings(width=8, layers=4)

    def depth(name, **changes):
        return build_method(name, schema, backbone, method_settings(name, changes)).mask_depth

    assert [depth(name) for name in ("gsat", "disc", "dir", "ciga", "aia:paper")] == [0] * 5
    assert (depth("aia"), depth("aia", front_layers=3), depth("dir", classifier_input="encoded")) == (2, 3, 2)
    assert (depth("cal"), depth("grea")) == (4, 4)


def test_a_parameter_of_the_method_itself_trains_too(any_splits):
    class WithScale(find_method("erm")):
        def __init__(self, *given):
            super().__init__(*given)
            self.scale = torch.nn.Parameter(torch.ones(1))

        def loss(self, batch, progress):
            return {"risk": self.risk(self.scale * self.classifier(batch), batch)}

    method = WithScale(any_splits.schema, SMALL)
    counts = method.parameter_counts()
    assert counts["total"] == counts["classifier"] + 1
    Trainer(method, any_splits, FRAME, 0).fit()
    assert method.scale.item() != 1
