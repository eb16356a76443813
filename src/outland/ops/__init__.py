"""Numerical primitives: the plain PyTorch form, a dispatch, and the Triton kernel in `triton/`.

Nothing outside asks for a device, for Triton or for what a kernel supports. Triton is imported when a kernel is first
used, so that machines without a GPU do not need it.
"""

from outland.ops.aggregate import gin_aggregate, sum_neighbours
from outland.ops.collation import BatchShape, CollateSource, collate, collate_each, collate_padded
from outland.ops.csr import EdgeCSR, Edges, Segments
from outland.ops.dispatch import use_kernels
from outland.ops.dropout import DropoutDraws, DropoutSeeds, activate
from outland.ops.linear import fold_batch_norm, linear_norm
from outland.ops.losses import Indicator, label_losses, mean_risk, ratio_penalties
from outland.ops.masks import mask_weights
from outland.ops.norm import NormState, batch_norm
from outland.ops.pair import pair_linear, pair_norm, pair_scores
from outland.ops.readout import attention_pool, logsumexp_pool, max_pool
from outland.ops.rows import (
    EmbeddedRows,
    Rows,
    dense_rows,
    embedded_rows,
    embedding_sum,
    gather_rows,
    masked_mean,
    pool,
    scale_rows,
    scatter_rows,
)
from outland.ops.segment_norm import segment_norm
from outland.ops.weights import Descent, TableLayout, dependence_terms, descend_weights, simplex
