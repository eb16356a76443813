"""Raw node and edge features as vectors."""

import torch
from torch import Tensor, nn

from outland.graphs import Features
from outland.ops import embedding_sum


class FeatureEncoder(nn.Module):
    """Categories become the sum of one embedding for each column; real numbers are projected, or passed on as they are.

    Args:
        features: the columns.
        width: of the result; None passes real numbers on. `out_width` is the width in either case.
    """

    offsets: Tensor

    def __init__(self, features: Features, width: int | None) -> None:
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
            self.linear = nn.Linear(features.width, width)

    def forward(self, values: Tensor) -> Tensor:
        """`[rows, columns]` to `[rows, out_width]`."""
        if self.table is not None:
            return embedding_sum(self.table.weight, values, self.offsets)
        return values if self.linear is None else self.linear(values)
