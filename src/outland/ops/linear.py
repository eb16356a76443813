"""A linear layer and the batch norm after it, as one where that pays.

Six ways lead to the same numbers up to rounding:

- on a GPU, small products in TF32 have a kernel that also computes the moments, or applies the running statistics;
- on a GPU, products of many rows in bf16 have one of their own, and `batch_norm` follows;
- on a GPU, other products have faster gradients, see `_GPULinear`, and `batch_norm` follows;
- on a CPU, and on a GPU where nothing has a gradient, a frozen norm is folded into the linear layer: one affine map;
- on a CPU, while training, the bias is left out of the rows, since batch norm takes it away again, and added to the
  running mean: one pass over the rows less;
- else the linear layer is followed by `batch_norm`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from outland.ops.dispatch import has_tf32, op
from outland.ops.dropout import DropoutDraws
from outland.ops.norm import NormState, batch_norm, needs_grad

MOST_ROWS, LEAST_WIDTH = 2048, 16  # of small products
MANY_ROWS = 512


def is_small(x: Tensor) -> bool:
    """Whether the kernel for small products in TF32 takes these rows."""
    if x.dtype != torch.float32 or not 0 < len(x) <= MOST_ROWS or x.shape[1] < LEAST_WIDTH:
        return False
    is_allowed = torch.get_float32_matmul_precision() != "highest" and not torch.is_autocast_enabled(x.device.type)
    return is_allowed and has_tf32(x.device)


def has_many_rows(x: Tensor) -> bool:
    """Whether the kernel for many rows in bf16 takes these."""
    if len(x) < MANY_ROWS or x.shape[1] < LEAST_WIDTH or not torch.is_autocast_enabled(x.device.type):
        return False
    return torch.get_autocast_dtype(x.device.type) == torch.bfloat16


def _is_supported(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    state: NormState,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
) -> bool:
    if not state.has_kernel:
        return False
    if has_many_rows(x):
        return not needs_grad(bias)
    return is_small(x) and (state.training or (dropout is None and not needs_grad(x, weight, bias)))


@op("outland.ops.triton.linear:linear_norm", _is_supported)
def linear_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    state: NormState,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
) -> Tensor:
    """`batch_norm(x @ weight.T + bias, mask, state, relu, dropout)`: `[N, i]` to `[N, d]`.

    While training `bias` should need no gradient: it would be 0 but for rounding.
    """
    folded = fold_batch_norm(weight, bias, state) if dropout is None else None
    if folded is not None:
        if _on_gpu(x):
            return _linear_on_gpu(x, *folded, relu)
        out = functional.linear(x, *folded)
        return out.relu_() if relu else out
    if _on_cpu(x) and mask is None and len(x) > 0 and _bias_cancels(bias, state):
        out = batch_norm(x @ weight.T, None, state, relu, dropout)
        assert state.momentum is not None
        state.running_mean.data.add_(bias.data, alpha=state.momentum)  # autograd keeps it, to read in eval mode only
        return out
    linear = _GPULinear.apply if _on_gpu(x) and not needs_grad(bias) else functional.linear
    return batch_norm(linear(x, weight, bias), mask, state, relu, dropout)


class _GPULinear(torch.autograd.Function):
    """`functional.linear` without a gradient to the bias, by the faster kernels of cuBLAS in single precision.

    For x @ weight.T it takes two thirds to three quarters of its time for grad @ weight, so that the gradient to x is
    computed with a transposed copy of the weight.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _linear_on_gpu(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x = functional.linear(grad, weight.T.contiguous()) if ctx.needs_input_grad[0] else None
        grad_weight = grad.T @ x if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, None


def _linear_on_gpu(x: Tensor, weight: Tensor, bias: Tensor, relu: bool = False) -> Tensor:
    """`functional.linear`, with a ReLU after it if asked, in one pass over the result where cuBLAS takes two."""
    if x.shape[1] == 1:  # cuBLAS would copy the bias to every row first
        out = torch.addcmul(bias, x, weight.T)
        return out.relu_() if relu else out
    return torch._addmm_activation(bias, x, weight.T) if relu else functional.linear(x, weight, bias)


def fold_batch_norm(weight: Tensor, bias: Tensor, state: NormState) -> tuple[Tensor, Tensor] | None:
    """Weight and bias of a linear layer and its frozen batch norm as one linear layer.

    None where either has a gradient or the norm trains; on a GPU also where gradients are on or precision is half.
    """
    pays = _on_cpu(weight) or (_on_gpu(weight) and not torch.is_grad_enabled())
    if not (pays and state.is_frozen) or needs_grad(weight, bias):
        return None
    scale = state.weight * (state.running_var + state.eps).rsqrt()
    return weight * scale[:, None], torch.addcmul(state.bias, bias - state.running_mean, scale)


def _bias_cancels(bias: Tensor, state: NormState) -> bool:
    """Whether the norm subtracts the bias again, and its share in the running mean is known."""
    return state.training and state.momentum is not None and not state.synchronized and not bias.requires_grad


def _on_cpu(tensor: Tensor) -> bool:
    """Whether a CPU computes in the tensor's own precision: under autocast layers are left as they are."""
    return tensor.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _on_gpu(tensor: Tensor) -> bool:
    """Whether a GPU computes in single precision, in TF32 perhaps."""
    return tensor.is_cuda and tensor.dtype == torch.float32 and not torch.is_autocast_enabled("cuda")
