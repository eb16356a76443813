import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Task
from outland.methods import Progress, build_method, method_settings
from outland.methods.disc import difficulty, generalized_cross_entropy
from outland.methods.parts.risk import label_losses
from outland.nn import Mask
from outland.training import Trainer
from tests.cases import FRAME, SMALL, MethodCase, NoWaiting, doubled
from tests.conftest import whole
from tests.methods.cases import CLASSES, LATE, LOGITS, built, regression, toy


def turned(batch, random):
    """The first six graphs, which are the real ones, one place further; padding where it was."""
    order = torch.arange(batch.num_graphs)
    order[:6] = order[:6].roll(1)
    return order


class TestDisC(MethodCase):
    """Masks of ones, a bias embedding of zeros, W of 1 and no bias loss are ERM on half of the causal head."""

    name = "disc"
    zero = {"bias_weight": 0, "swap_weight": 0}

    @pytest.fixture(autouse=True)
    def _fixed_order(self, request, monkeypatch):
        """Layouts are compared for the same order of the real graphs."""
        if "padding" in request.node.name:
            monkeypatch.setattr("outland.methods.disc.permutation", turned)

    def trainer(self, splits, checkpoints=None, **frame):
        """The second of two epochs swaps, so that seeds and resumed runs are tried on its draws."""
        torch.manual_seed(0)
        backbone = dataclasses.replace(SMALL, dropout=0.3)
        method = build_method(self.name, splits.schema, backbone, method_settings(self.name, {"swap_after": 0.25}))
        return Trainer(method, splits, dataclasses.replace(FRAME, **frame), 0, checkpoints)

    def test_the_second_epoch_swaps(self, any_splits):
        run = self.trainer(any_splits)
        run.fit()
        assert [any("swapped" in name for name in row["loss"]) for row in run.curves] == [False, True]

    def zero_strength(self, method):
        def split(batch):
            z = method.classifier.embed(batch, Mask.full(batch, dtype=torch.double))
            return z, torch.zeros_like(z)

        method.split = split

    def test_zero_strength_is_erm(self, any_set, monkeypatch):
        monkeypatch.setattr(
            "outland.methods.disc.difficulty", lambda easy, hard, known, whole: torch.ones_like(hard).detach()
        )
        super().test_zero_strength_is_erm(any_set)

    def classifier_state(self, method):
        state = method.classifier.state_dict()
        return state | {"head.linear.weight": state["head.linear.weight"][:, : SMALL.width]}

    def classifier_gradients(self, method):
        actual = super().classifier_gradients(method)
        return actual | {"head.linear.weight": actual["head.linear.weight"][:, : SMALL.width]}

    @pytest.mark.parametrize("weights", ["sample", "batch"])
    def test_padding_after_the_swap(self, any_set, weights):
        schema, graphs = any_set
        results = []
        for layout in ("exact", "padded"):
            method, stepper = self.ready(schema, graphs, backbone={"head": "mlp"}, weights=weights)
            terms = stepper.backward(stepper.optimizers[0], doubled(whole(graphs, layout)), LATE)
            assert len(terms) == 4
            actual = [*terms.values(), *(p.grad for p in stepper.optimizers[0].parameters if p.grad is not None)]
            results.append([*actual, *(value for name, value in method.named_buffers() if "running" in name)])
        for first, second in zip(*results, strict=True):
            assert torch.allclose(first, second, atol=1e-9)

    def test_late_steps_are_finite_and_wait_for_nothing(self, any_set):
        schema, graphs = any_set
        for selected in ([0], [1], [2, 2], [0, 3]):
            _, stepper = self.ready(schema, graphs)
            batch = doubled(whole(graphs.select(torch.tensor(selected)), "padded"))
            assert all(value.isfinite() for value in stepper.step(batch, LATE).values())
            assert all(parameter.isfinite().all() for parameter in stepper.parameters)
            with NoWaiting():
                stepper.backward(stepper.optimizers[0], batch, LATE)

    def test_golden_weights(self):
        easy = torch.tensor([[0.6], [0.4], [0.7]], dtype=torch.double, requires_grad=True)
        hard = torch.tensor([[0.2], [1.0], [0.5]], dtype=torch.double, requires_grad=True)
        weights = difficulty(easy, hard, torch.ones(3, 1).bool())
        assert weights.flatten().tolist() == pytest.approx([0.75, 0.2857142857, 0.5833333333], abs=1e-6)
        assert weights.shape == (3, 1)
        assert not weights.requires_grad
        shared = difficulty(easy, hard, torch.ones(3, 1).bool(), whole=True)
        assert shared.flatten().tolist() == pytest.approx([0.5] * 3, abs=1e-6)

    def test_golden_generalised_cross_entropy(self):
        losses, _ = label_losses(LOGITS, toy(), CLASSES)
        actual = generalized_cross_entropy(losses, 0.7)
        golden = [0.3546135578, 0.9879255954, 0.3546135578, 0.3546135578]
        assert actual.flatten().tolist() == pytest.approx(golden, abs=1e-9)
        assert actual.mean().item() == pytest.approx(0.5129415672, abs=1e-9)

    @pytest.mark.parametrize("kind", ["multiclass", "binary"])
    def test_generalised_cross_entropy_and_its_gradient(self, kind):
        """It is (1 - p^q)/q, with gradient p^q times the cross-entropy's; at 1 it is 1 - p, near 0 the loss itself."""
        logits = LOGITS.clone().requires_grad_()
        if kind == "multiclass":
            batch = toy()
            p = logits.softmax(1)[torch.arange(4), batch.y][:, None]
        else:
            y = (torch.arange(12) % 2).reshape(4, 3).double()
            batch = toy().replace(y=y)
            p = logits.sigmoid() ** y * (1 - logits.sigmoid()) ** (1 - y)
        losses, _ = label_losses(logits, batch, Task(kind, 3, "accuracy"))
        assert torch.allclose(generalized_cross_entropy(losses, 0.7), (1 - p**0.7) / 0.7, atol=1e-12)
        assert torch.allclose(generalized_cross_entropy(losses, 1.0), 1 - p, atol=1e-12)
        assert torch.allclose(generalized_cross_entropy(losses, 1e-9), losses, atol=1e-6)
        (grad,) = torch.autograd.grad(generalized_cross_entropy(losses, 0.7).sum(), logits, retain_graph=True)
        (weighted,) = torch.autograd.grad((p.detach() ** 0.7 * losses).sum(), logits)
        assert torch.allclose(grad, weighted, atol=1e-12)

    def test_hopeless_labels_have_finite_gradients(self):
        logits = torch.tensor([[0.0, 500.0, 0.0]], dtype=torch.double, requires_grad=True)
        losses, _ = label_losses(logits, toy((0,)), CLASSES)
        (grad,) = torch.autograd.grad(generalized_cross_entropy(losses, 0.7).sum(), logits)
        assert grad.isfinite().all()

    def test_losses_do_not_reach_across_the_branches(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        terms = method.loss(doubled(whole(graphs)), LATE)
        reach = {
            "causal": (method.classifier, method.bias),
            "swapped_causal": (method.classifier, method.bias),
            "bias": (method.bias, method.classifier),
            "swapped_bias": (method.bias, method.classifier),
        }
        assert set(terms) == set(reach)
        for name, (trained, untouched) in reach.items():
            for module, reached in ((trained, True), (untouched, False), (method.masker, True)):
                grads = torch.autograd.grad(
                    terms[name], list(module.parameters()), allow_unused=True, retain_graph=True
                )
                assert any(grad is not None and (grad != 0).any() for grad in grads) == reached, name

    def test_swapping_begins_after_its_epoch_and_in_the_given_order_changes_nothing(self, any_set, monkeypatch):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, swap_weight=3.0, bias_weight=0.5)
        batch = doubled(whole(graphs))
        monkeypatch.setattr("outland.methods.disc.permutation", lambda batch, random: torch.arange(6))
        assert list(method.loss(batch, Progress(5, 10))) == ["causal", "bias"]
        terms = method.eval().loss(batch, Progress(6, 10))
        for name in ("causal", "bias"):
            assert terms[f"swapped_{name}"].item() == pytest.approx(3 * terms[name].item(), abs=1e-12)

    def test_losses_equal_a_loop(self, any_set, monkeypatch):
        """Graph by graph and label by label, from the equations."""
        schema, graphs = any_set
        method, batch = built("disc", schema, swap_weight=3.0, bias_weight=0.5).eval(), doubled(whole(graphs))
        order = [2, 0, 1, 5, 3, 4]
        monkeypatch.setattr("outland.methods.disc.permutation", lambda batch, random: torch.tensor(order))
        causal, bias = method.split(batch)
        totals, counts = torch.zeros(4, dtype=torch.double), torch.zeros(4, dtype=torch.double)

        def losses(head, i, j, labels_of):
            labelled = batch.replace(y=batch.y[labels_of : labels_of + 1])
            return label_losses(head(torch.cat([causal[i], bias[j]])[None], labelled), labelled, schema.task)

        for i in range(6):
            hard, known = losses(method.classifier.head, i, i, i)
            easy, _ = losses(method.bias.head, i, i, i)
            swapped, _ = losses(method.classifier.head, i, order[i], i)
            swapped_easy, known_other = losses(method.bias.head, i, order[i], order[i])
            for t in range(hard.shape[1]):
                if known[0, t]:
                    w = easy[0, t] / (easy[0, t] + hard[0, t] + 1e-8)
                    gce = (1 - (-easy[0, t]).exp() ** 0.7) / 0.7
                    totals[:3] += torch.stack([w * hard[0, t], 0.5 * gce, 3 * w * swapped[0, t]]).detach()
                    counts[:3] += 1
                if known_other[0, t]:
                    totals[3] += (1.5 * (1 - (-swapped_easy[0, t]).exp() ** 0.7) / 0.7).item()
                    counts[3] += 1
        terms = method.loss(batch, LATE)
        names = ("causal", "bias", "swapped_causal", "swapped_bias")
        for name, expected in zip(names, (totals / counts).tolist(), strict=True):
            assert terms[name].item() == pytest.approx(expected, abs=1e-10), name

    def test_one_weight_a_batch_loses_the_reweighting(self, any_set):
        schema, graphs = any_set
        batch, actual = doubled(whole(graphs)), {}
        for weights in ("sample", "batch"):
            method = built("disc", schema, weights=weights).eval()
            actual[weights] = method.loss(batch, Progress())
        assert actual["sample"]["bias"].item() == actual["batch"]["bias"].item()
        assert actual["sample"]["causal"].item() != pytest.approx(actual["batch"]["causal"].item(), abs=1e-6)

    @pytest.mark.parametrize("mask_nodes", [True, False])
    @pytest.mark.parametrize("masker", ["gcn", "backbone"])
    def test_inference_and_masks(self, any_set, mask_nodes, masker):
        schema, graphs = any_set
        method = built("disc", schema, mask_nodes=mask_nodes, masker=masker).eval()
        batch = doubled(whole(graphs))
        assert type(method.masker.encoder.convs[0]).__name__ == {"gcn": "GCN", "backbone": "GIN"}[masker]
        masks = method.masks(batch)
        assert list(masks) == ["stable", "environment"]
        stable, rest = masks["stable"], masks["environment"]
        assert torch.allclose(stable.edge + rest.edge, torch.ones_like(rest.edge))
        assert torch.allclose(stable.edge, stable.edge[batch.reverse])
        assert torch.allclose(stable.node + rest.node, torch.full_like(rest.node, 1.0 if mask_nodes else 2.0))
        z = torch.cat([method.classifier.embed(batch, stable), method.bias.embed(batch, rest)], 1)
        assert torch.allclose(method(batch), method.classifier.head(z, batch))

    def test_real_labels_and_wrong_settings(self):
        schema, batch = regression()
        terms = built("disc", schema).loss(batch, LATE)
        assert all(term.isfinite() for term in terms.values())
        with pytest.raises(OutlandError, match=r"method\.q must be from"):
            method_settings("disc", {"q": 0})
