"""What every method must do. A method's test class inherits `MethodCase` and says how it comes down to ERM."""

import dataclasses
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Schema, Splits, Task
from outland.methods import Method, Progress, build_method, find_method, method_settings, rebuild_method
from outland.nn import BackboneSettings, Dropout
from outland.training import Trainer, TrainSettings
from outland.training.callbacks import Callback
from outland.training.checkpoint import Checkpoints
from outland.training.stepper import Stepper
from tests.conftest import CHEMICAL, chemical_graphs, whole

SMALL = BackboneSettings(width=8, layers=3, dropout=0.0)
FRAME = TrainSettings(epochs=2, batch_size=6, eval_batch_size=8, checkpoint_every=1)


class NoWaiting(TorchDispatchMode):
    """Refuses what would make the host wait for a GPU: values read, and shapes that depend on values."""

    WAITS = (
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "unique",
        "_unique",
        "is_nonzero",
        "equal",
        "bincount",
    )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name.partition("::")[2], kwargs or {}
        assert not any(name.startswith(wait) for wait in self.WAITS), f"{name} waits for the device"
        if name == "repeat_interleave":
            assert kwargs.get("output_size") is not None, "repeat_interleave without output_size waits for the device"
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
            assert not masks, "indexing by a boolean mask waits for the device"
        return func(*args, **kwargs)


class StopsAfterOne(Callback):
    """Ctrl-C in the second epoch."""

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        if row["epoch"] == 1:
            raise KeyboardInterrupt


def doubled(batch: Any) -> Any:
    return batch.replace(x=batch.x.double()) if batch.x.is_floating_point() else batch


def statistics(module: torch.nn.Module) -> dict[str, Any]:
    """Batch norm's running averages."""
    return {name: value for name, value in module.named_buffers() if name.endswith(("running_mean", "running_var"))}


