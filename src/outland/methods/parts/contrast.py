"""The contrastive loss of a batch, from which pairs of graphs should be alike and which are compared at all."""

import torch
from torch import Tensor
from torch.nn import functional


def pair_contrast(h: Tensor, positive: Tensor, counted: Tensor, temperature: float) -> Tensor:
    r"""Mean contrastive loss of the anchors that have a positive pair, in all tasks; 0 where there is none.

    .. math:: -\operatorname*{mean}_{i:\,P(i) \ne \emptyset} \frac1{|P(i)|} \sum_{j \in P(i)}
              \Big[A_{ij} - \log\sum_{k \in C(i)} e^{A_{ik}}\Big], \quad
              A_{ij} = \frac{h_i^\top h_j}{\tau\,\|h_i\| \|h_j\|}

    From embeddings `[B, d]`, positive pairs P `[T, B, B]` and all pairs C that are compared, P among them.
    """
    # A graph's embedding may be almost 0; the gradient of its direction must stay finite.
    unit = functional.normalize(h, dim=1, eps=1e-6)
    similarity = unit @ unit.T / temperature
    lowest = torch.finfo(h.dtype).min / 2  # in place of -inf, whose gradient is not finite
    total = torch.where(counted, similarity, lowest).logsumexp(2, keepdim=True)
    number = positive.sum(2)
    anchors = torch.where(positive, similarity - total, 0).sum(2) / number.clamp(min=1)
    return -anchors.sum() / (number > 0).sum().clamp(min=1)


def label_pairs(labels: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of different graphs whose label is known, and those of equal labels `[T, B, B]`; from `[B, T]`."""
    index = torch.arange(len(labels), device=labels.device)
    labels, known = labels.T, known.T
    both = known[:, :, None] & known[:, None, :] & (index[:, None] != index)
    return both, labels[:, :, None] == labels[:, None, :]


def pairs_across(labels: Tensor, known: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Positive pairs, of one label in different groups, and negative ones, the reverse `[T, B, B]`; from `[B, T]`."""
    both, alike = label_pairs(labels, known)
    together = groups.T[:, :, None] == groups.T[:, None, :]
    return both & alike & ~together, both & ~alike & together
