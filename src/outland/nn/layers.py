"""The layers that networks are built of: dropout, batch norm, feature encoders, linear maps of edges."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from outland import ops
from outland.graphs import Features, GraphBatch
from outland.ops import DropoutDraws, DropoutSeeds, NormState, Rows, activate, embedded_rows, embedding_sum


class Dropout(nn.Module):
    """`torch.nn.Dropout`, from a given generator: runs that train side by side do not take each other's draws.

    Args:
        p: probability of each entry to become 0 while training.

    Attributes:
        generator: where draws come from; None is PyTorch's own. Not saved with the module.
        seeds: the same, for kernels.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None
        self.seeds: DropoutSeeds | None = None

    def draws(self) -> DropoutDraws | None:
        """How entries are dropped, as operations take it; None outside training."""
        return DropoutDraws(self.p, self.generator, self.seeds) if self.training else None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """`x` after a ReLU if asked, thinned and scaled up while training."""
        return activate(x, relu, self.draws())


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d` over the real rows.

    With a mask, batch statistics and running statistics come from the rows it marks. A single row, which PyTorch
    refuses to train on, has variance 0.

    Attributes:
        synchronized: whether batch statistics come from the rows of all processes: see `synchronize_batch_norm`.
    """

    synchronized = False

    def forward(
        self, x: Tensor, mask: Tensor | None = None, relu: bool = False, dropout: Dropout | None = None
    ) -> Tensor:
        """Normalise `x [N, d]`; `mask [N]` says which rows are real. A ReLU and dropout may follow at once."""
        return ops.batch_norm(x, mask, self.state(), relu, None if dropout is None else dropout.draws())

    def state(self) -> NormState:
        """Tensors and options, as operations take them."""
        mean, var, batches = self.running_mean, self.running_var, self.num_batches_tracked
        assert mean is not None
        assert var is not None
        assert batches is not None
        options = self.momentum, self.eps, self.training, self.synchronized
        return NormState(self.weight, self.bias, mean, var, batches, *options)


class NoNorm(nn.Module):
    """The identity under the signature of `BatchNorm`."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, relu: bool = False, dropout: Dropout | None = None
    ) -> Tensor:
        """`x` after a ReLU and dropout, if asked for."""
        return ops.activate(x, relu, None if dropout is None else dropout.draws())


class LinearBeforeNorm(nn.Linear):
    """A linear layer whose output goes straight into batch norm.

    While training, batch norm takes the bias away again, so its gradient is 0. Computed, it would be rounding noise,
    which Adam scales up to whole steps: runs that should be equal would part. So it is not computed; weight decay
    still acts.
    """

    def forward(self, x: Tensor) -> Tensor:
        """`x` mapped; while training no gradient reaches the bias."""
        return nn.functional.linear(x, self.weight, self.applied_bias())

    def applied_bias(self) -> Tensor:
        """The bias, without a gradient while training."""
        return self.bias.detach() if self.training else self.bias


def norm(width: int, batch_norm: bool) -> nn.Module:
    """Batch norm, or none."""
    return BatchNorm(width) if batch_norm else NoNorm()


def linear_before(batch_norm: bool, inputs: int, outputs: int) -> nn.Linear:
    """A linear layer that goes into batch norm, or into none."""
    return LinearBeforeNorm(inputs, outputs) if batch_norm else nn.Linear(inputs, outputs)


def linear_norm(
    linear: nn.Linear,
    norm: nn.Module,
    x: Tensor,
    mask: Tensor | None = None,
    relu: bool = False,
    dropout: Dropout | None = None,
) -> Tensor:
    """`norm(linear(x), mask, relu, dropout)`, as one operation where the norm is batch norm."""
    if isinstance(norm, BatchNorm) and isinstance(linear, LinearBeforeNorm):
        draws = None if dropout is None else dropout.draws()
        return ops.linear_norm(x, linear.weight, linear.applied_bias(), mask, norm.state(), relu, draws)
    out: Tensor = norm(linear(x), mask, relu, dropout)
    return out


def fold_batch_norm(linear: nn.Linear, norm: nn.Module, dropout: Dropout | None) -> tuple[Tensor, Tensor] | None:
    """Weight and bias of `linear` and `norm` as one linear layer, where both are frozen and nothing is dropped.

    None where they are not, and on a GPU while gradients are on: see `ops.fold_batch_norm`.
    """
    if not isinstance(norm, BatchNorm) or (dropout is not None and dropout.training):
        return None
    return ops.fold_batch_norm(linear.weight, linear.bias, norm.state())


@contextmanager
def frozen_running_stats(module: nn.Module) -> Iterator[None]:
    """A context in which the running statistics of the module's batch norms do not change.

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


def synchronize_batch_norm(module: nn.Module) -> None:
    """Let every batch norm of a module take its statistics from the rows of all processes."""
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            layer.synchronized = True


class FeatureEncoder(nn.Module):
    """Categories become the sum of one embedding for each column; real numbers are projected, or passed on as they are.

    `width` None passes real numbers on; `out_width` is the width of the result in either case.
    `bias` is of the projection.
    """

    offsets: Tensor

    def __init__(self, features: Features, width: int | None, bias: bool = True) -> None:
        super().__init__()
        self.out_width = width or features.width
        self.table: nn.Embedding | None = None
        self.linear: nn.Linear | None = None
        if features.vocabulary is not None:
            assert width is not None, "categories need a width to be embedded in"
            sizes = torch.tensor(features.vocabulary)
            self.table = nn.Embedding(sum(features.vocabulary), width)
            self.register_buffer("offsets", sizes.cumsum(0) - sizes, persistent=False)
            for rows in self.table.weight.split(features.vocabulary):
                nn.init.xavier_uniform_(rows.data)
        elif width is not None:
            self.linear = nn.Linear(features.width, width, bias=bias)

    def forward(self, values: Tensor, lookup: bool = False) -> Rows:
        """`[rows, columns]` to `[rows, out_width]`; `lookup` for operations that look up embeddings themselves."""
        if self.table is not None:
            return (embedded_rows if lookup else embedding_sum)(self.table.weight, values, self.offsets)
        return values if self.linear is None else self.linear(values)


def pair_linear(linear: nn.Linear, h: Tensor, batch: GraphBatch) -> Tensor:
    """A linear map of `[h_source, h_target]` for every edge `[E, out]`."""
    return ops.pair_linear(h, linear.weight, linear.bias, batch.edges)


def pair_norm(
    linear: nn.Linear, h: Tensor, batch: GraphBatch, relu: bool = False, dropout: DropoutDraws | None = None
) -> Tensor:
    """`pair_linear`, normalised over the edges of each graph, which takes any bias away; then ReLU and dropout."""
    return ops.pair_norm(h, linear.weight, batch.edges, batch.edge_segments, relu, dropout)


def pair_scores(first: nn.Linear, last: nn.Linear, h: Tensor, batch: GraphBatch) -> Tensor:
    """`last` of the ReLU of `first` of `[h_source, h_target]` for every edge `[E, out]`."""
    return ops.pair_scores(h, first.weight, first.bias, last.weight, last.bias, batch.edges)


class PairLinear(nn.Linear):
    """A `Linear(2·width, outputs)` on `[z_source, z_target]` of every edge."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(2 * width, outputs)

    def forward(self, z: Tensor, batch: GraphBatch) -> Tensor:  # type: ignore[override]
        """Node states `[N, width]` to edge values `[E, outputs]`."""
        return pair_linear(self, z, batch)
