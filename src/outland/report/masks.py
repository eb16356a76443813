"""Pictures of graphs with their masks: what is true, what the model rests on, what the adversary attacks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from outland.errors import OutlandError
from outland.graphs import Batches, Splits
from outland.methods import Method


def draw_masks(method: Method, splits: Splits, index: torch.Tensor, path: Path) -> None:
    """Draw the graphs at `index`, one row each: the true motif first, then every mask of the method.

    Dark nodes and broad, dark edges have a high weight.
    """
    plt = _pyplot()
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
            _draw(axis, graph.edge_index, node_part, edge_part, _layout(graph))
            if row == 0:
                axis.set_title(name)
            if column == 0:
                axis.set_ylabel(f"label {int(graph.y)}, predicted {predicted[row]}")
    scale = plt.cm.ScalarMappable(cmap=_COLOURS, norm=plt.Normalize(0, 1))
    figure.colorbar(scale, ax=axes, label="mask", shrink=0.5)
    figure.savefig(path, dpi=110)
    plt.close(figure)


_COLOURS = "YlGn"


def _layout(graph: Any) -> Mapping[int, Any]:
    import networkx

    drawing = networkx.Graph()
    drawing.add_nodes_from(range(len(graph.x)))
    drawing.add_edges_from(graph.edge_index.T.tolist())
    start = networkx.circular_layout(drawing)
    places: Mapping[int, Any] = networkx.spring_layout(drawing, pos=start, iterations=400, seed=0)
    return places


def _draw(
    axis: Any, edge_index: torch.Tensor, node: torch.Tensor, edge: torch.Tensor, place: Mapping[int, Any]
) -> None:
    import matplotlib

    colours = matplotlib.colormaps[_COLOURS]
    for (u, v), weight in zip(edge_index.T.tolist(), edge.tolist(), strict=True):
        if u < v:
            ends = [place[u], place[v]]
            colour = colours(0.3 + 0.7 * weight)
            axis.plot(*zip(*ends, strict=True), color=colour, linewidth=0.8 + 3 * weight, zorder=1)
    points = [place[i] for i in range(len(node))]
    axis.scatter(
        *zip(*points, strict=True),
        c=[colours(weight) for weight in node.tolist()],
        s=90,
        edgecolors="0.35",
        linewidths=0.8,
        zorder=2,
    )
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.12)
    for side in axis.spines.values():
        side.set_visible(False)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise OutlandError("pictures need matplotlib: pip install 'outland[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
