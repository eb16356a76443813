"""GREA and DisC: parts of one graph met by parts of another."""

import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, method_settings
from outland.methods.disc import difficulty, generalised
from outland.methods.parts.pairing import all_pairs, reordered
from outland.methods.parts.ranking import permutation
from outland.methods.parts.risk import label_losses, mean_risk
from outland.nn import BackboneSettings, Mask
from outland.training import Trainer
from tests.cases import FRAME, SMALL, MethodCase, NoWaiting, doubled
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole

LOGITS = torch.tensor([[1, 0, -1], [0.5, -0.5, 0], [2, 1, 0], [-1, 0, 1]], dtype=torch.double)
LATE = Progress(epoch=9, epochs=10)
CLASSES = Task("multiclass", 3, "accuracy")


def toy(y=(0, 1, 0, 2)):
    return whole(PackedGraphs.from_data_list(odd_graphs()[: len(y)])).replace(y=torch.tensor(y))


def built(name, schema=REAL, **changes):
    torch.manual_seed(0)
    backbone = dataclasses.replace(SMALL, **changes.pop("backbone", {}))
    return build_method(name, schema, backbone, method_settings(name, changes)).double()


def regression():
    """Graphs with one real label, one of them unknown."""
    graphs = odd_graphs()
    for place, graph in enumerate(graphs):
        graph.y = torch.tensor([[float("nan") if place == 2 else place / 3]])
    schema = Schema(REAL.node, Task("regression", 1, "rmse"), environments=2)
    return schema, doubled(whole(PackedGraphs.from_data_list(graphs)))


class TestPairs:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_all_pairs_equal_a_loop(self, any_set, layout):
        _, graphs = any_set
        batch = whole(graphs, layout)
        count = batch.num_graphs
        first, second = torch.randn(2, count, 5)
        sums, pairs = all_pairs(first, second, batch)
        assert sums.shape == (count**2, 5)
        real = batch.graph_mask if batch.graph_mask is not None else torch.ones(count, dtype=torch.bool)
        for i in range(count):
            for j in range(count):
                row = i * count + j
                assert torch.equal(sums[row], first[i] + second[j])
                assert torch.equal(pairs.y[row].nan_to_num(9), batch.y[i].nan_to_num(9))
                assert pairs.graph_mask is None or pairs.graph_mask[row] == (real[i] and real[j])
        assert (pairs.graph_mask is None) == (layout == "exact")

    def test_padding_in_either_place_does_not_count(self, any_set):
        """With two padding graphs whose embeddings are nonsense the loss is that of the real pairs."""
        schema, graphs = any_set
        exact = whole(graphs)
        h, e = torch.randn(2, 6, schema.task.outputs, dtype=torch.double)
        expected = mean_risk(*all_pairs(h, e, exact), schema.task)
        wild = torch.full((2, schema.task.outputs), 1e6, dtype=torch.double)
        padded = exact.replace(
            y=torch.cat([exact.y, exact.y[:2]]),
            node_count=torch.cat([exact.node_count, torch.zeros(2, dtype=torch.long)]),
            graph_mask=torch.arange(8) < 6,
        )
        first, second = (torch.cat([part, wild]).requires_grad_() for part in (h, e))
        found = mean_risk(*all_pairs(first, second, padded), schema.task)
        assert found.item() == pytest.approx(expected.item(), abs=1e-12)
        for slope in torch.autograd.grad(found, (first, second)):
            assert (slope[6:] == 0).all()
            assert (slope[:6] != 0).any()

    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_reordered_equals_a_loop(self, any_set, layout):
        _, graphs = any_set
        batch = whole(graphs, layout)
        order = permutation(batch, torch.Generator().manual_seed(1))
        values = torch.randn(batch.num_graphs, 5)
        found, other = reordered(values, batch, order)
        for place, taken in enumerate(order.tolist()):
            assert torch.equal(found[place], values[taken])
            assert torch.equal(other.y[place].nan_to_num(9), batch.y[taken].nan_to_num(9))
        assert not torch.equal(order, torch.arange(batch.num_graphs))
        if layout == "padded":
            assert torch.equal(other.graph_mask, batch.graph_mask)


