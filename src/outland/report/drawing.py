"""Pictures by matplotlib: parts of a dataset, masks of a method, two tables on one map; and a weighted graph."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from outland.chem.featurizer import parse
from outland.datasets import DataFolder, Dataset
from outland.errors import unknown
from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.shift.novelty import Novelty
from outland.storage.files import write_bytes

_COLOURS = "YlGn"
_GRAPHS = 4  # a row of a gallery
_MAX_ENVIRONMENTS = 10


def _new_figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure of rows × columns axes of this size in inches, and the axes `[rows, columns]`."""
    from matplotlib.figure import Figure

    figure = Figure((size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format of the file's suffix, whole or not at all."""
    valid, kind = figure.canvas.get_supported_filetypes(), path.suffix[1:].lower()
    if kind not in valid:
        raise unknown("picture format", path.suffix or path.name, [f".{name}" for name in valid])
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=dpi)
    write_bytes(path, picture.getvalue())


def _node_positions(graph: Any) -> list[tuple[float, float]]:
    """Where to draw each node of a PyG graph: at its `position` if it has one, else by a spring layout."""
    if graph.get("position") is not None:
        return [(float(x), -float(y)) for y, x in graph.position.reshape(-1, 2).float()]
    import networkx

    drawing = networkx.Graph()
    drawing.add_nodes_from(range(len(graph.x)))
    drawing.add_edges_from(graph.edge_index.T.tolist())
    layout = networkx.spring_layout(drawing, pos=networkx.circular_layout(drawing), iterations=400, seed=0)
    return [(float(layout[node][0]), float(layout[node][1])) for node in range(len(graph.x))]


def draw_weighted(
    axes: Any,
    graph: Any,
    node: torch.Tensor,
    edge: torch.Tensor,
    colours: Callable[[float], Any] | None = None,
    outline: str = "0.35",
    background: str = "white",
) -> None:
    """Draw a PyG graph with a weight in [0, 1] on every node `[N]` and edge `[E]`: dark and broad is high.

    `colours` gives the colour of a weight; it may be transparent, and `background` is the colour under such a node.
    """
    import matplotlib

    colours = colours or matplotlib.colormaps[_COLOURS]
    positions = _node_positions(graph)
    _draw_edges(axes, graph, positions, [(colours(0.3 + 0.7 * weight), 0.8 + 3 * weight) for weight in edge.tolist()])
    x, y = zip(*positions, strict=True)
    fill = [colours(weight) for weight in node.tolist()]
    axes.scatter(x, y, s=90, color=background, linewidths=0, zorder=2)
    axes.scatter(x, y, s=90, color=fill, edgecolors=outline, linewidths=0.8, zorder=3)
    _hide_frame(axes)


def draw_coloured(axes: Any, graph: Any, fill: list[str]) -> None:
    """Draw a PyG graph with these colours of its nodes."""
    positions = _node_positions(graph)
    _draw_edges(axes, graph, positions, [("0.6", 1.2)] * graph.edge_index.shape[1])
    axes.scatter(*zip(*positions, strict=True), s=90, color=fill, edgecolors="0.35", linewidths=0.8, zorder=2)
    _hide_frame(axes)


def _draw_graph(axes: Any, graph: Any) -> None:
    """A plain graph: its truth in green where that is known, its colour where a node has one."""
    positions = _node_positions(graph)
    coloured = graph.x.is_floating_point() and graph.x.shape[1] == 3
    if not coloured:
        _draw_edges(axes, graph, positions, [("0.6", 0.9)] * graph.edge_index.shape[1])
    fill: Any = graph.x.clamp(0, 1).tolist() if coloured else "0.85"
    if not coloured and graph.get("node_truth") is not None:
        fill = ["tab:green" if stable else "khaki" for stable in graph.node_truth.tolist()]
    axes.scatter(
        *zip(*positions, strict=True), c=fill, s=60 if coloured else 36, edgecolors="0.4", linewidths=0.6, zorder=2
    )
    _hide_frame(axes)


def _draw_edges(axes: Any, graph: Any, positions: list[tuple[float, float]], looks: list[tuple[Any, float]]) -> None:
    """A line for each undirected edge; `looks` has a colour and a line width for each directed one."""
    for (u, v), (colour, width) in zip(graph.edge_index.T.tolist(), looks, strict=True):
        if u < v:
            axes.plot(*zip(positions[u], positions[v], strict=True), color=colour, linewidth=width, zorder=1)


def _draw_molecule(axes: Any, smiles: str) -> None:
    import matplotlib.image
    from rdkit.Chem.Draw import rdMolDraw2D

    molecule = parse(smiles, lenient=True)
    drawer = rdMolDraw2D.MolDraw2DCairo(400, 320)
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    except ValueError:  # it cannot be kekulized
        rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    axes.imshow(matplotlib.image.imread(io.BytesIO(drawer.GetDrawingText()), format="png"))


def _hide_frame(axes: Any) -> None:
    axes.set(xticks=[], yticks=[], frame_on=False)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)


