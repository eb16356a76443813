"""Scores of runs and models on the terminal, and what predicting gave, in tables and sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.table import Table

from outland.errors import counted, listed
from outland.graphs import PackedGraphs
from outland.models import PartScore, TrainedModel
from outland.models.conformal import COVERAGE
from outland.models.messages import METRICS, class_sentence, format_score
from outland.models.predicted_rows import target_suffixes
from outland.models.table_predictions import TableReport
from outland.models.uncertainty import has_flags
from outland.progress import echo, screen
from outland.tables.duplicates import training_rows_note
from outland.training import RunRecord


def print_record(record: RunRecord, folder: Path) -> None:
    """Print the scores of every part under every rule, and where the record is."""
    parts = [part for part in ("id_val", "id_test", "val", "test") if part in record.selection[record.selected]]
    unit = "" if record.metric == "rmse" else ", in %"
    table = Table("chosen by", "epoch", *parts, title=f"{record.metric}{unit}")
    for name, row in record.selection.items():
        scores = [format_score(row[part], record.metric) for part in parts]
        table.add_row(f"{name} *" if name == record.selected else name, str(row["epoch"]), *scores)
    shown = screen(soft_wrap=True)
    shown.print(table)
    shown.print(
        f"* the saved model; {record.parameters['total']:,} parameters; trained in {record.timing['seconds']:.0f} s"
    )
    if "superpixels" in record.data:
        shown.print(f"on {record.data['superpixels']} superpixels")
    echo(f"record: {folder / 'record.json'}")


def prediction_lines(model: TrainedModel, report: TableReport, coverage: float | None = None) -> list[str]:
    """How many rows there were, what could not be read, what rows were called and how unusual they are."""
    readable = report.rows - report.bad
    lines = [f"{report.out}: {counted(report.rows, 'row')} in {report.seconds:.0f} s; {report.bad:,} cannot be read"]
    lines += problem_lines(report.problems, report.first)
    several = len(model.targets) > 1
    for target, classes in report.classes.items():
        names = ", ".join(f"{name} {count:,}" for name, count in sorted(classes.items()))
        lines.append(f"called{f' ({target})' if several else ''}: {names}")
    if len(model.classes) == 2 and not several:
        lines.append(f"outland_probability is of '{model.classes[1]}'; a row is called so above one half")
    elif len(model.classes) == 2:
        lines.append(f"outland_probability_TARGET is of '{model.classes[1]}'")
    if has_flags(model):
        flags = ", ".join(f"{flag} {report.flags[flag]:,}" for flag in ("near", "edge", "far"))
        lines.append(f"flags: {flags} of {readable:,}")
    if model.conformal is not None and (coverage is not None or not model.classes):
        names = "outland_set holds the class" if model.classes else "outland_low and outland_high hold the number"
        weighted = ", weighted for the shift from training" if report.weighted else ""
        lines.append(f"{names} in {coverage or COVERAGE:.0%} of rows like those it was measured on{weighted}")
        lines += _always_inside(model, coverage or COVERAGE)
    return lines + training_rows_notes(report.training_rows, report.rows)


def _always_inside(model: TrainedModel, coverage: float) -> list[str]:
    """Which classes have too few rows for such sets, and so are in all of them."""
    if model.conformal is None or not model.classes:
        return []
    needed = round(coverage / (1 - coverage), 6)
    few = []
    for target, suffix in enumerate(target_suffixes(model)):
        known = model.conformal.labels[model.conformal.scores[:, target].isfinite(), target]
        counts = torch.bincount(known, minlength=len(model.classes)).tolist()
        of = f" ({suffix[1:]})" if suffix else ""
        few += [f"{name}{of}" for name, count in zip(model.classes, counts, strict=True) if count < needed]
    return [f"too few rows for that are of {listed(few)}, which every set holds"] if few else []


def problem_lines(problems: Counter[str], first: Mapping[str, int]) -> list[str]:
    """The three commonest reasons for which rows cannot be used, each with its first row, counted from 1."""
    commonest = problems.most_common(3)
    lines = [f"  {counted(count, 'row')}: {reason} (first: row {first[reason]:,})" for reason, count in commonest]
    others = len(problems) - len(commonest)
    rest = problems.total() - sum(count for _, count in commonest)
    return lines + ([f"  {counted(rest, 'row')} for {counted(others, 'other reason')}"] if others else [])


def evaluation_table(model: TrainedModel, scores: Sequence[PartScore], data: str) -> Table:
    """A row for each target: rows with a label, score, interval, and how probabilities compare with labels."""
    metric = scores[0].metric
    unit = "" if metric == "rmse" else ", in %"
    headers = ["target", "rows", f"{METRICS[metric]}{unit}", "95% interval"]
    headers += ["mean probability", "observed"] if model.classes else ["RMSE of the training mean"]
    headers += ["commonest class"] if len(model.classes) > 2 else []
    table = Table(*headers, title=f"{model.name} on {data}")
    for score in scores:
        low, high = (format_score(number, metric) for number in (score.score.low, score.score.high))
        interval = "–" if score.score.low is None else f"{low} to {high}"
        cells = [score.target, f"{score.rows:,}", format_score(score.score.value, metric), interval]
        if score.calibration is not None:
            cells += [f"{score.calibration.mean_probability:.1%}", f"{score.calibration.observed_rate:.1%}"]
        else:
            cells += ["–", "–"] if model.classes else [format_score(score.mean_error, "rmse")]
        cells += [format_score(score.common_share, metric)] if len(model.classes) > 2 else []
        table.add_row(*cells)
    return table


def flag_table(model: TrainedModel, scores: Sequence[PartScore]) -> Table:
    """A row for each distance flag and target: rows, score and interval."""
    metric = scores[0].metric
    several = len(model.targets) > 1
    table = Table("flag", *(["target"] if several else []), "rows", METRICS[metric], "95% interval")
    for score in scores:
        low, high = (format_score(number, metric) for number in (score.score.low, score.score.high))
        interval = "–" if score.score.low is None or score.too_few else f"{low} to {high}"
        named = [score.part, *([score.target] if several else [])]
        table.add_row(*named, f"{score.rows:,}", score.too_few or format_score(score.score.value, metric), interval)
    return table


def score_sentence(score: PartScore) -> str:
    """A target's score on the labels that a predicted table has."""
    metric, number = score.metric, score.score
    left_out = f"; {score.left_out}" if score.left_out else ""
    if number.value is None:
        return f"labels of {score.target}: {counted(score.rows, 'row')}, too few to score{left_out}"
    between = (
        "" if number.low is None else f" ({format_score(number.low, metric)} to {format_score(number.high, metric)})"
    )
    unit = "" if metric == "rmse" else " %"
    found = f"{METRICS[metric]} {format_score(number.value, metric)}{unit}{between}"
    few = f"; the rows are {score.too_few}" if score.too_few else ""
    return f"labels of {score.target}: {found} on {counted(score.rows, 'row')}{few}{left_out}"


def evaluation_notes(scores: Sequence[PartScore]) -> list[str]:
    """Targets with too few rows to judge, and rows without a prediction."""
    notes = [f"{score.target}: the rows are {score.too_few}." for score in scores if score.too_few]
    notes += [f"{score.target}: {score.left_out}." for score in scores if score.left_out]
    return notes + [sentence for score in scores if (sentence := class_sentence(score))]


def known_rows_notes(model: TrainedModel, graphs: PackedGraphs) -> list[str]:
    """A sentence on rows of a table that the model was trained on, if there are any: it belongs before their score."""
    if "hash" not in graphs.extra:
        return []
    return training_rows_notes(int(torch.isin(graphs.extra["hash"], model.training_hashes).sum()), len(graphs))


def training_rows_notes(seen: int, rows: int) -> list[str]:
    """A sentence on rows that the model was trained on, if there are any."""
    return [f"{training_rows_note(seen, rows)}."] if seen else []
