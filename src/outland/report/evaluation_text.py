"""The scores of a model on labelled graphs, in a table and in sentences."""

from collections.abc import Sequence

import torch
from rich.table import Table

from outland.graphs import PackedGraphs
from outland.models import PartScore, TrainedModel
from outland.models.messages import METRICS, format_score
from outland.tables.duplicates import training_rows_note


def evaluation_table(model: TrainedModel, scores: Sequence[PartScore], data: str) -> Table:
    """A row for each target: rows with a label, score, interval, and how probabilities compare with labels."""
    metric = scores[0].metric
    unit = "" if metric == "rmse" else ", in %"
    headers = ["target", "rows", f"{METRICS[metric]}{unit}", "95% interval"]
    headers += ["mean probability", "observed"] if model.classes else ["RMSE of the training mean"]
    table = Table(*headers, title=f"{model.method.name} on {data}")
    for score in scores:
        low, high = (format_score(number, metric) for number in (score.score.low, score.score.high))
        interval = "–" if score.score.low is None else f"{low} to {high}"
        cells = [score.target, f"{score.rows:,}", format_score(score.score.value, metric), interval]
        if score.calibration is not None:
            check = score.calibration
            cells += [f"{check.mean_probability:.1%}", f"{check.observed_rate:.1%}"]
        else:
            cells += ["–", "–"] if model.classes else [format_score(score.mean_error, "rmse")]
        table.add_row(*cells)
    return table


def evaluation_notes(model: TrainedModel, graphs: PackedGraphs, scores: Sequence[PartScore]) -> list[str]:
    """Targets with too few rows to judge, and rows that the model was trained on."""
    notes = [f"{score.target}: the rows are {score.too_few}." for score in scores if score.too_few]
    if "hash" in graphs.extra and len(model.training_hashes):
        seen = int(torch.isin(graphs.extra["hash"], model.training_hashes).sum())
        note = training_rows_note(seen, len(graphs))
        notes += [f"{note}."] if note else []
    return notes
