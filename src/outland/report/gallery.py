"""A picture of a few graphs of each part and training environment of a dataset."""

from pathlib import Path
from typing import Any

import torch

from outland.datasets import DataFolder, Dataset
from outland.graphs import Splits
from outland.report.drawing import draw_graph, draw_molecule, new_figure, save_figure

_GRAPHS = 4  # a row
_MAX_ENVIRONMENTS = 10


def draw_gallery(dataset: Dataset, splits: Splits, path: Path, data: Path | None = None) -> None:
    """Draw some graphs of each training environment, then of every other part, one row each."""
    rows = _rows(splits)
    figure, axes = new_figure(len(rows), _GRAPHS, (2.4, 2.3))
    for panel in axes.flat:
        panel.set_axis_off()
    for row, (title, index) in enumerate(rows):
        graphs = splits.graphs.select(index)
        smiles = dataset.smiles(graphs, DataFolder(data))
        for column, graph in enumerate(graphs.to_data_list()):
            panel = axes[row][column]
            if smiles is not None:
                draw_molecule(panel, smiles[column])
            else:
                draw_graph(panel, graph)
            panel.set_title(
                f"{title}\n{_label(graph, splits)}" if column == 0 else _label(graph, splits),
                fontsize=9,
                parse_math=False,
            )
    source = splits.source
    kind = "no" if source.get("kind") == "none" else source.get("kind", "")
    name = f"{source.get('dataset', '')}, split by {source.get('domain', '')}, {kind}"
    extra = f" ({splits.source['superpixels']} superpixels)" if "superpixels" in splits.source else ""
    figure.suptitle(f"{name} shift{extra}")
    save_figure(figure, path, 100)


def _rows(splits: Splits) -> list[tuple[str, torch.Tensor]]:
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
