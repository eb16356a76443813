"""Graphs with the weights of a mask, as plain values that a page can draw."""

from typing import Any

import torch

from outland.graphs import Batches, PackedGraphs, Splits
from outland.methods import Method
from outland.training.callbacks import Callback

Picture = dict[str, Any]


def smallest_of_each_class(splits: Splits, part: str) -> torch.Tensor:
    """Index of the smallest graph of every class of a part, which is the easiest to read."""
    index = splits[part]
    index = index[splits.graphs.node_counts.to(index.device)[index].argsort(stable=True)]
    labels = splits.graphs.y[index].reshape(len(index), -1)[:, 0]
    return torch.stack([index[labels == label][0] for label in labels.unique() if label == label])


def truth_pictures(graphs: PackedGraphs) -> list[Picture]:
    """Pictures with weight 1 on nodes and edges that are known to decide the label, and 0 elsewhere."""
    assert graphs.node_truth is not None
    assert graphs.edge_truth is not None
    return _pictures(graphs, graphs.node_truth.float(), graphs.edge_truth.float())


@torch.inference_mode()
def mask_pictures(method: Method, splits: Splits, index: torch.Tensor, mask: str) -> list[Picture]:
    """Pictures of the graphs at `index` with the weights of one of a method's masks."""
    batch = next(iter(Batches(splits.graphs, index, len(index))))
    weights = method.masks(batch)[mask]
    return _pictures(splits.graphs.select(index).to("cpu"), weights.node.cpu(), weights.edge.cpu())


def _pictures(graphs: PackedGraphs, node: torch.Tensor, edge: torch.Tensor) -> list[Picture]:
    nodes, edges = node.flatten().split(graphs.node_counts.tolist()), edge.flatten().split(graphs.edge_counts.tolist())
    return [
        {
            "ends": graph.edge_index.T.tolist(),
            "node": [round(value, 3) for value in node_part.tolist()],
            "edge": [round(value, 3) for value in edge_part.tolist()],
        }
        for graph, node_part, edge_part in zip(graphs.to_data_list(), nodes, edges, strict=True)
    ]


class PictureCallback(Callback):
    """Takes pictures of the graphs at `index`, with one of the method's masks, after some epochs, counted from 0."""

    def __init__(self, method: Method, splits: Splits, index: torch.Tensor, mask: str, epochs: list[int]) -> None:
        self.method, self.splits, self.index, self.mask, self.epochs = method, splits, index, mask, epochs
        self.pictures: list[Picture] = []

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Take pictures; the method is in evaluation mode, and is left so."""
        if row["epoch"] in self.epochs:
            pictures = mask_pictures(self.method, self.splits, self.index, self.mask)
            self.pictures += _numbered(pictures, row["epoch"] + 1)

    @classmethod
    def over_training(cls, method: Method, splits: Splits, epochs: int, moments: int = 5) -> "PictureCallback":
        """Pictures of one augmented training graph of every class, at `moments` epochs from the first to the last."""
        chosen = sorted({round((epochs - 1) * moment / max(moments - 1, 1)) for moment in range(moments)})
        return cls(method, splits, smallest_of_each_class(splits, "train"), "merged", chosen)

    def with_truth(self) -> list[Picture]:
        """Pictures of the truth as epoch 0, and those that were taken."""
        truth = truth_pictures(self.splits.graphs.select(self.index).to("cpu"))
        return [*_numbered(truth, 0), *self.pictures]


def _numbered(pictures: list[Picture], epoch: int) -> list[Picture]:
    return [{**picture, "epoch": epoch, "graph": graph} for graph, picture in enumerate(pictures)]
