"""A few graphs of each part and training environment in one picture: what shifts, for the eye."""

from pathlib import Path
from typing import Any

import torch

from outland.datasets import DataFolder, Dataset
from outland.graphs import Splits
from outland.report.drawing import draw_graph, draw_molecule, pyplot, save_figure

_EACH = 4
_MOST_ENVIRONMENTS = 10


def draw_gallery(dataset: Dataset, splits: Splits, path: Path, data: Path | None = None) -> None:
    """Draw some graphs of each training environment, then of every other part, one row each."""
    plt = pyplot()
    rows = _rows(splits)
    figure, axes = plt.subplots(
        len(rows), _EACH, figsize=(2.4 * _EACH, 2.3 * len(rows)), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for place, (title, index) in enumerate(rows):
        graphs = splits.graphs.select(index)
        smiles = dataset.smiles(graphs, DataFolder(data))
        for column, graph in enumerate(graphs.to_data_list()):
            axis = axes[place][column]
            if smiles is not None:
                draw_molecule(axis, smiles[column])
            else:
                draw_graph(axis, graph)
            axis.set_title(f"{title}\n{_label(graph, splits)}" if column == 0 else _label(graph, splits), fontsize=9)
    source = splits.source
    kind = "no" if source.get("kind") == "none" else source.get("kind", "")
    name = f"{source.get('dataset', '')}, split by {source.get('domain', '')}, {kind}"
    extra = f" ({splits.source['superpixels']} superpixels)" if "superpixels" in splits.source else ""
    figure.suptitle(f"{name} shift{extra}")
    save_figure(figure, path, 100)
    plt.close(figure)


def _rows(splits: Splits) -> list[tuple[str, torch.Tensor]]:
    """Titles and graphs: the training part by environment, the other parts as they are."""
    train, rows = splits["train"], []
    environment = splits.graphs.environment
    if environment is None or splits.schema.environments < 2:
        rows.append(("train", train[:_EACH]))
    else:
        for number in environment[train].unique().tolist()[:_MOST_ENVIRONMENTS]:
            rows.append((f"train, environment {number}", train[environment[train] == number][:_EACH]))
    rows += [(part, index[:_EACH]) for part, index in splits.parts.items() if part != "train"]
    return rows


def _label(graph: Any, splits: Splits) -> str:
    values = graph.y.flatten().tolist()
    names = splits.source.get("classes") or []
    if splits.schema.task.kind == "multiclass":
        return str(names[int(values[0])]) if names else f"class {int(values[0])}"
    shown = ["?" if value != value else f"{value:g}" for value in values]
    return "label " + " ".join(shown[:4]) + (" …" if len(shown) > 4 else "")
