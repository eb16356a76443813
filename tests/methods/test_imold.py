from types import SimpleNamespace

import pytest
import torch
from torch import nn

from outland.methods import Progress, imold
from outland.training.stepper import Stepper
from tests.cases import FRAME, MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import built, numbers, odd_batch, seeded

CODES = torch.tensor([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], dtype=torch.double)
STATES = torch.tensor([[0.2, 0.0], [0.4, 0.2], [1.2, 0.8]], dtype=torch.double)


def codebook(revive=False):
    book = imold.Codebook(3, 2, 0.9, revive).double()
    book.codes.copy_(CODES)
    book.total.copy_(CODES)
    return book


def nodes_of(*sizes):
    """A stand-in for a batch of graphs with so many nodes."""
    graph = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    members = torch.nn.functional.one_hot(graph).double()

    def mean_nodes(values):
        return members.T @ values / members.sum(0)[:, None]

    real = torch.ones(len(graph), dtype=torch.bool)
    mean_graphs = torch.Tensor.mean
    return SimpleNamespace(
        mean_nodes=mean_nodes, mean_graphs=mean_graphs, real_nodes=real, node_count=torch.tensor(sizes)
    )


class TestIMoLD(MethodCase):
    name = "imold"
    rounding_only = {"separator.encoder.norms.2.bias"}
    zero = {"invariance": 0, "gate": 0, "commitment": 0, "codes": 0}
    still = {"revive": False}

    def build(self, schema, seed=0, **changes):
        return super().build(schema, seed, **{"codes": 6, **changes})

    def zero_strength(self, method):
        """The gate is open everywhere."""
        nn.init.zeros_(method.separator.head.linear.weight)
        nn.init.constant_(method.separator.head.linear.bias, 100.0)

    def test_phases_take_turns_by_epochs(self, any_set):
        method = self.build(any_set[0])
        encoder, separator = method.phases()
        for epoch in range(9):
            now = Progress(epoch=epoch, epochs=9)
            assert separator.when(now) == (epoch % 4 == 0)
            assert encoder.when(now) == (epoch % 4 != 0)

    def test_the_codebook_moves_with_the_encoder_only(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs)
        batch = doubled(whole(graphs))
        for epoch, is_moved in ((0, False), (1, True)):
            before = method.codebook.codes.clone()
            stepper.step(batch, Progress(epoch=epoch, epochs=4))
            assert torch.equal(method.codebook.codes, before) != is_moved
        before = method.codebook.codes.clone()
        method.eval()(batch)
        assert torch.equal(method.codebook.codes, before)

    def test_no_gradient_reaches_the_invariant_embedding_as_a_target(self):
        invariant = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        projected = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        agreement = imold.agreement_of(invariant, projected).sum()
        assert torch.autograd.grad(agreement, [invariant], allow_unused=True, retain_graph=True) == (None,)
        assert torch.autograd.grad(agreement, projected)[0].any()

    def test_the_gradient_of_what_is_rounded_is_twice_that_of_the_states(self):
        method, batch = built("imold", codes=5), odd_batch()
        nodes = torch.randn(batch.num_nodes, 8, dtype=torch.double, requires_grad=True)
        whole_gate = torch.ones_like(nodes)
        invariant, _ = method.split(nodes, method.codebook.nearest(nodes), whole_gate, batch)
        plain, _ = method.split(nodes, None, whole_gate, batch)
        grads = [torch.autograd.grad(value.sum(), nodes)[0] for value in (invariant, plain)]
        assert torch.allclose(grads[0], 2 * grads[1])
        quantised = invariant - plain
        expected = batch.mean_nodes(method.codebook.codes[method.codebook.nearest(nodes)])
        assert torch.allclose(quantised, expected, atol=1e-12)

    def test_unused_codes_are_replaced_by_states_of_real_nodes(self, any_set):
        schema, graphs = any_set
        method = self.build(schema, codes=50)
        batch = doubled(whole(graphs, "padded"))
        Stepper(method, FRAME).step(batch, Progress(epoch=1, epochs=4))
        real = int(batch.node_count.sum())
        torch.manual_seed(0)
        book = imold.Codebook(50, 8, 0.9, True).double()
        states = torch.randn(batch.num_nodes, 8, dtype=torch.double)
        book.update(states, book.nearest(states), batch, seeded())
        fresh = book.number == 1
        assert fresh.sum() > 20
        distances = torch.cdist(book.total[fresh], states[:real]).amin(1)
        assert distances.max() < 1e-6

    def test_masks_are_means_of_the_gate(self):
        method, batch = built("imold", codes=4).eval(), odd_batch()
        mask = method.masks(batch)["stable"]
        assert torch.allclose(mask.node, method.separator(batch).mean(1))
        u, v = batch.edge_index
        assert torch.allclose(mask.edge, (mask.node[u] + mask.node[v]) / 2)


def test_golden_gate():
    """H36."""
    gate = numbers([0.2, 0.4], [0.6, 0.8], [1, 0.6])
    for gamma, expected in ((0.9, 0.25), (0.5, 0.15)):
        assert imold.gate_penalty(gate, nodes_of(2, 1), gamma).item() == pytest.approx(expected, abs=1e-9)


def test_golden_invariance():
    """H37: minus the mean cosine."""
    agreement = imold.agreement_of(numbers([1, 0], [0, 2]), numbers([3, 4], [0, -1]))
    assert -agreement.mean().item() == pytest.approx(0.2, abs=1e-9)


def test_golden_codes():
    """H38 and H39: nearest codes, the commitment, and the codes after one step."""
    book = codebook()
    index = book.nearest(STATES)
    assert index.tolist() == [0, 0, 1]
    commitment = 0.1 * (STATES - book.rows(index, STATES)).square().mean()
    assert commitment.item() == pytest.approx(0.005333, abs=1e-6)
    book.update(STATES, index, nodes_of(2, 1), seeded())
    expected = [0.300015, 0.100005, 10.2, 9.8, 450045, 450045]
    assert book.codes.flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_golden_parts():
    """H40: embeddings of what a gate lets through, and of the rest."""
    book, gate, batch = codebook(), numbers([0.5, 1], [0.5, 1], [1, 0]), nodes_of(2, 1)
    rounded = STATES + book.rows(book.nearest(STATES), STATES)
    assert batch.mean_nodes(gate * rounded).flatten().tolist() == pytest.approx([0.15, 0.1, 2.2, 0])
    assert batch.mean_nodes((1 - gate) * rounded).flatten().tolist() == pytest.approx([0.15, 0, 0, 1.8])
    method = built("imold", codes=3, backbone=built("imold").backbone)
    method.codebook = book
    method.classifier.readout.forward = lambda values, batch: batch.mean_nodes(values)
    invariant, rest = method.split(STATES, book.nearest(STATES), gate, batch)
    assert invariant.flatten().tolist() == pytest.approx([0.15, 0.1, 2.2, 0])
    assert rest.flatten().tolist() == pytest.approx([0.15, 0, 0, 1.8])
