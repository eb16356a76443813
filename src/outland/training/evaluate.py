"""Predictions of a model on a part of the data, and their scores."""

import torch
from torch import Tensor

from outland.graphs import Batches, PackedGraphs, Splits
from outland.methods import Method
from outland.training.metrics import Scores, score


@torch.inference_mode()
def predict(method: Method, graphs: PackedGraphs, index: Tensor, batch_size: int) -> Tensor:
    """Logits of the graphs at `index`, in its order, `[len(index), outputs]`."""
    method.eval()
    return torch.cat([method(batch) for batch in Batches(graphs, index, batch_size)])


def evaluate(method: Method, splits: Splits, batch_size: int) -> dict[str, Scores]:
    """Scores on every part but the training one."""
    scores = {}
    for part, index in splits.parts.items():
        if part != "train" and len(index):
            logits = predict(method, splits.graphs, index, batch_size)
            y = splits.graphs.y[index.to(splits.graphs.device)]
            scores[part] = score(logits, y, splits.schema.task)
    return scores
