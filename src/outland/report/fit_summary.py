"""What came out of a fit, in plain words."""

from pathlib import Path

from rich.table import Table

from outland.errors import counted
from outland.estimators.fitting import FitResult
from outland.models import PartScore
from outland.models.messages import METRICS, calibration_sentence, format_score
from outland.models.summary import Interval

_NOTABLE = 0.1  # difference of validation and held-out score above which it is mentioned
_HELD_OUT = {"scaffold": "scaffolds", "cluster": "clusters of molecules", "size": "sizes", "time": "times"}
_PARTS = {"val": "validation", "test": "held out"}


def score_table(result: FitResult) -> Table:
    """The scores of the model, and of ERM beside it, a row for each part and target."""
    assert result.model.assessment is not None
    scores, several = result.model.assessment.scores, len(result.model.targets) > 1
    names = [model.name for model in (result.model, result.reference) if model is not None]
    metric = scores[0].metric
    unit = "" if metric == "rmse" else ", in %"
    columns = ["rows", *(["target"] if several else []), "how many", *names]
    table = Table(*columns, title=f"{METRICS[metric]}{unit} (95% interval)")
    for score in scores:
        intervals = [score.score, *([] if score.reference is None else [score.reference])]
        target = [score.target] if several else []
        values = [score.too_few or _format(interval, metric) for interval in intervals]
        table.add_row(_PARTS[score.part], *target, f"{score.rows:,}", *values)
    return table


def _format(interval: Interval, metric: str) -> str:
    value, low, high = (format_score(number, metric) for number in (interval.value, interval.low, interval.high))
    return value if interval.low is None else f"{value} ({low} to {high})"


def summary_sentences(result: FitResult, folder: Path, table: str) -> list[str]:
    """How good the model is, against ERM, how long it took, and what to do next."""
    model, sentences = result.model, []
    assert model.assessment is not None
    for validation, score in zip(model.assessment.of("val"), model.assessment.of("test"), strict=True):
        lines = [
            _quality(result, score),
            calibration_sentence(score, model.spec.domain, model.classes),
            *_comparison_of_parts(validation, score, model.spec.domain),
            *_comparison_with_erm(result, score),
        ]
        sentences += [f"{score.target}: {line}" if len(model.targets) > 1 else line for line in lines if line]
    return [
        *sentences,
        *_distance(result),
        _time(result),
        f"Model: {folder} (its card is {folder / 'README.md'})",
        "Next:",
        *_next_commands(result, folder, table),
    ]


def _next_commands(result: FitResult, folder: Path, table: str) -> list[str]:
    answer = "a probability" if result.model.classes else "a prediction"
    commands = {
        f"outland predict {folder} NEW.csv": f"{answer} and a distance for each new molecule",
        f"outland explain {folder} {table}": "which atoms each prediction rests on",
        f"outland evaluate {folder} NEW.csv": "its score on new labels",
        f"outland shift --model {folder} NEW.csv": "how far the new molecules are",
    }
    width = max(map(len, commands))
    return [f"  {command:<{width}}  # {what}" for command, what in commands.items()]


def _quality(result: FitResult, score: PartScore) -> str:
    value, domain = score.score, result.model.spec.domain
    beyond = f"On {counted(score.rows, 'molecule')} of {_HELD_OUT.get(domain, 'a part')} it has not seen"
    if domain == "random":
        beyond = f"On {counted(score.rows, 'molecule')} drawn at random and not seen"
    if value.value is None:
        return f"{beyond}, it cannot be judged: they are all of one class. Another --domain may do better."
    if score.too_few:
        needed = "20 molecules are needed" if score.rare is None else "10 molecules of each class are needed"
        return f"The held-out molecules are {score.too_few}: at least {needed}. Another --domain may do better."
    if score.metric == "rmse":
        mean = f"always saying the training mean is off by {format_score(score.mean_error, 'rmse')}"
        return f"{beyond}, its predictions are off by {_format(value, 'rmse')}; {mean}."
    if score.metric == "accuracy":
        return f"{beyond}, {_format(value, score.metric)} % are called right."
    chance = "" if value.low is None or value.low > 0.5 else " Chance gives 50: this may be no better."
    no, yes = result.model.classes
    return f"{beyond}, it puts a '{yes}' above a '{no}' in {_format(value, score.metric)} % of pairs.{chance}"


def _comparison_of_parts(validation: PartScore, held_out: PartScore, domain: str) -> list[str]:
    """Whether held-out rows are much harder or easier than validation rows."""
    first, last = validation.score.value, held_out.score.value
    is_judged = held_out.metric != "rmse" and not (validation.too_few or held_out.too_few)
    if not is_judged or first is None or last is None or abs(first - last) <= _NOTABLE:
        return []
    word, advice = "harder", "expect about the held-out score on new ones"
    if last > first:
        word, advice = "easier", "new ones may be of either sort"
    rows, points = _HELD_OUT.get(domain, "rows"), 100 * abs(first - last)
    return [f"The held-out {rows} are {word} than the validation ones by {points:.0f} points: {advice}."]


def _comparison_with_erm(result: FitResult, score: PartScore) -> list[str]:
    difference = score.difference
    if result.reference is None or score.too_few or difference is None or difference.value is None:
        return []
    value, low, high = difference.value, difference.low, difference.high
    scale, digits = (1, 3) if score.metric == "rmse" else (100, 1)
    sentence = f"Against ERM, plain training: {scale * value:+.{digits}f}"
    if low is None or high is None:
        return [f"{sentence}; molecules of so few scaffolds cannot tell whether that is luck."]
    sentence += f" ({scale * low:+.{digits}f} to {scale * high:+.{digits}f})"
    if low <= 0 <= high:
        return [f"{sentence}; so few molecules show no difference."]
    word = "better" if (value > 0) is (score.metric != "rmse") else "worse"
    return [f"{sentence}; on these molecules {result.model.name} is {word} (one seed)."]


def _distance(result: FitResult) -> list[str]:
    assessment = result.model.assessment
    if assessment is None or assessment.shift is None:
        return []
    shift, far = assessment.shift, assessment.share_far
    known = "" if far is None else f"; {far:.0%} are far from anything the model knows"
    return [
        f"A classifier tells a held-out molecule from a training one in {shift.auc:.0%} of pairs (at most "
        f"{shift.null:.0%} by chance){known}."
    ]


def _time(result: FitResult) -> str:
    training, reference = result.model.training, result.reference
    parts = [f"{result.model.name} {training.seconds:.0f} s for {counted(training.epochs, 'epoch')}"]
    if reference is not None:
        parts.append(f"ERM {reference.training.seconds:.0f} s")
    return f"Took {result.seconds:.0f} s ({', '.join(parts)})."
