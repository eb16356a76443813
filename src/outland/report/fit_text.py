"""What came out of a fit, in plain words."""

from pathlib import Path

from rich.table import Table

from outland.estimators.judging import Judgement, Verdict
from outland.estimators.tables import Fitted
from outland.estimators.words import METRICS, kept_word
from outland.training.watch import shown

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
        return shown(one.value, metric)
    return f"{shown(one.value, metric)} ({shown(one.low, metric)} to {shown(one.high, metric)})"


def sentences(fitted: Fitted, folder: Path, table: str) -> list[str]:
    """The summary: how good, against ERM, how long, and what to do next."""
    held = fitted.verdicts[-1]
    return [
        _quality(fitted, held),
        *filter(None, [kept_word(fitted.model.about, fitted.model.classes)]),
        *_against(fitted, held),
        *_distance(fitted),
        _time(fitted),
        f"Model: {folder} (its card is {folder / 'README.md'})",
        "Next:",
        f"  outland predict {folder} NEW.csv            # a probability and a distance for each new molecule",
        f"  outland explain {folder} {table}   # which atoms each prediction rests on",
        f"  outland shift {table} NEW.csv      # how far the new molecules are",
    ]


def _quality(fitted: Fitted, held: Verdict) -> str:
    one, model = held.models[0], fitted.model
    beyond = f"On {held.rows:,} molecules of {_HELD.get(model.about['shift'], 'a part')} it has not seen"
    if model.about["shift"] == "random":
        beyond = f"On {held.rows:,} molecules drawn at random and not seen"
    if one.value is None:
        return f"{beyond}, it cannot be judged: they are all of one class. Another --shift may do better."
    if held.scant:
        needed = "20 molecules" if held.rare is None else "10 molecules of each class"
        return f"The held-out molecules are {held.scant}: at least {needed} are needed. Another --shift may do better."
    if held.metric == "rmse":
        return f"{beyond}, its predictions are off by {_number(one, 'rmse')}; always saying the mean is off by " + (
            f"about {model.scale[1]:.3f}."
        )
    if held.metric == "accuracy":
        return f"{beyond}, {_number(one, held.metric)} % are called right."
    chance = "" if one.low is None or one.low > 0.5 else " Chance gives 50: this may be no better."
    yes, no = model.classes[1], model.classes[0]
    return f"{beyond}, it puts a '{yes}' above a '{no}' in {_number(one, held.metric)} % of pairs.{chance}"


def _against(fitted: Fitted, held: Verdict) -> list[str]:
    if fitted.reference is None or held.scant or held.difference is None or held.difference.value is None:
        return []
    one, name = held.difference, fitted.model.method.name
    value, low, high = held.difference.value, one.low, one.high
    if low is None or high is None:
        return []
    scale, digits = (1, 3) if held.metric == "rmse" else (100, 1)
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
    parts = [f"{model.method.name} {model.about['seconds']:.0f} s for {model.about['train']['epochs']} epochs"]
    if reference is not None:
        parts.append(f"ERM {reference.about['seconds']:.0f} s")
    return f"Took {fitted.seconds:.0f} s ({', '.join(parts)})."
