"""Pictures of graphs with the true motif and a method's masks."""

from pathlib import Path

import torch

from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.report.drawing import COLOURS, draw_weighted, new_figure, save_figure


def draw_masks(method: Method, splits: Splits, index: torch.Tensor, path: Path) -> None:
    """Draw the graphs at `index` to `path`, one row each: the true motif, then every mask of the method."""
    from matplotlib.cm import ScalarMappable

    method.eval()
    batch = next(iter(Batches(splits.graphs, index, len(index))))
    with torch.inference_mode():
        masks = {name: (mask.node.cpu(), mask.edge.cpu()) for name, mask in method.masks(batch).items()}
        predicted = method(batch).argmax(1).tolist()
    selected = splits.graphs.select(index)
    if selected.node_truth is not None and selected.edge_truth is not None:
        masks = {"true motif": (selected.node_truth.float(), selected.edge_truth.float()), **masks}
    data = selected.to_data_list()
    figure, axes = new_figure(len(data), len(masks), (3.1, 2.9))
    node_counts, edge_counts = selected.node_counts.tolist(), selected.edge_counts.tolist()
    for column, (name, (node, edge)) in enumerate(masks.items()):
        parts = zip(data, node.split(node_counts), edge.split(edge_counts), strict=True)
        for row, (graph, node_part, edge_part) in enumerate(parts):
            panel = axes[row][column]
            draw_weighted(panel, graph, node_part, edge_part)
            if row == 0:
                panel.set_title(name)
            if column == 0:
                panel.set_ylabel(f"label {int(graph.y)}, predicted {predicted[row]}")
    figure.colorbar(ScalarMappable(cmap=COLOURS), ax=axes, label="mask", shrink=0.5)
    save_figure(figure, path, 110)
