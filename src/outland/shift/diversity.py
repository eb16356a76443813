r"""How diverse the augmented versions of a graph are: the conditional entropy :math:`H(\tilde G \mid G)`.

A graph's versions are its masks `[T, J]` at T moments of training, over J of its edges (or nodes, or both), with
entries in [0, 1]. The paper gives no estimator. Three are here, all normalised to [0, 1]. With the columns of one part
of the graph alone they are that part's.
"""

import math

import torch
from torch import Tensor


def factorised_entropy(masks: Tensor, bins: int = 2, corrected: bool = False) -> Tensor:
    r"""Marginal entropy of each entry `[J]`; their mean is bounded, and comparable between parts of different size.

    Args:
        masks: `[T, J]`.
        bins: Q equal bins of [0, 1]: 2 for masks of zeros and ones, 10 for soft ones.
        corrected: add :math:`(Q-1)/2T` (Miller and Madow's, with all bins counted as filled), which T moments miss on
            average where masks vary freely; the result may pass 1, and of a mask that never changes it is not 0.
    """
    binned = _binned(masks, bins)
    entropy = masks.new_zeros(masks.shape[1], dtype=torch.double)
    for number in range(bins):
        share = (binned == number).double().mean(0)
        entropy -= torch.xlogy(share, share)
    if corrected:
        entropy = entropy + (bins - 1) / (2 * len(masks))
    return entropy / math.log(bins)


def bernoulli_entropy(masks: Tensor) -> Tensor:
    """Entropy of a Bernoulli variable with each entry's mean over time `[J]`, in bits: 1 at one half, for any T."""
    p = masks.double().mean(0)
    return -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)) / math.log(2)


def joint_entropy(masks: Tensor, bins: int = 2) -> Tensor:
    """Entropy of whole versions over log T, the most that T of them can have.

    It is 1 as soon as all versions differ, so it says little of large parts and compares parts unfairly.
    """
    _, counts = torch.unique(_binned(masks, bins), dim=0, return_counts=True)
    share = counts.double() / len(masks)
    return -torch.xlogy(share, share).sum() / max(math.log(len(masks)), 1e-12)


def _binned(masks: Tensor, bins: int) -> Tensor:
    return (masks.double() * bins).floor().clamp(0, bins - 1).to(torch.int16)
