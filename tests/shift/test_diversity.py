"""Entropies of masks."""

import math

import pytest
import torch

from outland.shift import bernoulli_entropy, factorised_entropy, joint_entropy


def coins(chance, moments=200, entries=40, seed=0):
    """Masks of zeros and ones, of which each entry is 1 in exactly its share of the moments."""
    ones = round(chance * moments)
    random = torch.Generator().manual_seed(seed)
    column = torch.cat([torch.ones(ones), torch.zeros(moments - ones)])
    return torch.stack([column[torch.randperm(moments, generator=random)] for _ in range(entries)], 1)


@pytest.mark.parametrize(("chance", "golden"), [(0.8, 0.7219280949), (0.5, 1.0)])
def test_golden(chance, golden):
    masks = coins(chance)
    assert factorised_entropy(masks).mean().item() == pytest.approx(golden, abs=1e-9)
    assert bernoulli_entropy(masks).mean().item() == pytest.approx(golden, abs=1e-9)
    assert bernoulli_entropy(torch.full((7, 3), chance)).mean().item() == pytest.approx(golden, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_a_mask_that_never_moves_has_no_diversity(value):
    masks = torch.full((50, 8), value)
    assert factorised_entropy(masks, bins=10).mean().item() == 0
    assert joint_entropy(masks, bins=10).item() == 0


def test_free_draws_come_close_to_the_truth():
    masks = (torch.rand(400, 60, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    assert factorised_entropy(masks).mean().item() == pytest.approx(1, abs=3 / math.sqrt(400))
    few = torch.rand(20, 2000, generator=torch.Generator().manual_seed(1))
    assert factorised_entropy(few, bins=10).mean().item() < 0.92
    # Its first-order bias is 9/40 nats of 2.30; what is left is of second order.
    assert factorised_entropy(few, bins=10, corrected=True).mean().item() == pytest.approx(1, abs=0.02)


def test_known_bins_by_hand():
    masks = torch.tensor([[0.05, 0.95], [0.05, 0.15], [0.55, 0.25], [0.999, 1.0]])
    first, second = math.log(4) - 0.5 * math.log(2), math.log(4) - 0.5 * math.log(2)
    assert factorised_entropy(masks, bins=10).mean().item() == pytest.approx(
        (first + second) / 2 / math.log(10), abs=1e-12
    )


def test_joint_saturates_with_many_entries_and_not_with_few():
    assert joint_entropy(coins(0.5)).item() == pytest.approx(1, abs=1e-12)
    masks = (torch.rand(200, 6, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    assert joint_entropy(masks).item() == pytest.approx(0.76, abs=0.02)
    thin = (torch.rand(200, 6, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    assert joint_entropy(thin).item() == pytest.approx(0.57, abs=0.03)


def test_order_of_entries_and_moments_does_not_matter():
    masks = torch.rand(30, 9, generator=torch.Generator().manual_seed(0))
    order, times = torch.randperm(9), torch.randperm(30)
    for entropy in (factorised_entropy, bernoulli_entropy, joint_entropy):
        assert entropy(masks[times][:, order]).mean().item() == pytest.approx(entropy(masks).mean().item(), abs=1e-12)


def test_entries_apart_are_at_least_as_diverse_as_together():
    for entries in (1, 3, 6):
        masks = (torch.rand(200, entries, generator=torch.Generator().manual_seed(entries)) < 0.3).float()
        together = joint_entropy(masks).item() * math.log(200) / (entries * math.log(2))
        assert factorised_entropy(masks).mean().item() >= together - 1e-12
