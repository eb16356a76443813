"""Numerical primitives, a file each: the plain PyTorch form, a dispatch, and the Triton kernel in `triton/`.

Nothing outside asks for a device, for Triton or for what a kernel supports. Triton is imported when a kernel is first
used, so that machines without a GPU do not need it.
"""

from outland.ops.aggregate import gin_aggregate, sum_neighbours
from outland.ops.collation import BatchShape, CollateSource, collate, collate_each, collate_padded
from outland.ops.csr import EdgeCSR, Edges, Segments
from outland.ops.dispatch import use_kernels
from outland.ops.dropout import DropoutDraws, DropoutSeeds, activate
from outland.ops.embedding import embedding_sum
from outland.ops.linear import fold_batch_norm, linear_norm
from outland.ops.masks import mask_weights
from outland.ops.mean import masked_mean
from outland.ops.norm import NormState, batch_norm
from outland.ops.pair import pair_linear
from outland.ops.ratio import Indicator, ratio_penalties
from outland.ops.risk import label_losses, mean_risk
from outland.ops.scale import scale_rows
from outland.ops.segment import gather_rows, pool, scatter_rows
