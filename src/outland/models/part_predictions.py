"""Predictions for a dataset's part, as a CSV file."""

import time
from pathlib import Path

from outland.datasets import DataFolder
from outland.graphs import Cache, PackedGraphs
from outland.models.explained_rows import label_text
from outland.models.model import TrainedModel
from outland.models.named_graphs import load_part
from outland.models.predicted_rows import Coverage, new_columns, predict_rows, target_suffixes
from outland.models.table_predictions import TableReport, check_out, count_prediction, written_csv


def predict_part(
    model: TrainedModel,
    name: str,
    out: Path,
    *,
    force: bool = False,
    cache: Cache | None = None,
    data: DataFolder | None = None,
    coverage: float | None = None,
) -> tuple[TableReport, PackedGraphs]:
    """Write a row for each graph of a part: its index, its labels and predictions; the graphs are returned too.

    Args:
        model: of these graphs.
        name: PART of the model's own dataset, or DATASET/DOMAIN:PART.
        out: a CSV file; gzip'd if its name ends in `.gz`.
        force: replace `out` if it exists.
        coverage: as of `predict_table`.
        cache, data: where the dataset is loaded from.
    """
    started = time.perf_counter()
    check_out(out, force)
    asked = Coverage(coverage)
    asked.check(model)
    graphs = load_part(model, name, cache, data)
    report = TableReport(out, rows=len(graphs))
    names = [f"label{suffix}" for suffix in target_suffixes(model)]
    with written_csv(out, ["graph", *names, *new_columns(model, asked)]) as writer:
        for index, prediction in enumerate(predict_rows(model, graphs, asked)):
            count_prediction(model, prediction, report, index)
            labels = {name: label_text(model, graphs, index, target) for target, name in enumerate(names)}
            writer.writerow({"graph": str(index), **labels, **prediction})
    report.seconds = time.perf_counter() - started
    return report, graphs