def draw_gallery(dataset: Dataset, splits: Splits, path: Path, data: Path | None = None) -> None:
    """Draw some graphs of each training environment, then of every other part, one row each."""
    rows = _gallery_rows(splits)
    no_ticks: dict[str, Any] = {"xticks": [], "yticks": []}  # they are laid out even where axes are off
    figure, axes = _new_figure(len(rows), _GRAPHS, (2.4, 2.3), subplot_kw=no_ticks)
    for panel in axes.flat:
        panel.set_axis_off()
    for row, (title, index) in enumerate(rows):
        graphs = splits.graphs.select(index)
        smiles = dataset.smiles(graphs, DataFolder(data))
        for column, graph in enumerate(graphs.to_data_list()):
            panel = axes[row][column]
            if smiles is not None:
                _draw_molecule(panel, smiles[column])
            else:
                _draw_graph(panel, graph)
            lines = [title, _label(graph, splits)] if column == 0 else [_label(graph, splits)]
            panel.set_title("\n".join(lines), fontsize=9, parse_math=False)
    source = splits.source
    kind = "no" if source.get("kind") == "none" else source.get("kind", "")
    name = f"{source.get('dataset', '')}, split by {source.get('domain', '')}, {kind}"
    extra = f" ({source['superpixels']} superpixels)" if "superpixels" in source else ""
    figure.suptitle(f"{name} shift{extra}")
    _save_figure(figure, path, 100)


def _gallery_rows(splits: Splits) -> list[tuple[str, torch.Tensor]]:
    """Titles and graphs: the training part by environment, the other parts as they are."""
    train, rows = splits["train"], []
    environment = splits.graphs.environment
    if environment is None or splits.schema.environments < 2:
        rows.append(("train", train[:_GRAPHS]))
    else:
        for number in environment[train].unique().tolist()[:_MAX_ENVIRONMENTS]:
            rows.append((f"train, environment {number}", train[environment[train] == number][:_GRAPHS]))
    rows += [(part, index[:_GRAPHS]) for part, index in splits.parts.items() if part != "train"]
    return rows


def _label(graph: Any, splits: Splits) -> str:
    values = graph.y.flatten().tolist()
    names = splits.source.get("classes") or []
    if splits.schema.task.kind == "multiclass":
        return str(names[int(values[0])]) if names else f"class {int(values[0])}"
    shown = ["?" if value != value else f"{value:g}" for value in values]
    return "label " + " ".join(shown[:4]) + (" …" if len(shown) > 4 else "")


def draw_masks(methods: Mapping[str, Method], splits: Splits, index: torch.Tensor, path: Path) -> None:
    """Draw the graphs at `index` to `path`, one row each: the true motif, then the masks of each method by its label.

    A panel says what its method predicts; with several methods only their stable masks are drawn.
    """
    from matplotlib.cm import ScalarMappable

    batch = next(iter(Batches(splits.graphs, index, len(index))))
    masks: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    predicted: dict[str, list[int]] = {}
    for label, method in methods.items():
        with torch.inference_mode():
            by_name = method.eval().masks(batch)
            calls = method(batch).argmax(1).tolist()
        for name in list(by_name)[: 1 if len(methods) > 1 else None]:
            title = f"{label}: {name} mask" if label else name
            masks[title], predicted[title] = (by_name[name].node.cpu(), by_name[name].edge.cpu()), calls
    selected = splits.graphs.select(index)
    if selected.node_truth is not None and selected.edge_truth is not None:
        masks = {"true motif": (selected.node_truth.float(), selected.edge_truth.float()), **masks}
    data = selected.to_data_list()
    figure, axes = _new_figure(len(data), len(masks), (3.1, 2.9))
    node_counts, edge_counts = selected.node_counts.tolist(), selected.edge_counts.tolist()
    for column, (name, (node, edge)) in enumerate(masks.items()):
        parts = zip(data, node.split(node_counts), edge.split(edge_counts), strict=True)
        for row, (graph, node_part, edge_part) in enumerate(parts):
            panel = axes[row][column]
            draw_weighted(panel, graph, node_part, edge_part)
            if row == 0:
                panel.set_title(name)
            if column == 0:
                panel.set_ylabel(f"label {int(graph.y)}")
            if name in predicted:
                panel.set_xlabel(f"predicted {predicted[name][row]}")
    figure.colorbar(ScalarMappable(cmap=_COLOURS), ax=axes, label="mask", shrink=0.5)
    _save_figure(figure, path, 110)


def draw_map(novelty: Novelty, names: tuple[str, str], path: Path) -> None:
    """Draw each table in a panel of its own, over the other one in pale."""
    figure, axes = _new_figure(1, 2, (5, 4.8), sharex=True, sharey=True)
    for number, (panel, name, colour) in enumerate(zip(axes[0], names, ("tab:gray", "tab:green"), strict=True)):
        points, others = novelty.coordinates[number], novelty.coordinates[1 - number]
        panel.scatter(*others.T, s=7, color="0.88", linewidths=0)
        panel.scatter(*points.T, s=9, color=colour, alpha=0.55, linewidths=0)
        panel.set_title(f"{name} ({len(points):,} molecules)", fontsize=11, parse_math=False)
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_color("0.8")
    figure.suptitle(
        f"Morgan fingerprints on their two main directions ({novelty.explained_variance:.0%} of their variance); "
        "pale: the other table",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    _save_figure(figure, path, 130)
