"""Raw node and edge features as vectors."""

import torch
from torch import Tensor, nn

from outland import kernels
from outland.graphs import Features


class FeatureEncoder(nn.Module):
    """Categories become the sum of one embedding a column; real numbers are projected, or passed on as they are.

    Args:
        features: the columns.
        width: of the result; None passes real numbers on, which `out_width` then tells.
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
        if self.table is not None and kernels.fits(self.table.weight):
            from outland.kernels.embed import embed  # needs Triton

            return embed(values, self.offsets, self.table.weight)
        if self.table is not None:
            embedded: Tensor = self.table(values.long() + self.offsets).sum(1)
            return embedded
        return values if self.linear is None else self.linear(values)
