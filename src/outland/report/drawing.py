"""Single graphs and molecules drawn on a matplotlib axis."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from outland.errors import OutlandError, unknown

COLOURS = "YlGn"


def pyplot() -> Any:
    """Matplotlib without a screen, or a sentence on how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise OutlandError("pictures need matplotlib: pip install 'outland[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a picture in the format its name asks for."""
    valid = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in valid:
        raise unknown("picture format", path.suffix or path.name, [f".{name}" for name in valid])
    figure.savefig(path, dpi=dpi)


def places(graph: Any) -> Mapping[int, Any]:
    """Where to draw each node of a PyG graph: at its own position if it has one, else by springs."""
    if graph.get("position") is not None:
        position = graph.position.reshape(-1, 2).float()
        return {node: (float(x), -float(y)) for node, (y, x) in enumerate(position)}
    import networkx

    drawing = networkx.Graph()
    drawing.add_nodes_from(range(len(graph.x)))
    drawing.add_edges_from(graph.edge_index.T.tolist())
    start = networkx.circular_layout(drawing)
    found: Mapping[int, Any] = networkx.spring_layout(drawing, pos=start, iterations=400, seed=0)
    return found


def draw_weighted(axis: Any, graph: Any, node: torch.Tensor, edge: torch.Tensor) -> None:
    """A graph with a weight in [0, 1] on every node and edge: dark and broad is high."""
    import matplotlib

    colours, place = matplotlib.colormaps[COLOURS], places(graph)
    for (u, v), weight in zip(graph.edge_index.T.tolist(), edge.tolist(), strict=True):
        if u < v:
            ends = [place[u], place[v]]
            axis.plot(*zip(*ends, strict=True), color=colours(0.3 + 0.7 * weight), linewidth=0.8 + 3 * weight, zorder=1)
    points = [place[i] for i in range(len(node))]
    fill = [colours(weight) for weight in node.tolist()]
    axis.scatter(*zip(*points, strict=True), c=fill, s=90, edgecolors="0.35", linewidths=0.8, zorder=2)
    _tidy(axis)


def draw_graph(axis: Any, graph: Any) -> None:
    """A plain graph: its truth in green where that is known, its colour where a node has one."""
    place = places(graph)
    points = [place[i] for i in range(len(graph.x))]
    coloured = graph.x.is_floating_point() and graph.x.shape[1] == 3
    if not coloured:
        for u, v in graph.edge_index.T.tolist():
            if u < v:
                axis.plot(*zip(place[u], place[v], strict=True), color="0.6", linewidth=0.9, zorder=1)
    fill: Any = graph.x.clamp(0, 1).tolist() if coloured else "0.85"
    if not coloured and graph.get("node_truth") is not None:
        fill = ["tab:green" if stable else "khaki" for stable in graph.node_truth.tolist()]
    axis.scatter(
        *zip(*points, strict=True), c=fill, s=60 if coloured else 36, edgecolors="0.4", linewidths=0.6, zorder=2
    )
    _tidy(axis)


def draw_molecule(axis: Any, smiles: str) -> None:
    """A molecule as RDKit draws it."""
    from rdkit.Chem.Draw import rdMolDraw2D

    from outland.chem.featurizer import parse

    molecule = parse(smiles, lenient=True)
    drawer = rdMolDraw2D.MolDraw2DCairo(400, 320)
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    except ValueError:  # no alternation of single and double bonds fits
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    import matplotlib.image

    axis.imshow(matplotlib.image.imread(io.BytesIO(drawer.GetDrawingText()), format="png"))


def _tidy(axis: Any) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.12)
    for side in axis.spines.values():
        side.set_visible(False)
