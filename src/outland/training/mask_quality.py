"""How well a method's masks find the part of a graph that the label rests on, where that is known."""

import torch
from torch import Tensor

from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.methods.parts.ranking import ranks


@torch.inference_mode()
def mask_quality(method: Method, splits: Splits, batch_size: int) -> dict[str, dict[str, float]]:
    """ROC-AUC and precision@k of the stable mask's edge weights against the true edges, mean over graphs, by part.

    k is the number of true edges of a graph. A mask that says the same of every edge has ROC-AUC 0.5. Graphs whose
    edges are all true, or none, do not count. Empty where there is no truth, or the method has no stable mask.
    """
    truth, graphs = splits.graphs.edge_truth, splits.graphs
    if truth is None or type(method).masks is Method.masks:
        return {}
    method.eval()
    first = graphs.edge_offsets.to(graphs.device)
    found: dict[str, dict[str, float]] = {}
    for part, index in splits.parts.items():
        if part == "train" or not len(index):
            continue
        rows = []
        for batch in Batches(graphs, index, batch_size):
            masks = method.masks(batch)
            if "stable" not in masks:
                return {}
            starts = batch.edge_count.cumsum(0) - batch.edge_count
            place = (
                torch.arange(batch.num_edges, device=graphs.device) + (first[batch.index] - starts)[batch.edge_batch]
            )
            rows.append(_by_graph(masks["stable"].edge, truth[place], batch.edge_batch, batch.num_graphs))
        auc, precision, counts = (torch.cat(column) for column in zip(*rows, strict=True))
        number = counts.sum().clamp(min=1)
        found[part] = {
            "rocauc": float((auc * counts).sum() / number),
            "precision_at_k": float((precision * counts).sum() / number),
        }
    return found


def _by_graph(score: Tensor, truth: Tensor, owner: Tensor, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """ROC-AUC and expected precision@k of each graph, and whether it counts; tied edges share their places evenly."""
    place, lowest, tied = _tied_places(score, owner, graphs)
    zeros = score.new_zeros(graphs, dtype=torch.double)
    positive = zeros.index_add(0, owner, truth.double())
    total = zeros.index_add(0, owner, torch.ones_like(place))
    negative = total - positive
    above = zeros.index_add(0, owner, torch.where(truth, place, 0)) - positive * (positive - 1) / 2
    auc = above / (positive * negative).clamp(min=1)
    inside = torch.minimum((lowest + tied - negative[owner]).clamp(min=0), tied)  # of its tie, within the top k
    hits = zeros.index_add(0, owner, torch.where(truth, inside / tied, 0))
    counts = (positive > 0) & (negative > 0)
    return auc, hits / positive.clamp(min=1), counts.double()


def _tied_places(score: Tensor, owner: Tensor, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean place of each row among its graph's, lowest first; the lowest place of its tie; and how many are tied."""
    rank = ranks(score, owner, graphs)
    sizes = torch.bincount(owner, minlength=graphs)
    position = (sizes.cumsum(0) - sizes)[owner] + rank
    order = position.argsort()
    ordered, owners = score[order], owner[order]
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (owners[1:] != owners[:-1])
    tie = (new.cumsum(0) - 1)[position]
    tied = torch.bincount(tie)[tie].double()
    lowest = rank[order][new][tie].double()
    return lowest + (tied - 1) / 2, lowest, tied
