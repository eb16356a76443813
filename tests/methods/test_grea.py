import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.methods import Progress, method_settings
from outland.methods.parts.pairing import all_pairs
from outland.methods.parts.risk import label_losses
from tests.cases import SMALL, MethodCase, doubled
from tests.conftest import odd_graphs, whole
from tests.methods.cases import built, regression


class TestGREA(MethodCase):
    """A gate of ones and no replacement is ERM with the method's readout."""

    name = "grea"
    rounding_only = {"gate.encoder.norms.1.bias"}
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
            actual = []
            for optimizer in stepper.optimizers:
                terms = stepper.backward(optimizer, doubled(whole(graphs, layout)), Progress())
                actual += [*terms.values(), *(p.grad for p in optimizer.parameters if p.grad is not None)]
            actual += [value for name, value in method.named_buffers() if "running" in name]
            results.append(actual)
        for first, second in zip(*results, strict=True):
            assert torch.allclose(first, second, atol=1e-9)

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
            members = batch.node_batch == i
            parts.append([(g[members, None] * nodes[members]).sum(0) for g in (gates, 1 - gates)])
        removed, replaced, known, known_pairs = 0.0, 0.0, 0, 0
        for i, (rationale, _) in enumerate(parts):
            labelled = batch.replace(y=batch.y[i : i + 1])
            losses, counts = label_losses(head(rationale[None], labelled), labelled, schema.task)
            removed, known = removed + losses.sum(), known + counts.sum()
            for _, environment in parts:
                losses, counts = label_losses(head((rationale + environment)[None], labelled), labelled, schema.task)
                replaced, known_pairs = replaced + losses.sum(), known_pairs + counts.sum()
        terms = method.augmented_risks(batch, gates)
        assert terms["removal"].item() == pytest.approx(0.5 * (removed / known).item(), abs=1e-10)
        assert terms["replacement"].item() == pytest.approx(2 * (replaced / known_pairs).item(), abs=1e-10)

    def test_one_graph_is_replaced_by_itself_and_a_gate_of_ones_removes_nothing(self):
        method = built("grea").eval()
        single = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[:1])))
        plain = method.risk(method.classifier(single), single).item()
        assert method.loss(single, Progress())["replacement"].item() == pytest.approx(plain, abs=1e-12)
        batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
        kept = method.augmented_risks(batch, torch.ones(batch.num_nodes, dtype=torch.double))
        assert kept["removal"].item() == pytest.approx(method.risk(method.classifier(batch), batch).item(), abs=1e-12)

    def test_epochs_take_turns(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, backbone={"dropout": 0.5})
        batch = doubled(whole(graphs))
        for epoch in range(9):
            before = {name: value.clone() for name, value in method.state_dict().items()}
            log = stepper.step(batch, Progress(epoch, 9, epoch))
            trained, still = ("gate.", "classifier.") if epoch % 4 == 0 else ("classifier.", "gate.")
            assert any(name.endswith("size") for name in log) == (epoch % 4 == 0)
            after = method.state_dict()
            assert all(torch.equal(after[name], before[name]) for name in after if name.startswith(still))
            assert any(not torch.equal(after[name], before[name]) for name in after if name.startswith(trained))

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