class MethodCase:
    """Tests for free.

    Attributes:
        name: the method.
        zero: settings under which it is ERM on the same classifier (see `zero_strength` for more than settings).
        still: settings under which nothing depends on random draws, for comparing layouts.
        lowers: at least so many of 20 seeds see the loss fall after one step.
        rounding_only: parameters whose gradient is 0 but for rounding, because a norm further on takes them away.
        one_pass: at zero strength graphs pass the classifier once a step, so batch norm's averages are ERM's too.
    """

    name: ClassVar[str]
    zero: ClassVar[dict[str, Any]]
    still: ClassVar[dict[str, Any]] = {}
    lowers: ClassVar[int] = 19
    rounding_only: ClassVar[set[str]] = set()
    one_pass: ClassVar[bool] = True

    def build(self, schema: Schema, seed: int = 0, **changes: Any) -> Method:
        """A small model in double precision."""
        backbone = dataclasses.replace(SMALL, **changes.pop("backbone", {}))
        torch.manual_seed(seed)
        method = build_method(self.name, schema, backbone, method_settings(self.name, changes)).double()
        method.reseed(seed, torch.device("cpu"))
        return method

    def ready(self, schema: Schema, graphs: PackedGraphs, **changes: Any) -> tuple[Method, Stepper]:
        """A model that has seen its training graphs, and what moves it."""
        method = self.build(schema, **changes)
        method.prepare(graphs, torch.arange(len(graphs)), 0)
        return method, Stepper(method, FRAME)

    def trainer(self, splits: Splits, checkpoints: Checkpoints | None = None, **frame: Any) -> Trainer:
        torch.manual_seed(0)
        backbone = dataclasses.replace(SMALL, dropout=0.3)
        method = build_method(self.name, splits.schema, backbone, method_settings(self.name, {}))
        return Trainer(method, splits, dataclasses.replace(FRAME, **frame), 0, checkpoints)

    def zero_strength(self, method: Method) -> None:
        """Anything that settings cannot say, such as masks that keep everything."""

    def test_it_names_its_paper_and_its_search_space(self):
        cls = find_method(self.name)
        assert cls.citation
        assert cls.__doc__
        assert ".. math::" in cls.__doc__
        method_settings(self.name, {name: values[0] for name, values in cls.space.items()})

    def test_trains_on_every_kind_of_graph_and_label(self, any_splits):
        run = self.trainer(any_splits)
        run.fit()
        for row in run.curves:
            assert all(torch.tensor(list(row["loss"].values())).isfinite())
        assert run.method(whole(any_splits.graphs)).shape == (24, any_splits.schema.task.outputs)

    def test_trains_on_real_numbers(self, any_splits):
        random = torch.Generator().manual_seed(0)
        y = torch.randn(len(any_splits.graphs), 1, generator=random)
        y[3] = torch.nan
        schema = dataclasses.replace(any_splits.schema, task=Task("regression", 1, "rmse"))
        splits = dataclasses.replace(
            any_splits, graphs=dataclasses.replace(any_splits.graphs, y=y), schema=schema
        ).check()
        run = self.trainer(splits)
        run.fit()
        for row in run.curves:
            assert all(torch.tensor(list(row["loss"].values())).isfinite())
        assert 0 < run.curves[-1]["test"]["rmse"] < 10

    def test_no_gradient_is_mere_rounding(self, any_set):
        """Scaled by Adam it becomes whole steps: of a bias that batch norm takes away again, for instance."""
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs)
        for epoch in (0, 1, FRAME.epochs - 1):
            for optimizer in stepper.optimizers:
                stepper.backward(optimizer, doubled(whole(graphs)), Progress(epoch=epoch, epochs=FRAME.epochs))
                gradients = {
                    name: p.grad.abs().max().item() for name, p in method.named_parameters() if p.grad is not None
                }
                assert {name for name, largest in gradients.items() if 0 < largest < 1e-13} <= self.rounding_only

    def test_descriptors_move_every_prediction(self):
        packed = PackedGraphs.from_data_list(chemical_graphs())
        method = self.build(dataclasses.replace(CHEMICAL, descriptors=3), backbone={"descriptors": True}).eval()
        batch = whole(dataclasses.replace(packed, extra={"descriptors": torch.zeros(len(packed), 3).double()}))
        assert batch.descriptors is not None
        difference = method(batch.replace(descriptors=batch.descriptors + 1)) - method(batch)
        assert (difference.abs() > 1e-6).all()

    def test_zero_strength_is_erm(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, **self.zero)
        self.zero_strength(method)
        torch.manual_seed(0)
        erm = build_method("erm", schema, self.reference_backbone(method), method_settings("erm", {})).double()
        erm.classifier.load_state_dict(self.classifier_state(method))
        batch = doubled(whole(graphs))
        stepper.backward(stepper.optimizers[self.classifier_phase(stepper)], batch, Progress())
        reference = Stepper(erm, FRAME)
        reference.backward(reference.optimizers[0], batch, Progress())
        actual = self.classifier_gradients(method)
        for name, parameter in erm.classifier.named_parameters():
            ours = actual[name]
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            ours = torch.zeros_like(parameter) if ours is None else ours
            assert torch.allclose(ours, expected, atol=1e-9), name
        state = self.classifier_state(method)
        if self.one_pass:
            for name, value in statistics(erm.classifier).items():
                assert torch.allclose(state[name], value, atol=1e-9), name
        erm.classifier.load_state_dict(state)
        assert torch.allclose(method.eval()(batch), erm.eval()(batch), atol=1e-9)

    def reference_backbone(self, method: Method) -> BackboneSettings:
        """The ERM that the method comes down to."""
        return SMALL

    def classifier_phase(self, stepper: Stepper) -> int:
        """Which phase moves the classifier."""
        return 0

    def classifier_state(self, method: Method) -> dict[str, Any]:
        """Its classifier's weights, under ERM's names."""
        return method.classifier.state_dict()  # type: ignore[union-attr,operator]

    def classifier_gradients(self, method: Method) -> dict[str, Any]:
        """Its classifier's gradients, under ERM's names."""
        return {name: parameter.grad for name, parameter in method.classifier.named_parameters()}  # type: ignore[union-attr,operator]

    def test_comes_back_with_its_weights_and_no_others(self, any_set):
        schema, graphs = any_set
        settings = method_settings(self.name, {})
        torch.manual_seed(3)
        method = build_method(self.name, schema, SMALL, settings).eval()
        again = rebuild_method(self.name, schema, SMALL, settings, method.state_dict()).eval()
        assert torch.equal(again(whole(graphs)), method(whole(graphs)))
        wider = dataclasses.replace(SMALL, width=4096)
        with pytest.raises(ValueError, match="other shapes"):
            rebuild_method(self.name, schema, wider, settings, method.state_dict())

    def test_each_phase_moves_its_own_parameters_only(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs)
        assert {id(p) for optimizer in stepper.optimizers for p in optimizer.parameters} == {
            id(p) for p in method.parameters()
        }
        for optimizer in stepper.optimizers:
            for parameter in method.parameters():
                parameter.grad = None
            stepper.backward(optimizer, doubled(whole(graphs)), Progress())
            trained = {id(parameter) for parameter in optimizer.parameters}
            assert all(parameter.grad is None for parameter in method.parameters() if id(parameter) not in trained)
            assert any(parameter.grad is not None and (parameter.grad != 0).any() for parameter in optimizer.parameters)

    def test_one_seed_decides_everything(self, any_splits):
        curves = []
        for _ in range(2):
            run = self.trainer(any_splits)
            torch.rand(3)
            run.fit()
            curves.append(run.curves)
        assert curves[0] == curves[1]

    def test_resumed_run_equals_the_uninterrupted_one(self, any_splits, tmp_path):
        complete = self.trainer(any_splits)
        complete.fit()
        half = self.trainer(any_splits, Checkpoints(tmp_path))
        half.callback = StopsAfterOne()
        with pytest.raises(KeyboardInterrupt):
            half.fit()
        resumed = self.trainer(any_splits, Checkpoints(tmp_path))
        assert resumed.resume() == 1
        resumed.fit()
        assert resumed.curves == complete.curves

    def test_one_step_lowers_the_loss(self, motif):
        graphs = motif.graphs.select(motif["train"][:8])
        batch, lowered = doubled(whole(graphs)), 0
        for seed in range(20):
            method, stepper = self.ready(motif.schema, graphs, seed=seed)
            optimizer = stepper.optimizers[self.classifier_phase(stepper)]
            first = stepper.backward(optimizer, batch, Progress())
            optimizer.adam.step()
            method.reseed(seed, torch.device("cpu"))  # the same draws: others make another loss
            second = stepper.backward(optimizer, batch, Progress())
            lowered += bool(sum(second.values()) < sum(first.values()))
        assert lowered >= self.lowers

    @pytest.mark.parametrize("chosen", [[0], [1], [2, 2], [0, 3], [0, 2, 4]], ids=str)
    def test_small_and_uniform_batches_have_finite_losses(self, any_set, chosen):
        """One graph, one node, no edges at all, one class, one environment."""
        schema, graphs = any_set
        _, stepper = self.ready(schema, graphs)
        batch = doubled(whole(graphs.select(torch.tensor(chosen))))
        for _ in range(2):
            for value in stepper.step(batch, Progress()).values():
                assert value.isfinite()
        assert all(parameter.isfinite().all() for parameter in stepper.parameters)

    def test_padding_changes_neither_losses_nor_gradients(self, any_set):
        schema, graphs = any_set
        results = []
        for layout in ("exact", "padded"):
            method, stepper = self.ready(schema, graphs, **self.still)
            actual = []
            for optimizer in stepper.optimizers:
                method.reseed(0, torch.device("cpu"))
                terms = stepper.backward(optimizer, doubled(whole(graphs, layout)), Progress())
                actual += [*terms.values(), *(p.grad for p in optimizer.parameters if p.grad is not None)]
            results.append(actual)
        assert len(results[0]) > 5
        for first, second in zip(*results, strict=True):
            assert torch.allclose(first, second, atol=1e-9)

    def test_padding_changes_no_prediction_nor_does_a_graph_without_edges(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        batch = doubled(whole(graphs))
        method.train()
        for _ in range(2):
            method(batch)  # statistics that are not the initial ones
        method.eval()
        plain = method(batch)
        assert torch.allclose(method(doubled(whole(graphs, "padded")))[: len(graphs)], plain, atol=1e-9)
        more = graphs.select(torch.tensor([*range(len(graphs)), 2]))
        assert torch.allclose(method(doubled(whole(more)))[: len(graphs)], plain, atol=1e-9)

    def test_dropout_is_not_disturbed_by_the_methods_own_draws(self, any_splits):
        run = self.trainer(any_splits)
        run.method.reseed(0, run.device)
        before = run.method.dropout_random.get_state()
        torch.rand(5, generator=run.method.random)
        assert torch.equal(before, run.method.dropout_random.get_state())
        drops = [part for part in run.method.modules() if isinstance(part, Dropout)]
        assert drops
        assert all(part.generator is run.method.dropout_random for part in drops)

    def test_a_step_waits_for_nothing(self, any_set):
        schema, graphs = any_set
        _, stepper = self.ready(schema, graphs)
        batch = doubled(whole(graphs, "padded"))
        stepper.step(batch, Progress())  # the optimizers make their state
        with NoWaiting():
            for optimizer in stepper.optimizers:
                stepper.backward(optimizer, batch, Progress())

    @pytest.mark.parametrize("kind", ["gcn", "gcnii", "gat"])
    def test_every_backbone_serves(self, any_set, kind):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, backbone={"kind": kind, "heads": 2, "virtual_node": True})
        for phase in method.phases():
            for progress in (Progress(), Progress(epoch=9, epochs=10)):
                assert all(term.isfinite() for term in phase.loss(doubled(whole(graphs)), progress).values())

    def test_it_says_when_it_needs_environments(self, any_set):
        schema, _ = any_set
        bare = dataclasses.replace(schema, environments=0)
        if not find_method(self.name).needs_environments:
            assert self.build(bare) is not None
            return
        with pytest.raises(OutlandError, match=f"{self.name} needs at least two training environments"):
            self.build(bare)
