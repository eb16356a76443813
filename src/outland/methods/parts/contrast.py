"""The supervised contrastive loss."""

import torch
from torch import Tensor
from torch.nn import functional


def supervised_contrast(h: Tensor, labels: Tensor, known: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Supervised contrastive loss (Khosla et al., NeurIPS 2020); 0 where no label occurs twice.

    .. math:: -\operatorname*{mean}_{i:\,P(i) \ne \emptyset} \frac1{|P(i)|} \sum_{j \in P(i)}
              \Big[A_{ij} - \log\sum_{k \ne i} e^{A_{ik}}\Big], \quad
              A_{ij} = \frac{h_i^\top h_j}{\tau\,\|h_i\| \|h_j\|}, \quad P(i) = \{j \ne i: y_j = y_i\}

    Each task contrasts the graphs whose label it knows, among themselves; the mean is over all anchors of all tasks.

    Args:
        h: embeddings `[B, d]`.
        labels: one column a task `[B, T]`.
        known: which labels count `[B, T]`.
        temperature: τ.
    """
    # A graph's embedding may be almost 0; the gradient of its direction must stay finite.
    unit = functional.normalize(h, dim=1, eps=1e-6)
    similarity = unit @ unit.T / temperature
    index = torch.arange(len(h), device=h.device)
    labels, known = labels.T, known.T
    counted = known[:, :, None] & known[:, None, :] & (index[:, None] != index)
    positive = counted & (labels[:, :, None] == labels[:, None, :])
    lowest = torch.finfo(h.dtype).min / 2  # in place of -inf, whose gradient is not finite
    total = torch.where(counted, similarity, lowest).logsumexp(2, keepdim=True)
    number = positive.sum(2)
    anchors = torch.where(positive, similarity - total, 0).sum(2) / number.clamp(min=1)
    return -anchors.sum() / (number > 0).sum().clamp(min=1)
