"""Closed walks from every node: what tells a ring from a long chain, which messages of a few layers cannot."""

import torch
from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import GraphBatch


class ClosedWalks(nn.Module):
    r"""Logarithms of the numbers of closed walks of 3 to `longest` steps from every node, mapped to vectors.

    Walks never turn back along the edge they came by. The numbers of such walks of k steps between the nodes of a graph
    follow from its adjacency A and degrees D:

    .. math:: P_0 = I, \quad P_1 = A, \quad P_2 = A^2 - D, \quad P_{k+1} = A P_k - (D - I) P_{k-1}

    On the diagonal they are 0 in every tree, and not where a ring is near. Nodes of a chain and of a ring have equal
    neighbourhoods, so that messages cannot tell one from the other until they have gone round.

    Args:
        longest: most steps of a walk, 3 at least.
        width: of the vectors.
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        if longest < 3:
            raise OutlandError(f"closed walks that never turn back have three steps or more, not {longest}")
        self.longest = longest
        self.linear = nn.Linear(longest - 2, width)

    def counts(self, batch: GraphBatch, edge_weight: Tensor | None = None) -> Tensor:
        """Closed walks of each length `[N, longest - 2]`; an edge of weight 0 is absent, any other is there.

        Walks over a share of an edge would not be numbers of walks: those that turn back would no longer cancel.
        """
        most = int(batch.node_count.max()) if batch.most_nodes is None else batch.most_nodes
        number = torch.where(batch.real_nodes, batch.node_number, 0)[:, None]
        itself = batch.real_nodes[:, None].to(self.linear.weight.dtype)
        walks = itself.new_zeros(batch.num_nodes, most).scatter_(1, number, itself)  # of no steps
        present = None if edge_weight is None else (edge_weight > 0).to(walks.dtype)
        degree = batch.aggregate_to_targets(walks.new_ones(batch.num_edges) if present is None else present)[:, None]
        before, walks = walks, batch.sum_neighbours(walks, present)
        returns, closed = degree, []  # how many ways back a walk of one more step must not take
        for _ in range(2, self.longest + 1):
            before, walks = walks, batch.sum_neighbours(walks, present) - returns * before
            returns = degree - 1
            closed.append(walks.gather(1, number))
        return torch.cat(closed[1:], 1)

    def forward(self, batch: GraphBatch, edge_weight: Tensor | None = None) -> Tensor:
        """A vector for every node `[N, width]`."""
        vectors: Tensor = self.linear(self.counts(batch, edge_weight).clamp(min=0).log1p())
        return vectors
