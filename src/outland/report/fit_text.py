"""What came out of a fit, in plain words."""

from pathlib import Path

from rich.table import Table

from outland.errors import counted
from outland.estimators.judging import Judgement, Verdict
from outland.estimators.tables import Fitted
from outland.estimators.words import METRICS, kept_word
from outland.training.callbacks import format_score

_POINTS = 0.1  # between validation and held-out score, above which it is said
_HELD = {"scaffold": "scaffolds", "cluster": "clusters of molecules", "size": "sizes", "time": "times"}


def score_table(fitted: Fitted) -> Table:
    """The scores of the model, and of ERM beside it."""
    names = [model.method.name for model in (fitted.model, fitted.reference) if model is not None]
    metric = fitted.verdicts[0].metric
    unit = "" if metric == "rmse" else ", in %"
    table = Table("rows", "how many", *names, title=f"{METRICS[metric]}{unit} (95% interval)")
    for verdict in fitted.verdicts:
        part = "validation" if verdict.part == "val" else "held out"
        table.add_row(part, f"{verdict.rows:,}", *(verdict.scant or _number(one, metric) for one in verdict.models))
    return table


def _number(one: Judgement, metric: str) -> str:
    if one.low is None:
        return format_score(one.value, metric)
    return f"{format_score(one.value, metric)} ({format_score(one.low, metric)} to {format_score(one.high, metric)})"


def sentences(fitted: Fitted, folder: Path, table: str) -> list[str]:
    """The summary: how good, against ERM, how long, and what to do next."""
    held = fitted.verdicts[-1]
    return [
        _quality(fitted, held),
        *filter(None, [kept_word(fitted.model.about, fitted.model.classes)]),
        *_harder(fitted),
        *_against(fitted, held),
        *_distance(fitted),
        _time(fitted),
        f"Model: {folder} (its card is {folder / 'README.md'})",
        "Next:",
        *_next(fitted, folder, table),
    ]


def _next(fitted: Fitted, folder: Path, table: str) -> list[str]:
    answer = "a probability" if fitted.model.classes else "a prediction"
    commands = {
        f"outland predict {folder} NEW.csv": f"{answer} and a distance for each new molecule",
        f"outland explain {folder} {table}": "which atoms each prediction rests on",
        f"outland shift {table} NEW.csv": "how far the new molecules are",
    }
    width = max(map(len, commands))
    return [f"  {command:<{width}}  # {what}" for command, what in commands.items()]


def _quality(fitted: Fitted, held: Verdict) -> str:
    one, model = held.models[0], fitted.model
    beyond = f"On {counted(held.rows, 'molecule')} of {_HELD.get(model.about['shift'], 'a part')} it has not seen"
    if model.about["shift"] == "random":
        beyond = f"On {counted(held.rows, 'molecule')} drawn at random and not seen"
    if one.value is None:
        return f"{beyond}, it cannot be judged: they are all of one class. Another --domain may do better."
    if held.scant:
        needed = "20 molecules" if held.rare is None else "10 molecules of each class"
        return f"The held-out molecules are {held.scant}: at least {needed} are needed. Another --domain may do better."
    if held.metric == "rmse":
        mean = f"always saying the training mean is off by {format_score(held.mean_error, 'rmse')}"
        return f"{beyond}, its predictions are off by {_number(one, 'rmse')}; {mean}."
    if held.metric == "accuracy":
        return f"{beyond}, {_number(one, held.metric)} % are called right."
    chance = "" if one.low is None or one.low > 0.5 else " Chance gives 50: this may be no better."
    yes, no = model.classes[1], model.classes[0]
    return f"{beyond}, it puts a '{yes}' above a '{no}' in {_number(one, held.metric)} % of pairs.{chance}"


def _harder(fitted: Fitted) -> list[str]:
    """Whether validation rows promise what held-out rows do not keep, or the other way round."""
    (first, last), metric = [verdict.models[0].value for verdict in fitted.verdicts], fitted.verdicts[0].metric
    if metric == "rmse" or first is None or last is None or any(verdict.scant for verdict in fitted.verdicts):
        return []
    if abs(first - last) <= _POINTS:
        return []
    what = _HELD.get(fitted.model.about["shift"], "rows")
    word, advice = ("harder", "expect about the held-out score on new ones")
    if last > first:
        word, advice = ("easier", "new ones may be of either sort")
    return [
        f"The held-out {what} are {word} than the validation ones by {100 * abs(first - last):.0f} points: {advice}."
    ]


def _against(fitted: Fitted, held: Verdict) -> list[str]:
    if fitted.reference is None or held.scant or held.difference is None or held.difference.value is None:
        return []
    one, name = held.difference, fitted.model.method.name
    value, low, high = held.difference.value, one.low, one.high
    scale, digits = (1, 3) if held.metric == "rmse" else (100, 1)
    if low is None or high is None:
        few = "molecules of so few scaffolds cannot tell whether that is luck"
        return [f"Against ERM, plain training: {scale * value:+.{digits}f}; {few}."]
    numbers = f"{scale * value:+.{digits}f} ({scale * low:+.{digits}f} to {scale * high:+.{digits}f})"
    if low <= 0 <= high:
        return [f"Against ERM, plain training: {numbers}; so few molecules show no difference."]
    word = "better" if (value > 0) is (held.metric != "rmse") else "worse"
    return [f"Against ERM, plain training: {numbers}; on these molecules {name} is {word} (one seed)."]


def _distance(fitted: Fitted) -> list[str]:
    held = fitted.model.about["held_out"]
    if "gcs" not in held:
        return []
    return [
        f"The held-out molecules are {held['gcs']:.2f} away from training (GCS; chance gives {held['null']:.2f}); a "
        f"small network tells {held['told_apart']:.0%} of the two apart; {held['far']:.0%} are far from anything the "
        "model knows."
    ]


def _time(fitted: Fitted) -> str:
    model, reference = fitted.model, fitted.reference
    epochs = counted(model.about["train"]["epochs"], "epoch")
    parts = [f"{model.method.name} {model.about['seconds']:.0f} s for {epochs}"]
    if reference is not None:
        parts.append(f"ERM {reference.about['seconds']:.0f} s")
    return f"Took {fitted.seconds:.0f} s ({', '.join(parts)})."
