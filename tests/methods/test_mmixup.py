import math

import pytest
import torch

from outland.graphs import PackedGraphs
from tests.cases import MethodCase, doubled
from tests.conftest import CHEMICAL, chemical_graphs, odd_graphs, whole
from tests.methods.cases import all_known, built


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
        assert method.mixed_risk(batch, share, order).item() == pytest.approx(expected.item(), abs=1e-12)

    def test_a_label_counts_where_both_graphs_know_theirs(self):
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        method, batch = self.build(CHEMICAL).eval(), doubled(whole(graphs))
        share, order = torch.tensor(0.3).double(), torch.tensor([1, 2, 3, 4, 5, 0])
        h = method.classifier.embed(batch)
        logits = method.classifier.head(share * h + (1 - share) * h[order], batch)
        actual = []
        for i, j in enumerate(order.tolist()):
            for task in range(2):
                label, partner = batch.y[i, task].item(), batch.y[j, task].item()
                if not (math.isnan(label) or math.isnan(partner)):
                    signs = [torch.nn.functional.softplus(-(2 * y - 1) * logits[i, task]) for y in (label, partner)]
                    actual.append((share * signs[0] + (1 - share) * signs[1]).item())
        assert 0 < len(actual) < 12
        assert method.mixed_risk(batch, share, order).item() == pytest.approx(sum(actual) / len(actual), abs=1e-12)
        own_pairs = torch.arange(6)
        half = torch.tensor(0.5).double()
        expected = method.risk(method(batch), batch).item()
        assert method.mixed_risk(batch, half, own_pairs).item() == pytest.approx(expected, abs=1e-12)

    def test_shares_follow_the_beta_law(self):
        method, batch = built("m-mixup", alpha=2.0), whole(PackedGraphs.from_data_list(odd_graphs()))
        draws = torch.stack([method.share(batch) for _ in range(4000)])
        assert draws.mean().item() == pytest.approx(0.5, abs=0.02)
        assert draws.var().item() == pytest.approx(0.05, abs=0.005)
