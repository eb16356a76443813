"""ROC-AUC and precision of a method's stable masks, where the part that decides the label is known."""

import torch
from torch import Tensor

from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.methods.parts.ranking import rank_within_group
from outland.training.callbacks import Callback
from outland.training.evaluate import fitting_size


@torch.inference_mode()
def mask_quality(
    method: Method, splits: Splits, batch_size: int, callback: Callback | None = None
) -> dict[str, dict[str, float]]:
    """ROC-AUC and precision@k of the stable mask's edge weights against the true edges, mean over graphs, by part.

    k is the number of true edges of a graph. A constant mask has ROC-AUC 0.5. Graphs whose edges are all true, or none,
    do not count; of a method with `mask_graphs`, so many at equal distances in the part do, and `on_masks_start`
    of the callback is called. Empty where there is no truth, or the method has no stable mask.
    """
    truth, graphs = splits.graphs.edge_truth, splits.graphs
    if truth is None or not method.has_masks:
        return {}
    method.eval()
    offsets = graphs.edge_offsets.to(graphs.device)
    quality: dict[str, dict[str, float]] = {}
    scored = {part: index for part, index in splits.parts.items() if part != "train" and len(index)}
    counts = {part: min(len(index), method.mask_graphs or len(index)) for part, index in scored.items()}
    if callback is not None and method.mask_graphs:
        callback.on_masks_start(sum(counts.values()))
    batch_size = fitting_size(graphs, scored.values(), batch_size)
    for part, index in scored.items():
        count = counts[part]
        index = index[torch.linspace(0, len(index) - 1, count).round().long()]
        scores = []
        for batch in Batches(graphs, index, batch_size):
            masks = method.masks(batch)
            if "stable" not in masks:
                return {}
            first = offsets[batch.index] - (batch.edge_count.cumsum(0) - batch.edge_count)
            edges = torch.arange(batch.num_edges, device=graphs.device) + first[batch.edge_batch]
            scores.append(graph_scores(masks["stable"].edge, truth[edges], batch.edge_batch, batch.num_graphs))
        auc, precision, known = (torch.cat(column) for column in zip(*scores, strict=True))
        number = known.sum().clamp(min=1)
        quality[part] = {
            "rocauc": float((auc * known).sum() / number),
            "precision_at_k": float((precision * known).sum() / number),
        }
    return quality


def graph_scores(score: Tensor, truth: Tensor, graph: Tensor, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """ROC-AUC and expected precision@k of each graph, and 1 where it counts; tied edges share their mean rank."""
    rank, lowest, tied = _tied_ranks(score, graph, graphs)
    zeros = score.new_zeros(graphs, dtype=torch.double)
    positive = zeros.index_add(0, graph, truth.double())
    total = zeros.index_add(0, graph, torch.ones_like(rank))
    negative = total - positive
    above = zeros.index_add(0, graph, torch.where(truth, rank, 0)) - positive * (positive - 1) / 2
    auc = above / (positive * negative).clamp(min=1)
    in_top = torch.minimum((lowest + tied - negative[graph]).clamp(min=0), tied)  # of its tie, within the top k
    hits = zeros.index_add(0, graph, torch.where(truth, in_top / tied, 0))
    counts = (positive > 0) & (negative > 0)
    return auc, hits / positive.clamp(min=1), counts.double()


def _tied_ranks(score: Tensor, graph: Tensor, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean rank of each row in its graph, ascending; the lowest rank of its tie; and the size of the tie."""
    rank = rank_within_group(score, graph, graphs)
    sizes = torch.bincount(graph, minlength=graphs)
    position = (sizes.cumsum(0) - sizes)[graph] + rank
    order = position.argsort()
    ordered, ordered_graph = score[order], graph[order]
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (ordered_graph[1:] != ordered_graph[:-1])
    tie = (new.cumsum(0) - 1)[position]
    tied = torch.bincount(tie)[tie].double()
    lowest = rank[order][new][tie].double()
    return lowest + (tied - 1) / 2, lowest, tied
