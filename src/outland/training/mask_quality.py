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
                torch.arange(batch.num_edges, device=graphs.device) + (first[batch.index] - starts)[batch.edge_graph]
            )
            rows.append(_by_graph(masks["stable"].edge, truth[place], batch.edge_graph, batch.num_graphs))
        auc, precision, counts = (torch.cat(column) for column in zip(*rows, strict=True))
        number = counts.sum().clamp(min=1)
        found[part] = {
            "rocauc": float((auc * counts).sum() / number),
            "precision_at_k": float((precision * counts).sum() / number),
        }
    return found


def _by_graph(score: Tensor, truth: Tensor, owner: Tensor, graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """ROC-AUC and precision@k of each graph, and whether it counts; ties share their places."""
    upward = ranks(score, owner, graphs)
    downward = ranks(score.flip(0), owner.flip(0), graphs).flip(0)
    place = (upward + downward).double() / 2
    zeros = place.new_zeros(graphs)
    positive = zeros.index_add(0, owner, truth.double())
    total = zeros.index_add(0, owner, torch.ones_like(place))
    negative = total - positive
    above = zeros.index_add(0, owner, torch.where(truth, place, 0)) - positive * (positive - 1) / 2
    counts = (positive > 0) & (negative > 0)
    cut = (total - positive)[owner]
    hits = [zeros.index_add(0, owner, (truth & (rank >= cut)).double()) for rank in (upward, downward)]
    auc = above / (positive * negative).clamp(min=1)
    precision = (hits[0] + hits[1]) / 2 / positive.clamp(min=1)
    return auc, precision, counts.double()
