"""Batch normalisation that never sees padding and does not mind a batch of one row."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from outland import kernels
from outland.nn.dropout import Dropout

if TYPE_CHECKING:
    from outland.kernels.norm import Normed


class NoNorm(nn.Module):
    """Leaves everything as it is, where batch norm is not wanted."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, relu: bool = False, dropout: Dropout | None = None
    ) -> Tensor:
        """`x`, and what else is asked for."""
        return then(x, relu, dropout)


def then(x: Tensor, relu: bool, dropout: Dropout | None) -> Tensor:
    """What follows a norm."""
    if dropout is None:
        return x.relu() if relu else x
    out: Tensor = dropout(x, relu)
    return out


def norm(width: int, wanted: bool) -> nn.Module:
    """Batch norm, or none."""
    return BatchNorm(width) if wanted else NoNorm()


class LinearBeforeNorm(nn.Linear):
    """A linear layer whose output goes straight into batch norm.

    While training, batch norm takes the constant away again, so its gradient is 0. Computed, it would be rounding
    noise, which Adam scales up to whole steps: runs that should be equal would part. So it is not computed; weight
    decay still acts.
    """

    def forward(self, x: Tensor) -> Tensor:
        """`x` mapped; while training no gradient reaches the constant."""
        return nn.functional.linear(x, self.weight, self.bias.detach() if self.training else self.bias)


def normed(
    linear: nn.Linear,
    norm: nn.Module,
    x: Tensor,
    mask: Tensor | None = None,
    relu: bool = False,
    dropout: Dropout | None = None,
) -> Tensor:
    """A linear layer and the norm after it: `norm(linear(x), mask, relu, dropout)`, as one where that pays."""
    if isinstance(norm, BatchNorm) and isinstance(linear, LinearBeforeNorm):
        if norm.momentum is not None and _small(x):
            from outland.kernels.linear import linear_moments, linear_normed  # needs Triton

            if _still(linear, norm, dropout) and not (torch.is_grad_enabled() and x.requires_grad):
                return linear_normed(x, linear.weight, linear.bias, mask, norm.plan(relu))
            if norm.training and type(norm) is BatchNorm:
                mapped, moments = linear_moments(x, linear.weight, linear.bias, mask)
                return norm.fused(mapped, mask, relu, dropout, moments)
        one = folded(linear, norm, dropout)
        if one is not None:
            mapped = nn.functional.linear(x, *one)
            return mapped.relu_() if relu else mapped
        if _constant_passes(linear, norm, x, mask):
            return _past(linear, norm, x, relu, dropout)
    out: Tensor = norm(linear(x), mask, relu, dropout)
    return out


def _still(linear: nn.Linear, norm: nn.Module, dropout: Dropout | None) -> bool:
    """Whether nobody trains the two, and nothing is dropped behind them."""
    moved = torch.is_grad_enabled() and any(part.requires_grad for part in (*linear.parameters(), *norm.parameters()))
    return not norm.training and not moved and (dropout is None or not dropout.training)


def folded(linear: nn.Linear, norm: nn.Module, dropout: Dropout | None) -> tuple[Tensor, Tensor] | None:
    """Weight and constant of a linear layer and its norm as one map, which they are where statistics stand still.

    None where they are not, and on a GPU, whose kernels do both at once.
    """
    if not (_on_cpu(linear.weight) and isinstance(norm, BatchNorm) and _still(linear, norm, dropout)):
        return None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return linear.weight * scale[:, None], torch.addcmul(norm.bias, linear.bias - norm.running_mean, scale)


def _constant_passes(linear: nn.Linear, norm: "BatchNorm", x: Tensor, mask: Tensor | None) -> bool:
    """Whether batch norm takes the linear layer's constant away again, and it is known what it remembers."""
    training = linear.training and norm.training and norm.momentum is not None and type(norm) is BatchNorm
    return training and _on_cpu(x) and mask is None and len(x) > 0