class TestGREA(MethodCase):
    """A gate of ones and no replacement is ERM with the method's readout."""

    name = "grea"
    zero = {"replacement": 0}

    def zero_strength(self, method):
        method.gate.forward = lambda batch: torch.ones(batch.num_nodes, dtype=torch.double)

    def reference_backbone(self, method):
        return dataclasses.replace(SMALL, pool=method.settings.readout)

    def classifier_phase(self, stepper):
        return 1

    def test_a_step_lowers_the_gates_loss_too(self, motif):
        graphs, lowered = motif.graphs.select(motif["train"][:8]), 0
        batch = doubled(whole(graphs))
        for seed in range(20):
            _, stepper = self.ready(motif.schema, graphs, seed=seed)
            first = stepper.backward(stepper.optimizers[0], batch, Progress())
            stepper.optimizers[0].adam.step()
            second = stepper.backward(stepper.optimizers[0], batch, Progress())
            lowered += bool(sum(second.values()) < sum(first.values()))
        assert lowered >= 19

    @pytest.mark.parametrize("readout", ["sum", "mean"])
    def test_padding_with_normalising_heads(self, any_set, readout):
        """Batch norm in the head sees neither padding graphs nor pairs with one."""
        schema, graphs = any_set
        results = []
        for layout in ("exact", "padded"):
            method, stepper = self.ready(schema, graphs, backbone={"head": "mlp"}, readout=readout)
            found = []
            for optimizer in stepper.optimizers:
                terms = stepper.backward(optimizer, doubled(whole(graphs, layout)), Progress())
                found += [*terms.values(), *(p.grad for p in optimizer.parameters if p.grad is not None)]
            found += [value for name, value in method.named_buffers() if "running" in name]
            results.append(found)
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other, atol=1e-9)

    def test_golden_size_penalty(self):
        method = built("grea", gamma=0.4)
        batch = whole(PackedGraphs.from_data_list([odd_graphs()[3], odd_graphs()[5]]))
        gates = torch.tensor([0.2, 0.4, 0.6, 0.9, 0.1], dtype=torch.double)
        assert method.size_penalty(gates, batch).item() == pytest.approx(0.05, abs=1e-9)
        even = torch.tensor([0.2, 0.4, 0.6, 0.7, 0.1], dtype=torch.double)
        assert method.size_penalty(even, batch).item() == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize("readout", ["sum", "mean"])
    def test_a_rationale_in_its_own_environment_is_the_whole_graph(self, any_set, readout):
        schema, graphs = any_set
        method, batch = built("grea", schema, readout=readout).eval(), doubled(whole(graphs))
        expected = method.classifier(batch)
        for seed in range(3):
            gates = torch.rand(batch.num_nodes, generator=torch.Generator().manual_seed(seed)).double()
            sums, pairs = all_pairs(*method.split(batch, gates), batch)
            assert torch.allclose(method.classifier.head(sums, pairs)[:: batch.num_graphs + 1], expected)

    def test_augmented_losses_equal_a_loop(self, any_set):
        schema, graphs = any_set
        method, batch = built("grea", schema, removal=0.5, replacement=2.0).eval(), doubled(whole(graphs))
        gates = torch.rand(batch.num_nodes, dtype=torch.double)
        nodes, head = method.classifier.encoder(batch), method.classifier.head
        parts = []
        for i in range(batch.num_graphs):
            own = batch.node_batch == i
            parts.append([(g[own, None] * nodes[own]).sum(0) for g in (gates, 1 - gates)])
        removed, replaced, known, known_pairs = 0.0, 0.0, 0, 0
        for i, (rationale, _) in enumerate(parts):
            own = batch.replace(y=batch.y[i : i + 1])
            losses, counts = label_losses(head(rationale[None], own), own, schema.task)
            removed, known = removed + losses.sum(), known + counts.sum()
            for _, environment in parts:
                losses, counts = label_losses(head((rationale + environment)[None], own), own, schema.task)
                replaced, known_pairs = replaced + losses.sum(), known_pairs + counts.sum()
        terms = method.augmented(batch, gates)
        assert terms["removal"].item() == pytest.approx(0.5 * (removed / known).item(), abs=1e-10)
        assert terms["replacement"].item() == pytest.approx(2 * (replaced / known_pairs).item(), abs=1e-10)

    def test_one_graph_is_replaced_by_itself_and_a_gate_of_ones_removes_nothing(self):
        method = built("grea").eval()
        one = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[:1])))
        plain = method.risk(method.classifier(one), one).item()
        assert method.loss(one, Progress())["replacement"].item() == pytest.approx(plain, abs=1e-12)
        batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
        kept = method.augmented(batch, torch.ones(batch.num_nodes, dtype=torch.double))
        assert kept["removal"].item() == pytest.approx(method.risk(method.classifier(batch), batch).item(), abs=1e-12)

    def test_epochs_take_turns(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, backbone={"dropout": 0.5})
        batch = doubled(whole(graphs))
        for epoch in range(9):
            before = {name: value.clone() for name, value in method.state_dict().items()}
            log = stepper.step(batch, Progress(epoch, 9, epoch))
            turn, other = ("gate.", "classifier.") if epoch % 4 == 0 else ("classifier.", "gate.")
            assert any(name.endswith("size") for name in log) == (epoch % 4 == 0)
            after = method.state_dict()
            assert all(torch.equal(after[name], before[name]) for name in after if name.startswith(other))
            assert any(not torch.equal(after[name], before[name]) for name in after if name.startswith(turn))

    def test_inference_and_masks(self, any_set):
        schema, graphs = any_set
        method, batch = built("grea", schema).eval(), doubled(whole(graphs))
        masks, gates = method.masks(batch), method.gate(batch)
        assert list(masks) == ["stable", "environment"]
        assert torch.equal(masks["stable"].node, gates)
        edges = gates[batch.edge_index[0]] * gates[batch.edge_index[1]]
        assert torch.allclose(masks["stable"].edge, edges)
        assert torch.allclose(masks["environment"].edge, 1 - edges)
        rationale = batch.sum_nodes(gates[:, None] * method.classifier.encoder(batch))
        assert torch.allclose(method(batch), method.classifier.head(rationale, batch))

    def test_real_labels_and_wrong_settings(self):
        schema, batch = regression()
        method = built("grea", schema)
        terms = method.gate_loss(batch, Progress())
        assert all(term.isfinite() for term in terms.values())
        with pytest.raises(OutlandError, match=r"method\.period must be at least 2"):
            method_settings("grea", {"period": 1})


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
        found = super().classifier_gradients(method)
        return found | {"head.linear.weight": found["head.linear.weight"][:, : SMALL.width]}

    @pytest.mark.parametrize("weights", ["sample", "batch"])
    def test_padding_after_the_swap(self, any_set, weights):
        schema, graphs = any_set
        results = []
        for layout in ("exact", "padded"):
            method, stepper = self.ready(schema, graphs, backbone={"head": "mlp"}, weights=weights)
            terms = stepper.backward(stepper.optimizers[0], doubled(whole(graphs, layout)), LATE)
            assert len(terms) == 4
            found = [*terms.values(), *(p.grad for p in stepper.optimizers[0].parameters if p.grad is not None)]
            results.append([*found, *(value for name, value in method.named_buffers() if "running" in name)])
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other, atol=1e-9)

    def test_late_steps_are_finite_and_wait_for_nothing(self, any_set):
        schema, graphs = any_set
        for chosen in ([0], [1], [2, 2], [0, 3]):
            _, stepper = self.ready(schema, graphs)
            batch = doubled(whole(graphs.select(torch.tensor(chosen)), "padded"))
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
        one = difficulty(easy, hard, torch.ones(3, 1).bool(), whole=True)
        assert one.flatten().tolist() == pytest.approx([0.5] * 3, abs=1e-6)

    def test_golden_generalised_cross_entropy(self):
        losses, _ = label_losses(LOGITS, toy(), CLASSES)
        found = generalised(losses, 0.7)
        golden = [0.3546135578, 0.9879255954, 0.3546135578, 0.3546135578]
        assert found.flatten().tolist() == pytest.approx(golden, abs=1e-9)
        assert found.mean().item() == pytest.approx(0.5129415672, abs=1e-9)

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
        assert torch.allclose(generalised(losses, 0.7), (1 - p**0.7) / 0.7, atol=1e-12)
        assert torch.allclose(generalised(losses, 1.0), 1 - p, atol=1e-12)
        assert torch.allclose(generalised(losses, 1e-9), losses, atol=1e-6)
        (slope,) = torch.autograd.grad(generalised(losses, 0.7).sum(), logits, retain_graph=True)
        (weighted,) = torch.autograd.grad((p.detach() ** 0.7 * losses).sum(), logits)
        assert torch.allclose(slope, weighted, atol=1e-12)

    def test_hopeless_labels_have_finite_gradients(self):
        logits = torch.tensor([[0.0, 500.0, 0.0]], dtype=torch.double, requires_grad=True)
        losses, _ = label_losses(logits, toy((0,)), CLASSES)
        (slope,) = torch.autograd.grad(generalised(losses, 0.7).sum(), logits)
        assert slope.isfinite().all()

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
        for name, (own, other) in reach.items():
            for module, touched in ((own, True), (other, False), (method.masker, True)):
                slopes = torch.autograd.grad(
                    terms[name], list(module.parameters()), allow_unused=True, retain_graph=True
                )
                assert any(slope is not None and (slope != 0).any() for slope in slopes) == touched, name

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
            one = batch.replace(y=batch.y[labels_of : labels_of + 1])
            return label_losses(head(torch.cat([causal[i], bias[j]])[None], one), one, schema.task)

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
        batch, found = doubled(whole(graphs)), {}
        for weights in ("sample", "batch"):
            method = built("disc", schema, weights=weights).eval()
            found[weights] = method.loss(batch, Progress())
        assert found["sample"]["bias"].item() == found["batch"]["bias"].item()
        assert found["sample"]["causal"].item() != pytest.approx(found["batch"]["causal"].item(), abs=1e-6)

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


def turned(batch, random):
    """The first six graphs, which are the real ones, one place further; padding where it was."""
    order = torch.arange(batch.num_graphs)
    order[:6] = order[:6].roll(1)
    return order


def test_backbones_all_serve_both_methods():
    sets = ((REAL, odd_graphs()), (CHEMICAL, chemical_graphs()))
    for schema, graphs in sets:
        batch = doubled(whole(PackedGraphs.from_data_list(graphs)))
        for name in ("grea", "disc"):
            for kind in ("gcn", "gcnii", "gat"):
                settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2, virtual_node=True)
                method = build_method(name, schema, settings, method_settings(name, {})).double()
                for phase in method.phases():
                    assert all(term.isfinite() for term in phase.loss(batch, LATE).values())
