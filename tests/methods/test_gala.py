import dataclasses
import math

import pytest
import torch
from torch import nn

from outland.errors import OutlandError
from outland.methods import Progress, build_method, gala, method_settings
from outland.methods.parts.contrast import pair_contrast, pairs_across
from outland.methods.parts.risk import mean_risk
from outland.training import Trainer, TrainSettings
from outland.training.checkpoint import Checkpoints
from outland.training.outcome import selections
from outland.training.steps import ReplayedSteps
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import built, numbers, odd_batch, padded_with_graphs, regression, seeded
from tests.training.cases import StopsAfter

CONTRASTING = Progress(epoch=1, epochs=10)  # the first epoch after the warm-up


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def equal_states(module, before):
    return all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


class TestGALA(MethodCase):
    name = "gala"
    zero = {"alpha": 0}

    def build(self, schema, seed=0, **changes):
        """As in the epochs after the warm-up."""
        return super().build(schema, seed, **{"warm_up": 0, **changes})

    def zero_strength(self, method):
        """Every edge has weight 1."""
        nn.init.zeros_(method.score.last.weight)
        nn.init.constant_(method.score.last.bias, 100.0)

    def test_the_assistant_is_trained_in_the_warm_up_alone_and_nothing_is_contrasted_there(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, warm_up=0.2)
        batch = doubled(whole(graphs))
        for epoch in range(10):
            before = state_of(method.assistant)
            log = stepper.step(batch, Progress(epoch=epoch, epochs=10))
            assert equal_states(method.assistant, before) == (epoch >= 2)  # batch norm's averages too
            assert ("assistant.risk" in log) == (epoch < 2)
            assert ("risk.contrast" in log) == ("diagnostics.anchors" in log) == (epoch >= 2)
            assert method.clusters.total.any() == (epoch >= 2)

    def test_the_assistant_is_erm(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, warm_up=0.5)
        erm = build_method("erm", schema, SMALL, method_settings("erm", {})).double()
        erm.classifier.load_state_dict(method.assistant.state_dict())
        batch = doubled(whole(graphs))
        stepper.backward(stepper.optimizers[1], batch, Progress(epoch=0, epochs=10))
        expected = torch.autograd.grad(erm.loss(batch, Progress())["risk"], list(erm.parameters()), allow_unused=True)
        for parameter, grad in zip(method.assistant.parameters(), expected, strict=True):
            assert torch.allclose(parameter.grad, torch.zeros_like(parameter) if grad is None else grad, atol=1e-9)

    def test_the_contrast_reaches_classifier_and_edge_weights_and_not_the_assistant(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema), doubled(whole(graphs))
        label = torch.arange(len(graphs)) // 2 % 2
        batch = batch.replace(y=label.to(batch.y.dtype).reshape(-1, *[1] * (batch.y.dim() - 1)).expand_as(batch.y))
        method.groups = lambda batch, progress: torch.arange(batch.num_graphs)[:, None] % 2
        method.risk = lambda logits, batch: mean_risk(logits.detach(), batch, schema.task)
        value = sum(method.loss(batch, CONTRASTING).values())
        for module, is_reached in ((method.classifier.encoder, True), (method.scorer, True), (method.assistant, False)):
            grads = torch.autograd.grad(value, list(module.parameters()), retain_graph=True, allow_unused=True)
            assert any(grad is not None and (grad != 0).any() for grad in grads) == is_reached

    @pytest.mark.parametrize("clusters", [1, 3])
    def test_padding_graphs_are_in_no_pair_and_move_no_centre(self, any_set, clusters):
        schema, graphs = any_set
        found = []
        for batch in (doubled(whole(graphs)), padded_with_graphs(graphs)):
            method = self.build(schema, clusters=clusters)
            if clusters > 1:  # draws for seeds depend on the number of rows
                method.clusters.total.copy_(torch.randn(3, 8, generator=seeded(), dtype=torch.double))
            method.classifier.eval(), method.assistant.eval()
            terms = {**method.loss(batch, CONTRASTING), **method.diagnostics()}
            found.append([*terms.values(), *([method.clusters.total] if clusters > 1 else [])])
        for exact, padded in zip(*found, strict=True):
            assert torch.allclose(exact, padded, atol=1e-9)

    def test_predicted_classes_are_the_groups_of_one_cluster(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, clusters=1).eval(), doubled(whole(graphs))
        logits = method.assistant(batch)
        groups = method.groups(batch, CONTRASTING)
        assert method.clusters is None
        if schema.task.kind == "multiclass":
            assert groups.flatten().tolist() == logits.argmax(1).tolist()
        else:
            assert groups.tolist() == (logits > 0).tolist()

    def test_weights_are_symmetric_and_no_node_is_masked(self):
        method, batch = built("gala").eval(), odd_batch()
        mask = method.masks(batch)["stable"]
        assert torch.allclose(mask.edge, mask.edge[batch.reverse])
        assert ((mask.edge > 0) & (mask.edge < 1)).all()
        assert (mask.node == 1).all()
        assert torch.allclose(method(batch), method.classifier(batch, mask), atol=1e-12)

    def test_centres_must_remember_something(self):
        with pytest.raises(OutlandError, match=r"method\.decay must be from 0\.001 to 0\.9999, not 0"):
            built("gala", decay=0)

    def test_epochs_of_the_warm_up_are_not_selected(self, any_splits):
        method = built("gala", any_splits.schema, warm_up=0.5).float()
        run = Trainer(method, any_splits, dataclasses.replace(FRAME, epochs=3), 0)
        assert run.rule.burn_in == 2
        run.fit()
        table = selections(run.curves, any_splits.schema.task, run.rule.burn_in)
        assert table["ood_val+burn_in"]["epoch"] == 2
        assert [built("gala").barred_epochs(epochs) for epochs in (1, 10, 100)] == [1, 1, 10]

    @pytest.mark.parametrize("stop", [1, 2, 3])
    def test_centres_come_back_with_a_resumed_run(self, any_splits, tmp_path, stop):
        """In the warm-up, after seeds and after later moves."""
        complete = self.trainer(any_splits, epochs=4)
        complete.fit()
        assert complete.method.clusters.total.any()
        half = self.trainer(any_splits, Checkpoints(tmp_path), epochs=4)
        half.callback = StopsAfter(stop)
        with pytest.raises(KeyboardInterrupt):
            half.fit()
        resumed = self.trainer(any_splits, Checkpoints(tmp_path), epochs=4)
        assert resumed.resume() == stop
        resumed.fit()
        assert resumed.curves == complete.curves
        assert equal_states(resumed.method, complete.method.state_dict())

    @pytest.mark.parametrize("clusters", [1, 3])
    def test_a_replayed_run_equals_an_eager_one_with_three_captures_a_shape(self, any_splits, monkeypatch, clusters):
        """In the warm-up, in the epoch of seeds, and after it."""
        original, captured, runs = ReplayedSteps.capture_step, [], []

        def spy(self, shape, now):
            captured.append((shape, now.epoch))
            return original(self, shape, now)

        monkeypatch.setattr(ReplayedSteps, "capture_step", spy)
        for replay in (False, True):
            torch.manual_seed(0)
            backbone = dataclasses.replace(SMALL, dropout=0.3)
            method = build_method("gala", any_splits.schema, backbone, method_settings("gala", {"clusters": clusters}))
            frame = TrainSettings(epochs=5, batch_size=5, eval_batch_size=8, layout="padded")
            runs.append(Trainer(method, any_splits, frame, 1, replay=replay))
            runs[-1].fit()
        assert runs[0].curves == runs[1].curves
        assert equal_states(runs[0].method, runs[1].method.state_dict())
        assert list(runs[0].curves[1]["diagnostics"]) == ["anchors", "opposed_anchors", "batches_without_pairs"]
        assert {epoch for _, epoch in captured} == ({0, 1} if clusters == 1 else {0, 1, 2})

    def test_it_learns_motifs(self, motif):
        """Of one kind of base, so that no other can be learned in their place."""
        graphs = motif.graphs
        train = motif["train"]
        same = train[graphs.environment[train] == graphs.environment[train[0]]]
        splits = dataclasses.replace(motif, parts={"train": same[:200], "val": same[200:300], "test": same[200:300]})
        torch.manual_seed(0)
        backbone = dataclasses.replace(SMALL, width=32, layers=4)
        method = build_method("gala", motif.schema, backbone, method_settings("gala", {}))
        run = Trainer(method, splits, TrainSettings(epochs=30, batch_size=32, eval_batch_size=100), 0)
        run.fit()
        assert run.curves[-1]["test"]["accuracy"] > 0.6
        contrasts = [row["loss"]["risk.contrast"] for row in run.curves[3:]]
        assert contrasts[-1] < contrasts[0]
        assert run.curves[-1]["diagnostics"]["anchors"] > 0