def _on_cpu(tensor: Tensor) -> bool:
    """Whether a CPU computes here, and in single or double precision: half is left to the layers themselves."""
    return tensor.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _past(linear: nn.Linear, norm: "BatchNorm", x: Tensor, relu: bool, dropout: Dropout | None) -> Tensor:
    """The constant goes past a norm that would take it away, into the running mean: a pass over the rows less."""
    assert norm.running_mean is not None
    assert norm.momentum is not None
    out: Tensor = norm(x @ linear.weight.T, None, relu, dropout)
    norm.running_mean.data.add_(linear.bias.data, alpha=norm.momentum)  # autograd keeps it, but only to look at in eval
    return out


def _small(x: Tensor) -> bool:
    """Whether the kernels for small linear layers take these rows."""
    if x.dtype != torch.float32 or not kernels.fits(x) or torch.is_autocast_enabled(x.device.type):
        return False
    from outland.kernels.linear import LEAST_WIDTH, MOST_ROWS  # needs Triton

    rough = torch.get_float32_matmul_precision() != "highest" and kernels.rounds_products(x.device)  # in TF32
    return rough and 0 < len(x) <= MOST_ROWS and x.shape[1] >= LEAST_WIDTH


def linear_before(wanted: bool, inputs: int, outputs: int) -> nn.Linear:
    """A linear layer that goes into batch norm, or into none."""
    return LinearBeforeNorm(inputs, outputs) if wanted else nn.Linear(inputs, outputs)


@contextmanager
def statistics_kept(module: nn.Module) -> Iterator[None]:
    """What passes through the module here leaves no trace in the running statistics of its batch norms.

    While training they still normalise by the batch.
    """
    layers = [(layer, layer.momentum) for layer in module.modules() if isinstance(layer, BatchNorm)]
    for layer, _ in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in layers:
            layer.momentum = momentum


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d` over the real rows.

    With a mask, batch statistics and the running averages come from the rows it marks. A single row, which
    PyTorch refuses to train on, has variance 0.
    """

    def forward(
        self, x: Tensor, mask: Tensor | None = None, relu: bool = False, dropout: Dropout | None = None
    ) -> Tensor:
        """Normalise `x [N, d]`; `mask [N]` says which rows are real. A ReLU and dropout may follow at once."""
        moved = torch.is_grad_enabled() and any(part.requires_grad for part in self.parameters())
        still = not self.training and not moved
        if self.momentum is not None and kernels.fits(x) and len(x) and (self.training or still):
            return self.fused(x, mask, relu, dropout)
        normalised = self._normalise(x, mask)
        if relu and dropout is None and normalised is not x:
            return normalised.relu_()
        return then(normalised, relu, dropout)

    def _normalise(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The plain twin of what the GPU's kernels do."""
        if not self.training or (mask is None and x.shape[0] > 1):
            normalised: Tensor = super().forward(x)
            return normalised
        if x.shape[0] == 0:
            return x
        wide = x.to(self.weight.dtype)  # statistics are not for half precision
        real = wide.new_ones(len(x), 1) if mask is None else mask[:, None].to(wide.dtype)
        count = real.sum().clamp(min=1)
        mean = (wide * real).sum(0) / count
        centred = (wide - mean) * real
        variance = centred.square().sum(0) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        scaled = centred * torch.rsqrt(variance + self.eps)
        return (scaled * self.weight + self.bias).to(x.dtype)

    def fused(
        self, x: Tensor, mask: Tensor | None, relu: bool, dropout: Dropout | None, moments: Tensor | None = None
    ) -> Tensor:
        """All of it by the GPU's kernels; `moments` are at hand where `linear_moments` made them."""
        from outland.kernels.norm import norm_relu_drop  # needs Triton

        drop = 0.0 if dropout is None or not dropout.training else dropout.p
        inside = self.training and 0 < drop < 1
        plan = self.plan(relu)
        if inside and dropout is not None:
            seed, salt = dropout.seed(x.device)
            plan = replace(plan, drop=drop, seed=seed, salt=salt)
        out = norm_relu_drop(x, mask, plan, moments)
        return out if inside or dropout is None else dropout(out)

    def plan(self, relu: bool) -> "Normed":
        """What the GPU's kernels have to know."""
        from outland.kernels.norm import Normed  # needs Triton

        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        averages = (self.running_mean, self.running_var, self.num_batches_tracked)
        return Normed(self.weight, self.bias, *averages, self.momentum, self.eps, self.training, relu)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        # Without a momentum, as where statistics are taken anew, every batch counts alike.
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)
