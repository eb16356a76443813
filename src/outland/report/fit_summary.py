"""What came out of a fit, in plain words."""

from pathlib import Path

from rich.table import Table

from outland.errors import counted, listed
from outland.estimators.fitting import FitResult
from outland.models import PartScore
from outland.models.comparison import Comparison
from outland.models.comparison_text import contender_label, format_difference, format_interval
from outland.models.messages import (
    METRICS,
    calibration_sentence,
    class_sentence,
    format_score,
    rare_classes,
    rare_sentence,
)

_HELD_OUT = {"scaffold": "scaffolds", "cluster": "clusters of molecules", "size": "sizes", "time": "times"}
_MISCALIBRATED = 0.1  # expected calibration error from which probabilities are only a ranking


def contender_table(comparison: Comparison) -> Table:
    """The contenders on the same held-out rows, the least loss first."""
    metric = comparison.metric
    unit = "" if metric == "rmse" else ", in %"
    loss = "squared error" if metric == "rmse" else "log-loss"
    before = ", before calibration" if metric == "accuracy" else ""
    title = f"{counted(comparison.rows, 'molecule')} held out in {counted(comparison.folds, 'fold')}{before}"
    columns = [f"{METRICS[metric]}{unit} (95% interval)", "against what is delivered", loss, "share", "training"]
    table = Table("contender", *columns, title=title)
    for score in comparison.contenders:
        share = "" if score.weight is None else f"{score.weight:.0%}"
        delivered = score.name == comparison.delivered
        table.add_row(
            contender_label(score),
            format_interval(score.score, metric),
            "delivered" if delivered else format_difference(score.difference, metric),
            f"{score.loss:.3f}",
            share,
            f"{score.seconds:.0f} s" if score.seconds else "",
            style="bold" if delivered else None,
        )
    return table


def summary_sentences(result: FitResult, folder: Path, table: str) -> list[str]:
    """How good the model is, what it is made of and why, how long it took, what to do next, and an advice."""
    model, assessment = result.model, result.model.assessment
    assert assessment is not None
    sentences = []
    for score in assessment.of("test"):
        calibration = calibration_sentence(score, model.spec.domain, model.classes)
        lines = [_quality(result, score), calibration, class_sentence(score)]
        sentences += [f"{score.target}: {line}" if len(model.targets) > 1 else line for line in lines if line]
    sentences += filter(None, [rare_sentence(model)])
    if assessment.comparison is not None:
        sentences += _choice(assessment.comparison)
    return [
        *sentences,
        f"Took {result.seconds:.0f} s; the model has seen all {model.training.graphs['train']:,} rows.",
        f"Model: {folder} (its card is {folder / 'README.md'})",
        "Next:",
        *_next_commands(result, folder, table),
        f"Advice: {advice(result)}",
    ]


def _choice(comparison: Comparison) -> list[str]:
    """What was delivered and why, and what was left out for want of time."""
    lines = [f"Delivered: {comparison.reason}."]
    left_out = comparison.left_out | comparison.failed
    lines += [f"Left out: {name} ({reason})." for name, reason in left_out.items()]
    if comparison.notes:
        lines.append(f"For want of time, {'; '.join(comparison.notes)}.")
    return lines


def _next_commands(result: FitResult, folder: Path, table: str) -> list[str]:
    answer = "a probability" if result.model.classes else "a prediction"
    commands = {
        f"outland predict {folder} NEW.csv": f"{answer} for each new molecule, and how far to trust it",
        f"outland explain {folder} {table}": "which atoms each prediction rests on",
        f"outland evaluate {folder} NEW.csv": "its score on new labels",
        f"outland shift --model {folder} NEW.csv": "how far the new molecules are",
    }
    width = max(map(len, commands))
    return [f"  {command:<{width}}  # {what}" for command, what in commands.items()]


def _beyond(result: FitResult, rows: int) -> str:
    """Which rows it was judged on."""
    domain, count = result.model.spec.domain, counted(rows, "molecule")
    if domain == "column":
        return f"On your {count} called test, which were neither trained on nor chosen by"
    if domain == "random":
        return f"On {count} drawn at random and not seen"
    return f"On {count} of {_HELD_OUT.get(domain, 'a part')} it has not seen"


def _quality(result: FitResult, score: PartScore) -> str:
    value, beyond = score.score, _beyond(result, score.rows)
    if value.value is None:
        return f"{beyond}, it cannot be judged: they are all of one class. More labels are needed."
    if score.too_few:
        needed = "20 molecules are needed" if score.rare is None else "10 molecules of each class are needed"
        return f"The held-out molecules are {score.too_few}: at least {needed}."
    if score.metric == "rmse":
        mean = f"always saying the training mean is off by {format_score(score.mean_error, 'rmse')}"
        return f"{beyond}, its predictions are off by {format_interval(value, 'rmse')}; {mean}."
    if score.metric == "accuracy":
        common = format_score(score.common_share, score.metric)
        guess = "" if score.common_share is None else f"; always saying the commonest class is right in {common} %"
        return f"{beyond}, {format_interval(value, score.metric)} % are called right{guess}."
    no, yes = result.model.classes
    return f"{beyond}, it ranks '{yes}' above '{no}' in {format_interval(value, score.metric)} % of pairs."


def advice(result: FitResult) -> str:
    """What to do with the model, in one sentence."""
    assessment = result.model.assessment
    assert assessment is not None
    scores, comparison = assessment.of("test"), assessment.comparison
    new = _HELD_OUT.get(result.model.spec.domain, "molecules")
    good, poor, unknown = assessment.by_worth()
    if len(unknown) == len(scores):
        return "get more labels before you rely on it; these are too few to say how good it is."
    words = [f"use it for new {new}, and expect about {_expected(good, len(scores) > 1)}"] if good else []
    if poor:
        what = listed(score.target for score in poor) if len(scores) > 1 else "it"
        words.append(f"do not rely on {what} for new {new}: it may be no better than a guess")
    rare = rare_classes(result.model)
    if rare and good:
        words.append(f"do not rely on it for class{'es' * (len(rare) > 1)} {listed(rare)}: too few rows have it")
    if unknown:
        words.append(f"get more labels of {listed(score.target for score in unknown)} before you rely on it there")
    error = None if comparison is None or not good else comparison.calibration_error
    if error is not None and error > _MISCALIBRATED:
        words.append(f"read its probabilities as a ranking, for they are off by {error:.2f} on average")
    if comparison is not None and comparison.left_out:
        words.append(f"with more --minutes it would try {listed(comparison.left_out)} too")
    return f"{'; '.join(words)}."


def _expected(scores: list[PartScore], several: bool) -> str:
    """What scores to expect, with the names of targets where there are several."""
    metric = scores[0].metric
    values = listed(f"{_about(score)}{f' for {score.target}' if several else ''}" for score in scores)
    if metric == "rmse":
        return f"an error of {values}"
    return f"{values} called right" if metric == "accuracy" else f"{METRICS[metric]} {values}"


def _about(score: PartScore) -> str:
    """A score and its interval in round numbers."""

    def rounded(value: float | None) -> str:
        assert value is not None
        if score.metric != "rmse":
            return f"{100 * value:.0f}"
        return f"{value:.2g}" if abs(value) < 99.5 else f"{value:,.0f}"

    between = "" if score.score.low is None else f" ({rounded(score.score.low)} to {rounded(score.score.high)})"
    return f"{rounded(score.score.value)}{'' if score.metric == 'rmse' else ' %'}{between}"
