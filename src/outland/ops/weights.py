"""Weights on rows by gradient descent: the elementwise work of a step, between its two products with a matrix."""

from typing import NamedTuple

import torch
from torch import Tensor

from outland.ops.dispatch import op

_MOST = 2**13  # rows that one program takes


class TableLayout(NamedTuple):
    """Columns of a table of products `[n, n + k·n + Q·d + P·d]`, which `dependence_terms` explains."""

    kernels: int  # k
    frequencies: int = 0  # Q
    width: int = 0  # d
    crossed: bool = False  # products of every two frequencies, P = Q²; else each with itself, P = Q
    others: bool = False  # a kernel goes with half of all the others; else with itself

    def sizes(self, rows: int) -> list[int]:
        """Columns of each part."""
        products = self.frequencies ** (2 if self.crossed else 1)
        return [rows, self.kernels * rows, self.frequencies * self.width, products * self.width]


class Descent(NamedTuple):
    """A step of gradient descent with momentum."""

    lr: float
    momentum: float
    strength: float  # of the gradient that is given, against that of the sum of squared weights


def simplex(logits: Tensor, valid: Tensor, total: Tensor | float = 1.0) -> Tensor:
    """Softmax over the valid rows, which add up to `total`; 0 elsewhere. Equal logits get exactly `total` / n."""
    low = torch.where(valid, logits, torch.finfo(logits.dtype).min)
    powers = torch.where(valid, (low - low.detach().amax()).exp(), 0)
    return powers * (total / powers.sum().clamp(min=1))


def _terms_supported(sums: Tensor, weights: Tensor, layout: TableLayout) -> bool:
    return 0 < len(weights) <= _MOST


@op("outland.ops.triton.weights:dependence_terms", _terms_supported, dtypes=(torch.float32,))
def dependence_terms(sums: Tensor, weights: Tensor, layout: TableLayout) -> Tensor:
    r"""What is left of a dependence's gradient by weights q, given the weighted sums of the columns of its table.

    .. math:: D(q) = q^\top H q - 2\sum_k q^\top(m^k \circ \hat m^k) + \sum_k s^k \hat s^k - \sum_{kli} (V^{kl}_i)^2,
              \quad m^k = K^k q, \quad s^k = q^\top m^k, \quad V^{kl} = (F^k \circ F^l)^\top q - \mu^k \circ \mu^l,
              \quad \mu^k = F^{k\top} q

    of a table :math:`(H, K, F, F \circ F)`; :math:`\hat m^k` is :math:`m^k`, or half the sum of the others.
    The first n entries and the product of the table's later columns with the later entries sum to the gradient.
    """
    hadamard, means, first, second = sums.split(layout.sizes(len(weights)))
    means = means.view(layout.kernels, -1)
    partners = (means.sum(0) - means) / 2 if layout.others else means
    rest = 2 * hadamard + (means * (4 * (partners @ weights)[:, None] - 2 * partners)).sum(0)
    parts = [rest, (-4 * weights * partners).flatten()]
    if layout.width:
        mu = first.view(-1, 1, layout.width)
        other = mu.transpose(0, 1) if layout.crossed else mu
        covariance = torch.addcmul(second.view(len(mu), -1, layout.width), mu, other, value=-1)
        parts += [4 * (covariance * other).sum(1).flatten(), -2 * covariance.flatten()]
    return torch.cat(parts)


def _step_supported(
    logits: Tensor, velocity: Tensor, gradient: Tensor, weights: Tensor, valid: Tensor, descent: Descent
) -> bool:
    return 0 < len(logits) <= _MOST


@op("outland.ops.triton.weights:descend_weights", _step_supported, dtypes=(torch.float32,))
def descend_weights(
    logits: Tensor, velocity: Tensor, gradient: Tensor, weights: Tensor, valid: Tensor, descent: Descent
) -> Tensor:
    r"""Weights `[n]` after a step on the first B logits, which changes `logits` `[n]` and `velocity` `[B]` in place.

    .. math:: \min_\omega \text{strength} \cdot D\big(\mathrm{softmax}(\omega)\big)
              + \sum_i \mathrm{softmax}(\omega_{\le B})_i^2

    `weights` are those of `logits` over the `valid` rows, `gradient` `[n]` that of D by the weights.
    """
    batch = len(velocity)
    grad = descent.strength * (weights * (gradient - weights @ gradient))[:batch]
    share = simplex(logits[:batch], valid[:batch])
    velocity.mul_(descent.momentum).add_(grad + 2 * share * (share - share @ share))
    logits[:batch].sub_(velocity, alpha=descent.lr)
    return simplex(logits, valid)
