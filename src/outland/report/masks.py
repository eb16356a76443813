"""Pictures of graphs with their masks: what is true, what the model rests on, what the adversary attacks."""

from pathlib import Path

import torch

from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.report.drawing import COLOURS, draw_weighted, pyplot, save_figure


def draw_masks(method: Method, splits: Splits, index: torch.Tensor, path: Path) -> None:
    """Draw the graphs at `index`, one row each: the true motif first, then every mask of the method.

    Dark nodes and broad, dark edges have a high weight.
    """
    plt = pyplot()
    method.eval()
    batch = next(iter(Batches(splits.graphs, index, len(index))))
    with torch.inference_mode():
        masks = {name: (mask.node.cpu(), mask.edge.cpu()) for name, mask in method.masks(batch).items()}
        predicted = method(batch).argmax(1).tolist()
    chosen = splits.graphs.select(index)
    if chosen.node_truth is not None and chosen.edge_truth is not None:
        masks = {"true motif": (chosen.node_truth.float(), chosen.edge_truth.float()), **masks}
    data = chosen.to_data_list()
    figure, axes = plt.subplots(
        len(data),
        len(masks),
        figsize=(3.1 * len(masks), 2.9 * len(data)),
        squeeze=False,
        layout="constrained",
    )
    node_rows, edge_rows = chosen.node_counts.tolist(), chosen.edge_counts.tolist()
    for column, (name, (node, edge)) in enumerate(masks.items()):
        parts = zip(data, node.split(node_rows), edge.split(edge_rows), strict=True)
        for row, (graph, node_part, edge_part) in enumerate(parts):
            axis = axes[row][column]
            draw_weighted(axis, graph, node_part, edge_part)
            if row == 0:
                axis.set_title(name)
            if column == 0:
                axis.set_ylabel(f"label {int(graph.y)}, predicted {predicted[row]}")
    scale = plt.cm.ScalarMappable(cmap=COLOURS, norm=plt.Normalize(0, 1))
    figure.colorbar(scale, ax=axes, label="mask", shrink=0.5)
    save_figure(figure, path, 110)
    plt.close(figure)
