"""Single graphs and molecules drawn on matplotlib axes."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from outland.errors import unknown

COLOURS = "YlGn"


def new_figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure of rows × columns axes of this size in inches, and the axes `[rows, columns]`."""
    from matplotlib.figure import Figure

    figure = Figure((size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format of the file's suffix."""
    valid = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in valid:
        raise unknown("picture format", path.suffix or path.name, [f".{name}" for name in valid])
    figure.savefig(path, dpi=dpi)


def node_positions(graph: Any) -> list[tuple[float, float]]:
    """Where to draw each node of a PyG graph: at its `position` if it has one, else by a spring layout."""
    if graph.get("position") is not None:
        return [(float(x), -float(y)) for y, x in graph.position.reshape(-1, 2).float()]
    import networkx

    drawing = networkx.Graph()
    drawing.add_nodes_from(range(len(graph.x)))
    drawing.add_edges_from(graph.edge_index.T.tolist())
    start = networkx.circular_layout(drawing)
    layout = networkx.spring_layout(drawing, pos=start, iterations=400, seed=0)
    return [(float(x), float(y)) for x, y in (layout[node] for node in range(len(graph.x)))]


def draw_weighted(
    axes: Any,
    graph: Any,
    node: torch.Tensor,
    edge: torch.Tensor,
    colours: Callable[[float], Any] | None = None,
    outline: str = "0.35",
    background: str = "white",
) -> None:
    """A graph with a weight in [0, 1] on every node and edge: dark and broad is high.

    Args:
        axes: to draw on.
        graph: of PyG.
        node, edge: the weights `[N]`, `[E]`.
        colours: the colour of a weight, which may be transparent.
        outline, background: colours of a node's outline, and under a transparent one.
    """
    import matplotlib

    colours = colours or matplotlib.colormaps[COLOURS]
    positions = node_positions(graph)
    _draw_edges(axes, graph, positions, [(colours(0.3 + 0.7 * weight), 0.8 + 3 * weight) for weight in edge.tolist()])
    x, y = zip(*positions, strict=True)
    fill = [colours(weight) for weight in node.tolist()]
    axes.scatter(x, y, s=90, color=background, linewidths=0, zorder=2)
    axes.scatter(x, y, s=90, color=fill, edgecolors=outline, linewidths=0.8, zorder=3)
    _hide_frame(axes)


def draw_graph(axes: Any, graph: Any) -> None:
    """A plain graph: its truth in green where that is known, its colour where a node has one."""
    positions = node_positions(graph)
    coloured = graph.x.is_floating_point() and graph.x.shape[1] == 3
    if not coloured:
        _draw_edges(axes, graph, positions, [("0.6", 0.9)] * graph.edge_index.shape[1])
    fill: Any = graph.x.clamp(0, 1).tolist() if coloured else "0.85"
    if not coloured and graph.get("node_truth") is not None:
        fill = ["tab:green" if stable else "khaki" for stable in graph.node_truth.tolist()]
    size = 60 if coloured else 36
    axes.scatter(*zip(*positions, strict=True), c=fill, s=size, edgecolors="0.4", linewidths=0.6, zorder=2)
    _hide_frame(axes)


def _draw_edges(axes: Any, graph: Any, positions: list[tuple[float, float]], looks: list[tuple[Any, float]]) -> None:
    """A line for each undirected edge; `looks` has a colour and a line width for each directed one."""
    for (u, v), (colour, width) in zip(graph.edge_index.T.tolist(), looks, strict=True):
        if u < v:
            axes.plot(*zip(positions[u], positions[v], strict=True), color=colour, linewidth=width, zorder=1)


def draw_molecule(axes: Any, smiles: str) -> None:
    """A molecule as RDKit draws it."""
    from rdkit.Chem.Draw import rdMolDraw2D

    from outland.chem.featurizer import parse

    molecule = parse(smiles, lenient=True)
    drawer = rdMolDraw2D.MolDraw2DCairo(400, 320)
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    except ValueError:  # it cannot be kekulized
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    import matplotlib.image

    axes.imshow(matplotlib.image.imread(io.BytesIO(drawer.GetDrawingText()), format="png"))


def _hide_frame(axes: Any) -> None:
    axes.set(xticks=[], yticks=[], frame_on=False)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
