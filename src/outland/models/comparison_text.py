"""Contenders of a fit in words and tables, for the card and the screen."""

from outland.models.comparison import STACK, Comparison, ContenderScore
from outland.models.messages import METRICS, format_score
from outland.models.plain import Interval


def format_interval(interval: Interval, metric: str) -> str:
    """A score with its interval, where it has one."""
    value, low, high = (format_score(number, metric) for number in (interval.value, interval.low, interval.high))
    return value if interval.low is None else f"{value} ({low} to {high})"


def format_difference(interval: Interval, metric: str) -> str:
    """A difference of scores with its interval, with signs."""
    scale, digits = (1, 3) if metric == "rmse" else (100, 2)
    values = [None if each is None else f"{scale * each:+.{digits}f}" for each in (interval.value, interval.low)]
    if values[0] is None:
        return "–"
    if values[1] is None or interval.high is None:
        return values[0]
    return f"{values[0]} ({values[1]} to {scale * interval.high:+.{digits}f})"


def contender_label(score: ContenderScore) -> str:
    """A contender's name as tables have it, with a network's epochs."""
    names = {
        "erm": "ERM",
        "aia": "AIA",
        "boosting": "gradient boosting",
        "gp": "Gaussian process",
        STACK: "weighted mean",
    }
    name = names.get(score.name, score.name)
    return name if score.epochs is None else f"{name}, {score.epochs} epochs"


def comparison_section(comparison: Comparison) -> str:
    """The section of a model's card: contenders, what was delivered and why, and how probabilities come true."""
    metric, loss = comparison.metric, "squared error" if comparison.metric == "rmse" else "log-loss"
    lines = [
        f"{comparison.rows:,} rows were held out in {comparison.folds} folds; each contender was trained on the other "
        f"folds. Delivered: {comparison.reason}.",
        "",
        f"| contender | {METRICS[metric]} | 95% interval | against what is delivered | {loss} | share |",
        "|---|---|---|---|---|---|",
    ]
    for score in comparison.contenders:
        low, high = (format_score(value, metric) for value in (score.score.low, score.score.high))
        interval = "–" if score.score.low is None else f"{low} to {high}"
        against = "delivered" if score.name == comparison.delivered else format_difference(score.difference, metric)
        share = "–" if score.weight is None else f"{score.weight:.0%}"
        value = format_score(score.score.value, metric)
        lines.append(f"| {contender_label(score)} | {value} | {interval} | {against} | {score.loss:.3f} | {share} |")
    if metric == "accuracy":
        lines += ["", "Contenders are compared before calibration, which may change which class is called."]
    left_out = comparison.left_out | comparison.failed
    lines += ["", *(f"- {name} was left out: {reason}" for name, reason in left_out.items())]
    lines += [f"- {note}" for note in comparison.notes]
    return "\n".join(["## Contenders", "", *lines, *_reliability_lines(comparison)]).rstrip()


def _reliability_lines(comparison: Comparison) -> list[str]:
    if comparison.calibration_error is None:
        return []
    rows = [
        f"| {each.mean_probability:.0%} | {each.observed_rate:.0%} | {each.rows:,} | {_bar(each.observed_rate)} |"
        for each in comparison.reliability
    ]
    off = f"Probabilities of held-out rows are off by {comparison.calibration_error:.3f} on average"
    head = ["| said | came true | rows | |", "|---|---|---|---|"]
    return ["", f"{off} (calibrated on the other folds where their rows suffice):", "", *head, *rows]


def _bar(share: float) -> str:
    return "█" * round(20 * share)
