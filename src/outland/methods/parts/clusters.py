"""Clusters of embeddings, found while training on batches of them."""

import torch
from torch import Tensor, nn
from torch.nn import functional

_SAME = 1e-6  # 1 - cosine up to which two directions are one


class Clusters(nn.Module):
    r"""Spherical k-means, batch by batch: a centre is the direction of a moving sum of the rows next to it.

    .. math:: c_i = \arg\max_k \frac{u_i^\top s_k}{\|s_k\|}, \quad s_k \leftarrow \beta s_k + \sum_{i:\,c_i = k} u_i

    β is above 0: at 0 a centre that no row of a batch is next to would be lost.
    Of several processes that train one model together each has centres of its own part of the batches.
    """

    total: Tensor

    def __init__(self, clusters: int, width: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("total", torch.zeros(clusters, width))  # s; a cluster at 0 has no centre yet

    def nearest(self, unit: Tensor) -> Tensor:
        """Index of the nearest centre of each row of length 1 `[B]`."""
        cosine = unit @ functional.normalize(self.total, dim=1).T
        return torch.where(self.total.any(1), cosine, -2).argmax(1)

    def update(self, unit: Tensor, index: Tensor, real: Tensor) -> None:
        """Move the centres towards the real rows that are next to them."""
        rows = torch.where(real[:, None], unit, 0)
        self.total.mul_(self.decay).add_(torch.zeros_like(self.total).index_add(0, index, rows))

    def seed(self, unit: Tensor, real: Tensor, random: torch.Generator) -> None:
        """Give clusters without a centre one by k-means++: a real row, likely if it is far from all centres so far."""
        distance, totals = 2 * real.to(unit.dtype), []
        for total in self.total.unbind():
            race = -torch.rand(len(unit), generator=random, device=unit.device).log() / distance  # least by chance
            row = unit.index_select(0, race.argmin(0, keepdim=True))[0]
            row = torch.where(distance.amax() > _SAME, row, 0)  # where all rows have a centre, later batches may not
            totals.append(torch.where(total.any(), total, row))
            distance = torch.minimum(distance, (1 - unit @ functional.normalize(totals[-1], dim=0)).clamp(min=0))
        self.total.copy_(torch.stack(totals))
