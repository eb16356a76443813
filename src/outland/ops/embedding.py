"""Categories as vectors."""

from torch import Tensor
from torch.nn import functional

from outland.ops.dispatch import op


@op("outland.ops.triton.embedding:embedding_sum")
def embedding_sum(table: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """Sums of the embeddings of the categories `values` `[N, k]`: `[N, d]`.

    Args:
        table: the embeddings of all columns' categories, one column after another `[V, d]`.
        values: a category of each column.
        offsets: the first row of each column in `table` `[k]`.
    """
    return functional.embedding(values.long() + offsets, table).sum(1)
