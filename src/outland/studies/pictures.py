"""Graphs with the weights that a mask lays on them, as plain values that a page can draw."""

from typing import Any

import torch

from outland.graphs import Batches, PackedGraphs, Splits
from outland.methods import Method
from outland.training.callbacks import Callback

Picture = dict[str, Any]


def one_of_each_class(splits: Splits, part: str) -> torch.Tensor:
    """The smallest graph of every class of a part, which is the easiest to read."""
    index = splits[part]
    index = index[splits.graphs.node_counts.to(index.device)[index].argsort(stable=True)]
    labels = splits.graphs.y[index].reshape(len(index), -1)[:, 0]
    return torch.stack([index[labels == label][0] for label in labels.unique() if label == label])


def truth_pictures(graphs: PackedGraphs) -> list[Picture]:
    """Graphs with weight 1 on what is known to decide the label, and 0 elsewhere."""
    assert graphs.node_truth is not None
    assert graphs.edge_truth is not None
    return _pictures(graphs, graphs.node_truth.float(), graphs.edge_truth.float())


@torch.inference_mode()
def mask_pictures(method: Method, splits: Splits, index: torch.Tensor, mask: str) -> list[Picture]:
    """Graphs with the weights of one of a method's masks."""
    batch = next(iter(Batches(splits.graphs, index, len(index))))
    found = method.masks(batch)[mask]
    return _pictures(splits.graphs.select(index).to("cpu"), found.node.cpu(), found.edge.cpu())


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


class Album(Callback):
    """Takes pictures of a few graphs at some moments of a training run.

    Args:
        method, splits: what trains, and on what.
        index: the graphs.
        mask: which of the method's masks.
        moments: after which epochs, counted from 0.
    """

    def __init__(self, method: Method, splits: Splits, index: torch.Tensor, mask: str, moments: list[int]) -> None:
        self.method, self.splits, self.index, self.mask, self.moments = method, splits, index, mask, moments
        self.pictures: list[Picture] = []

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """An epoch is over: the method is in evaluation mode, and is left so."""
        if row["epoch"] in self.moments:
            found = mask_pictures(self.method, self.splits, self.index, self.mask)
            self.pictures += [{**one, "epoch": row["epoch"] + 1, "graph": place} for place, one in enumerate(found)]

    @classmethod
    def over_training(cls, method: Method, splits: Splits, epochs: int, moments: int = 5) -> "Album":
        """The augmented form of one training graph of every class, from the first epoch to the last."""
        when = sorted({round((epochs - 1) * place / max(moments - 1, 1)) for place in range(moments)})
        return cls(method, splits, one_of_each_class(splits, "train"), "merged", when)

    def all_pictures(self) -> list[Picture]:
        """The truth as epoch 0, and what was taken."""
        truth = truth_pictures(self.splits.graphs.select(self.index).to("cpu"))
        return [{**one, "epoch": 0, "graph": place} for place, one in enumerate(truth)] + self.pictures