def test_numbers_have_no_predicted_class():
    schema, _ = regression()
    with pytest.raises(OutlandError, match=r"gala needs method\.clusters of 2 or more"):
        built("gala", schema, clusters=1)


class TestContrast:
    """The toy of CIGA's contrast: four embeddings of two labels."""

    h = numbers([1, 0], [0, 1], [1, 1], [1, -1])
    y = torch.tensor([[0], [0], [1], [1]])

    def contrast(self, clusters, temperature=1.0, h=None, y=None, known=None):
        y = self.y if y is None else y
        known = torch.ones_like(y, dtype=torch.bool) if known is None else known
        positive, negative = pairs_across(y, known, clusters)
        value = pair_contrast(self.h if h is None else h, positive, positive | negative, temperature)
        return value.item(), gala.pair_shares(positive, negative, known)

    @pytest.mark.parametrize(
        ("clusters", "temperature", "expected"),
        [
            ((0, 1, 0, 1), 1.0, 0.754387),
            ((0, 1, 1, 0), 1.0, 1.107940),
            ((0, 1, 2, 3), 1.0, 0.0),
            ((0, 0, 1, 1), 1.0, 0.0),
            ((0, 0, 1, 1), 0.5, 0.0),
            ((0, 0, 0, 0), 1.0, 0.0),
            ((0, 0, 0, 0), 0.5, 0.0),
        ],
    )
    def test_golden(self, clusters, temperature, expected):
        """H34; and 0 where the authors' code falls back to other pairs, H32 (clusters are labels) and H33 (are one)."""
        value, shares = self.contrast(torch.tensor(clusters)[:, None], temperature)
        assert value == pytest.approx(expected, abs=1e-6)
        has_pairs = clusters not in ((0, 0, 1, 1), (0, 0, 0, 0))
        assert shares["anchors"].item() == has_pairs
        assert shares["batches_without_pairs"].item() == (not has_pairs)
        assert shares["opposed_anchors"].item() == (expected > 0)

    def test_the_fall_backs_that_are_left_out(self):
        """H32 and H33: the numbers that the authors' code has in their place."""
        everything = ~torch.eye(4, dtype=torch.bool)[None]
        alike = (self.y == self.y.T)[None] & everything
        for temperature, plain, half in ((1.0, 1.439709, 1.162491), (0.5, 1.950183, 1.789500)):
            assert pair_contrast(self.h, alike, everything, temperature).item() == pytest.approx(plain, abs=1e-6)
            unit = self.h / self.h.norm(dim=1, keepdim=True)
            similarity = unit @ unit.T / temperature
            total = torch.where(~alike & everything, similarity, -torch.inf).logsumexp(2, keepdim=True)
            lost = -torch.where(alike, similarity - total, 0).sum(2).mean()  # positives are not in their denominator
            assert lost.item() == pytest.approx(half, abs=1e-6)

    def test_no_pair_has_no_gradient(self):
        h = self.h.clone().requires_grad_()
        for clusters in ((0, 0, 1, 1), (0, 0, 0, 0), (0, 1, 2, 3)):
            pairs = pairs_across(self.y, torch.ones_like(self.y, dtype=torch.bool), torch.tensor(clusters)[:, None])
            (grad,) = torch.autograd.grad(pair_contrast(h, pairs[0], pairs[0] | pairs[1], 1.0), h)
            assert torch.allclose(grad, torch.zeros_like(h), atol=1e-12)

    def test_names_of_clusters_do_not_matter(self):
        h = torch.randn(9, 4, generator=seeded(), dtype=torch.double)
        y, clusters = torch.arange(9)[:, None] % 2, torch.arange(9)[:, None] // 3
        expected, _ = self.contrast(clusters, h=h, y=y)
        assert expected > 0
        for names in ((1, 2, 0), (7, -1, 3)):
            assert self.contrast(torch.tensor(names)[clusters], h=h, y=y)[0] == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("columns", [1, 3])
    def test_equals_a_loop_over_tasks_and_anchors(self, columns):
        """One cluster a graph, or a predicted class a task; some labels unknown."""
        random = seeded(3)
        h = torch.randn(12, 4, generator=random, dtype=torch.double)
        labels = torch.randint(0, 2, (12, 3), generator=random).double()
        clusters = torch.randint(0, 3, (12, columns), generator=random)
        known = torch.rand(12, 3, generator=random) > 0.2
        labels[~known] = torch.nan
        unit, anchors, opposed = h / h.norm(dim=1, keepdim=True), [], 0
        for task in range(3):
            c = clusters[:, task % columns]
            for i in range(12):
                others = [k for k in range(12) if k != i and known[k, task] and known[i, task]]
                alike = {k: bool(labels[k, task] == labels[i, task]) for k in others}
                positives = [k for k in others if alike[k] and c[k] != c[i]]
                negatives = [k for k in others if not alike[k] and c[k] == c[i]]
                opposed += bool(positives and negatives)
                if positives:
                    total = math.log(sum(math.exp(unit[i] @ unit[k] / 0.7) for k in positives + negatives))
                    anchors.append(sum((unit[i] @ unit[j] / 0.7).item() - total for j in positives) / len(positives))
        value, shares = self.contrast(clusters, 0.7, h, labels, known)
        assert value == pytest.approx(-sum(anchors) / len(anchors), abs=1e-12)
        assert shares["anchors"].item() == pytest.approx(len(anchors) / known.sum().item())
        assert shares["opposed_anchors"].item() == pytest.approx(opposed / known.sum().item())
