"""Batch normalisation over the rows that a mask marks, with the ReLU and dropout after it."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from outland.distributed import all_reduce_sum
from outland.ops.dispatch import op
from outland.ops.dropout import DropoutDraws, activate


class NormState(NamedTuple):
    """The tensors and options of a batch norm layer of width d; running statistics are updated in place."""

    weight: Tensor  # scale [d]
    bias: Tensor  # shift [d]
    running_mean: Tensor  # [d]
    running_var: Tensor  # [d]
    num_batches_tracked: Tensor  # []
    momentum: float | None  # share of a batch in the running statistics; None counts every batch alike
    eps: float  # added to the variance
    training: bool  # normalise by this batch, and not by the running statistics
    synchronized: bool = False  # whether a batch is the rows of all processes

    @property
    def is_frozen(self) -> bool:
        """Whether the layer is a fixed affine map: by running statistics, and no gradient to its parameters."""
        return not self.training and not needs_grad(self.weight, self.bias)

    @property
    def has_kernel(self) -> bool:
        """Whether kernels do what this layer does."""
        return self.momentum is not None and (self.is_frozen or (self.training and not self.synchronized))

    def next_momentum(self) -> float:
        """Count a batch; its share in the running statistics."""
        self.num_batches_tracked.add_(1)
        return 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum


def needs_grad(*tensors: Tensor) -> bool:
    """Whether a gradient to any of them is asked for."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


@op("outland.ops.triton.norm:batch_norm", lambda x, mask, state, *_: len(x) > 0 and state.has_kernel)
def batch_norm(
    x: Tensor, mask: Tensor | None, state: NormState, relu: bool = False, dropout: DropoutDraws | None = None
) -> Tensor:
    """`x` `[N, d]` normalised, then `activate(..., relu, dropout)`.

    Statistics are those of the rows that `mask` `[N]` marks, where None marks all; what becomes of the others is
    undefined. A single row has variance 0.
    """
    if state.training and not state.synchronized and len(x) == 0:
        return activate(x, relu, dropout)
    if state.training and (state.synchronized or mask is not None or len(x) == 1):
        out = _masked_batch_norm(x, mask, state)
    else:
        momentum = state.next_momentum() if state.training else 0.0
        statistics = (state.running_mean, state.running_var, state.weight, state.bias)
        out = functional.batch_norm(x, *statistics, state.training, momentum, state.eps)
    return out.relu_() if relu and dropout is None else activate(out, relu, dropout)


def _masked_batch_norm(x: Tensor, mask: Tensor | None, state: NormState) -> Tensor:
    total = all_reduce_sum if state.synchronized else _identity
    wide = x.to(state.weight.dtype)  # statistics are not for half precision
    marked = wide.new_ones(len(x), 1) if mask is None else mask[:, None].to(wide.dtype)
    count = total(marked.sum()).clamp(min=1)
    mean = total((wide * marked).sum(0)) / count
    centred = (wide - mean) * marked
    variance = total(centred.square().sum(0)) / count
    with torch.no_grad():
        momentum = state.next_momentum()
        state.running_mean.lerp_(mean.detach(), momentum)
        state.running_var.lerp_(variance.detach() * count / (count - 1).clamp(min=1), momentum)
    scaled = centred * torch.rsqrt(variance + state.eps)
    return (scaled * state.weight + state.bias).to(x.dtype)


def _identity(values: Tensor) -> Tensor:
    return values
