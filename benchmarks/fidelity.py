"""How faithful explanations by edges are to the models they explain: curves of deletion and insertion.

    outland train motif --method cal --out runs
    python benchmarks/fidelity.py --model runs/motif-... --model runs/molbbbp-... --picture fidelity.png

Edges of a part's graphs are removed in the order of an explanation (deletion), or put back in that order (insertion),
and the probability of the predicted class falls. An area under the first should be large, under the second small.
Explanations are the stable mask that a method has learned, PyG's GNNExplainer, the occlusion of single edges, and
random orders; where the edges that decide are known, these too. 95% intervals are over graphs, and what is better than
random is paired. Models are networks of one label with classes, as `outland train` writes them; what the JSON holds of
other models is shown beside them, and without --model alone.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.graphs.edges import graphs_of_rows
from outland.models import TrainedModel, load_model
from outland.models.edge_curves import (
    SHARES,
    EdgeCurve,
    EdgeCurves,
    class_logits,
    edge_curves,
    leave_one_out,
    partners,
    random_curves,
)
from outland.models.explanations import stable_mask
from outland.models.gnn_explainer import EPOCHS, gnn_explainer
from outland.models.named_graphs import load_part, part_title
from outland.training.mask_quality import graph_scores

OUT = Path(__file__).parent / "fidelity.json"
RANDOM = "random order"
COLOURS = {
    "stable mask": "#0f6b62",
    "GNNExplainer": "#b0742b",
    "leave one out": "#6757a3",
    "true edges": "#a3486b",
    RANDOM: "#8f98a3",
}
QUIET = "#6d685f"
Explainer = Callable[[PackedGraphs], Tensor]  # a score of each directed edge [E]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", type=Path, action="append", default=[], metavar="DIR")
    arguments.add_argument("--part", default="test", help="of each model's dataset, or DATASET/DOMAIN:PART")
    arguments.add_argument("--graphs", type=int, default=200, help="drawn from the part")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--epochs", type=int, default=EPOCHS, help="of GNNExplainer; report it with 500 too")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--out", type=Path, default=OUT)
    arguments.add_argument("--picture", type=Path, help="PNG, SVG or PDF")
    given = arguments.parse_args()
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    for folder in given.model:
        model = load_model(folder, given.device)
        results[folder.name] = measure(model, given.part, given.graphs, given.seed, given.epochs)
        given.out.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    if given.picture:
        draw(results, given.picture)


def measure(model: TrainedModel, part: str, most: int, seed: int, epochs: int) -> dict[str, Any]:
    """Areas, curves, ROC-AUC and times of all explanations of a model."""
    graphs = load_part(model, part)
    drawn = np.random.default_rng(seed).choice(len(graphs), min(most, len(graphs)), replace=False)
    graphs, predict = graphs.select(torch.from_numpy(np.sort(drawn))), class_logits(model)
    random = random_curves(predict, graphs, np.random.default_rng(seed))
    measured = {}
    for name, explain in explainers(model, epochs, seed).items():
        explain(graphs.select(torch.arange(min(8, len(graphs)))))  # a GPU's kernels are made once
        started = time.perf_counter()
        score = explain(graphs)
        seconds = (time.perf_counter() - started) / len(graphs)
        curves = edge_curves(predict, graphs, score, np.random.default_rng(seed))
        measured[name] = {**summary(curves, random), "rocauc": rocauc(graphs, score), "seconds": seconds}
    if graphs.edge_truth is not None:
        curves = edge_curves(predict, graphs, graphs.edge_truth.float(), np.random.default_rng(seed))
        measured["true edges"] = summary(curves, random)
    measured[RANDOM] = summary(random, random)
    settings = {"graphs": len(graphs), "seed": seed, "gnn_explainer_epochs": epochs, "device": str(model.device)}
    names = {"method": model.name, "training_seed": model.spec.seed, "part": part_title(model, part)}
    return {**names, **settings, "shares": SHARES, "explanations": measured}


def explainers(model: TrainedModel, epochs: int, seed: int) -> dict[str, Explainer]:
    """Those that the model can have."""
    method = model.method
    if method is None or len(model.members) > 1:
        raise OutlandError(f"explanations by edges are of one network, and this model is {model.name}")
    masks = {"stable mask": lambda graphs: torch.cat(stable_mask(model, graphs)[1])} if method.has_masks else {}
    return {
        **masks,
        "GNNExplainer": lambda graphs: gnn_explainer(method, graphs, epochs, seed),
        "leave one out": lambda graphs: leave_one_out(class_logits(model), graphs),
    }


def summary(curves: EdgeCurves, random: EdgeCurves) -> dict[str, Any]:
    """Areas with intervals, and mean curves."""

    def means(curve: EdgeCurve) -> dict[str, list[float]]:
        return {"fall": curve.fall.mean(0).tolist(), "kept": curve.kept.mean(0).tolist()}

    return {
        "areas": curves.intervals(random),
        "deletion": means(curves.deletion),
        "insertion": means(curves.insertion),
    }


def rocauc(graphs: PackedGraphs, score: Tensor) -> float | None:
    """Of the scores against the true edges, mean over graphs that have both kinds; None where there is no truth."""
    if graphs.edge_truth is None:
        return None
    graph, both = graphs_of_rows(graphs.edge_counts), score + score[partners(graphs)]
    auc, _, counts = graph_scores(both, graphs.edge_truth, graph, len(graphs))
    return float((auc * counts).sum() / counts.sum().clamp(min=1))


def table(results: dict[str, Any]) -> str:
    """All areas, as Markdown."""
    columns = ("model", "explanation", "deletion ↑", "better than random", "insertion ↓", "better than random")
    lines = ["| " + " | ".join((*columns, "ROC-AUC", "s a graph")) + " |", "|---" * 8 + "|"]
    for result in results.values():
        for name, measured in result["explanations"].items():
            cells = [f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in measured["areas"].values()]
            if name == RANDOM:
                cells[1] = cells[3] = ""
            auc, seconds = measured.get("rocauc"), measured.get("seconds")
            cells += ["" if auc is None else f"{auc:.3f}", "" if seconds is None else f"{seconds:.2g}"]
            lines.append(f"| {title(result)} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def title(result: dict[str, Any]) -> str:
    return f"{result['method']}, seed {result['training_seed']}, {result['part']}"


def draw(results: dict[str, Any], path: Path) -> None:
    """A row of two panels for each model: deletion and insertion."""
    from matplotlib.figure import Figure

    figure = Figure((8, 0.6 + 2.4 * len(results)), layout="constrained")
    axes = figure.subplots(len(results), 2, squeeze=False, sharex=True, sharey="row")
    for row, result in zip(axes, results.values(), strict=True):
        for panel, curve in zip(row, ("deletion", "insertion"), strict=True):
            draw_panel(panel, result, curve)
        row[0].set_title(title(result), loc="left", fontsize=10)
        row[0].set_ylabel("fall of the probability", color=QUIET)
    for panel, label in zip(axes[-1], ("edges removed", "edges put back"), strict=True):
        panel.set_xlabel(f"{label}, the most important first (%)", color=QUIET)
    handles = {handle.get_label(): handle for panel in axes.flat for handle in panel.get_legend_handles_labels()[0]}
    shown = [name for name in COLOURS if name in handles]
    lines = [handles[name] for name in shown]
    figure.legend(lines, shown, loc="outside upper center", ncols=len(shown), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_panel(panel: Any, result: dict[str, Any], curve: str) -> None:
    """The mean falls of all explanations."""
    x = [100 * share for share in result["shares"]]
    for name, measured in result["explanations"].items():
        style = (0, (3, 2.4)) if name == RANDOM else "-"
        panel.plot(x, measured[curve]["fall"], color=COLOURS[name], linestyle=style, linewidth=1.8, label=name)
    panel.axhline(0, color="#b5afa4", linewidth=0.8, zorder=1)
    panel.grid(axis="y", color="#e4dfd5")
    panel.set_axisbelow(True)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0, colors=QUIET)
    panel.margins(x=0.01)


if __name__ == "__main__":
    main()
