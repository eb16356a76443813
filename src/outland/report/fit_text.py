"""The result of a fit: a table of scores, and a summary in sentences."""

from pathlib import Path

from rich.table import Table

from outland.errors import counted
from outland.estimators.judging import Judgement, Verdict
from outland.estimators.tables import Fitted
from outland.estimators.words import METRICS, kept_word
from outland.training.callbacks import format_score

_NOTABLE_GAP = 0.1  # between validation and held-out score
_GROUPS = {"scaffold": "scaffolds", "cluster": "clusters of molecules", "size": "sizes", "time": "times"}


def score_table(fitted: Fitted) -> Table:
    """The scores of the model, and of ERM beside it."""
    names = [model.method.name for model in (fitted.model, fitted.reference) if model is not None]
    metric = fitted.verdicts[0].metric
    unit = "" if metric == "rmse" else ", in %"
    table = Table("rows", "how many", *names, title=f"{METRICS[metric]}{unit} (95% interval)")
    for verdict in fitted.verdicts:
        part = "validation" if verdict.part == "val" else "held out"
        table.add_row(part, f"{verdict.rows:,}", *(verdict.scant or _format(score, metric) for score in verdict.models))
    return table


def _format(score: Judgement, metric: str) -> str:
    value, low, high = (format_score(number, metric) for number in (score.value, score.low, score.high))
    return value if score.low is None else f"{value} ({low} to {high})"


def fit_summary(fitted: Fitted, folder: Path, table: str) -> list[str]:
    """Lines on the held-out score, the difference to ERM, the shift, the time taken, and the next commands."""
    held = fitted.verdicts[-1]
    return [
        quality_sentence(fitted, held),
        *filter(None, [kept_word(fitted.model.about, fitted.model.classes)]),
        *difficulty_sentences(fitted),
        *reference_sentences(fitted, held),
        *_shift_sentences(fitted),
        _time_sentence(fitted),
        f"Model: {folder} (its card is {folder / 'README.md'})",
        "Next:",
        *_next_commands(fitted, folder, table),
    ]


def _next_commands(fitted: Fitted, folder: Path, table: str) -> list[str]:
    output = "a probability" if fitted.model.classes else "a prediction"
    commands = {
        f"outland predict {folder} NEW.csv": f"{output} and a distance for each new molecule",
        f"outland explain {folder} {table}": "which atoms each prediction rests on",
        f"outland shift {table} NEW.csv": "how far the new molecules are",
    }
    width = max(map(len, commands))
    return [f"  {command:<{width}}  # {effect}" for command, effect in commands.items()]


def quality_sentence(fitted: Fitted, held: Verdict) -> str:
    """The score on held-out molecules, or why there is none."""
    score, model = held.models[0], fitted.model
    rows = f"On {counted(held.rows, 'molecule')} of {_GROUPS.get(model.about['shift'], 'a part')} it has not seen"
    if model.about["shift"] == "random":
        rows = f"On {counted(held.rows, 'molecule')} drawn at random and not seen"
    if score.value is None:
        return f"{rows}, it cannot be judged: they are all of one class. Another --domain may do better."
    if held.scant:
        needed = "20 molecules" if held.rare is None else "10 molecules of each class"
        return f"The held-out molecules are {held.scant}: at least {needed} are needed. Another --domain may do better."
    if held.metric == "rmse":
        mean = f"always saying the training mean is off by {format_score(held.mean_error, 'rmse')}"
        return f"{rows}, its predictions are off by {_format(score, 'rmse')}; {mean}."
    if held.metric == "accuracy":
        return f"{rows}, {_format(score, held.metric)} % are called right."
    chance = "" if score.low is None or score.low > 0.5 else " Chance gives 50: this may be no better."
    yes, no = model.classes[1], model.classes[0]
    return f"{rows}, it puts a '{yes}' above a '{no}' in {_format(score, held.metric)} % of pairs.{chance}"


def difficulty_sentences(fitted: Fitted) -> list[str]:
    """A note where the held-out score is far below or above the validation score."""
    (first, last), metric = [verdict.models[0].value for verdict in fitted.verdicts], fitted.verdicts[0].metric
    if metric == "rmse" or first is None or last is None or any(verdict.scant for verdict in fitted.verdicts):
        return []
    if abs(first - last) <= _NOTABLE_GAP:
        return []
    groups = _GROUPS.get(fitted.model.about["shift"], "rows")
    word, advice = ("harder", "expect about the held-out score on new ones")
    if last > first:
        word, advice = ("easier", "new ones may be of either sort")
    return [
        f"The held-out {groups} are {word} than the validation ones by {100 * abs(first - last):.0f} points: {advice}."
    ]


def reference_sentences(fitted: Fitted, held: Verdict) -> list[str]:
    """The difference to ERM on held-out molecules, and whether it is shown to be one."""
    if fitted.reference is None or held.scant or held.difference is None or held.difference.value is None:
        return []
    name = fitted.model.method.name
    value, low, high = held.difference.value, held.difference.low, held.difference.high
    scale, digits = (1, 3) if held.metric == "rmse" else (100, 1)
    if low is None or high is None:
        few = "molecules of so few scaffolds cannot tell whether that is luck"
        return [f"Against ERM, plain training: {scale * value:+.{digits}f}; {few}."]
    numbers = f"{scale * value:+.{digits}f} ({scale * low:+.{digits}f} to {scale * high:+.{digits}f})"
    if low <= 0 <= high:
        return [f"Against ERM, plain training: {numbers}; so few molecules show no difference."]
    word = "better" if (value > 0) is (held.metric != "rmse") else "worse"
    return [f"Against ERM, plain training: {numbers}; on these molecules {name} is {word} (one seed)."]


def _shift_sentences(fitted: Fitted) -> list[str]:
    held = fitted.model.about["held_out"]
    if "gcs" not in held:
        return []
    return [
        f"The held-out molecules are {held['gcs']:.2f} away from training (GCS; chance gives {held['null']:.2f}); a "
        f"small network tells {held['told_apart']:.0%} of the two apart; {held['far']:.0%} are far from anything the "
        "model knows."
    ]


def _time_sentence(fitted: Fitted) -> str:
    model, reference = fitted.model, fitted.reference
    epochs = counted(model.about["train"]["epochs"], "epoch")
    parts = [f"{model.method.name} {model.about['seconds']:.0f} s for {epochs}"]
    if reference is not None:
        parts.append(f"ERM {reference.about['seconds']:.0f} s")
    return f"Took {fitted.seconds:.0f} s ({', '.join(parts)})."
