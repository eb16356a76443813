"""The model card: what a person should know before they use a model, in Markdown."""

from typing import Any

from outland.chem.elements import SYMBOLS
from outland.models.comparison_text import comparison_section
from outland.models.messages import (
    MASK_MEANING,
    METRICS,
    calibration_phrase,
    calibration_sentence,
    chance_sentence,
    class_sentence,
    conformal_phrase,
    distance_phrase,
    flag_sentences,
    format_score,
    rare_sentence,
)
from outland.models.model import TrainedModel
from outland.models.summary import PartScore
from outland.models.uncertainty import has_flags

_PARTS = {"val": "validation", "test": "held out"}


def card(model: TrainedModel) -> str:
    """The card of a model."""
    compared = None if model.assessment is None else model.assessment.comparison
    contenders = "" if compared is None else comparison_section(compared)
    sections = [_description(model), _training(model), _scores(model), contenders, _usage(model)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _description(model: TrainedModel) -> str:
    spec = model.spec
    targets = ", ".join(escape(target) for target in model.targets)
    title = f" of {targets}" if spec.table is not None else f" of {escape(spec.dataset)}"
    answer = f"one of the classes {', '.join(escape(name) for name in model.classes)}" if model.classes else "a number"
    each = f" for each of {targets}" if len(model.targets) > 1 else ""
    return (
        f"# Model{title}\n\n"
        f"Reads {model.kind} and answers with {answer}{each}. {_members(model)}; "
        f"held-out rows imitate the shift by {escape(spec.domain or 'given parts')}."
    )


def _members(model: TrainedModel) -> str:
    """Who predicts, with the share of each in the mean where there are several."""
    citation = "" if model.method is None else f" ({model.method.citation})"
    if len(model.members) == 1:
        return f"Trained by {model.members[0].name}{citation} with outland"
    weights = model.weights or (1 / len(model.members),) * len(model.members)
    shares: dict[str, list[float]] = {}
    for member, weight in zip(model.members, weights, strict=True):
        shares.setdefault(member.name, []).append(weight)
    parts = [
        f"{sum(each):.0%} {name}{f' ({len(each)} seeds)' if len(each) > 1 else ''}" for name, each in shares.items()
    ]
    return f"The mean of {len(model.members)} models, trained with outland: {', '.join(parts)}"


def _training(model: TrainedModel) -> str:
    training, table = model.training, model.spec.table
    lines = [f"- {name} rows: {count:,}" for name, count in training.graphs.items()]
    if table is not None:
        file = escape(str(training.data.get("dataset", table.file)))
        lines.insert(0, f"- table: {file}, SHA-256 `{table.sha256 or ''}`")
    if len(model.training_elements):
        symbols = " ".join(SYMBOLS[index] for index in model.training_elements.tolist() if SYMBOLS[index] != "*")
        far = "molecules with any other are flagged far, and the element is named"
        lines.append(f"- elements: {symbols}; {far if has_flags(model) else 'any other is named in predictions'}")
    if training.class_counts:
        counts = zip(model.classes, training.class_counts, strict=True)
        lines.append(f"- classes in training: {', '.join(f'{escape(name)} {count:,}' for name, count in counts)}")
    if training.class_counts != training.class_draws:
        lines.append("- rare classes were drawn more often; probabilities are corrected for it")
    if "val" in training.graphs:
        lines.append(f"- {training.epochs} epochs, the best one (number {training.best_epoch + 1}) by validation rows")
    elif training.epochs:
        lines.append(f"- {training.epochs} epochs, as many as were best for the rows that folds held out")
    device = escape(training.platform.get("device", "cpu"))
    lines.append(f"- {training.seconds:.0f} s on {device}; seed {model.spec.seed}; run {model.spec.key}")
    return "## Training\n\n" + "\n".join(lines)


def _scores(model: TrainedModel) -> str:
    if model.assessment is None:
        return ""
    lines = ["| rows | target | metric | this model | 95% interval | a guess |", "|---|---|---|---|---|---|"]
    lines += [_score_row(score) for score in model.assessment.scores]
    classes = [escape(name) for name in model.classes]
    held_out = model.assessment.of("test")
    sentences = [chance_sentence(held_out, escape), rare_sentence(model, escape)]
    for score in held_out:
        of_target = [calibration_sentence(score, model.spec.domain, classes), class_sentence(score, escape)]
        named = f"**{escape(score.target)}**: " if len(held_out) > 1 else ""
        sentences += [f"{named}{sentence}" for sentence in of_target if sentence]
        sentences += [f"{escape(score.target)}: {score.left_out}."] if score.left_out else []
    return "\n\n".join(["## How good it is", "\n".join(lines), *filter(None, sentences)])


def _score_row(score: PartScore) -> str:
    metric, interval = score.metric, "–"
    if not score.too_few and score.score.low is not None:
        interval = f"{format_score(score.score.low, metric)} to {format_score(score.score.high, metric)}"
    value = score.too_few or format_score(score.score.value, metric)
    part = _PARTS.get(score.part, escape(score.part))
    guess = format_score(score.guess, metric)
    return f"| {part} | {escape(score.target)} | {METRICS[metric]} | {value} | {interval} | {guess} |"


def _usage(model: TrainedModel) -> str:
    lines = []
    if model.classes:
        lines.append(f"- {calibration_phrase(model)}")
    if model.task.kind == "binary":
        lines.append(f"- A row's probability is that of {escape(model.classes[1])}; it is called so above one half.")
    lines += [f"- {sentence}" for sentence in filter(None, [*flag_sentences(model), conformal_phrase(model)])]
    if model.distance is not None and model.expected_error is not None:
        lines.append(f"- `distance` is {distance_phrase(model, 'row')}.")
    if model.reference is not None:
        lines.append(
            "- The folder keeps up to 1,000 training graphs (not their names), to measure shifts against, and hashes "
            "of the SMILES it was trained with, to know them again."
        )
    if model.source:
        lines.append(
            "- The method is in a file of its own, `method.py` here: loading the model runs it, if you say so."
        )
    if model.method is not None and model.method.has_masks:
        lines.append(f"- Explanations part a {model.kind.removesuffix('s')} in two. {MASK_MEANING}")
    return "## How to read it\n\n" + "\n".join(lines)


def escape(value: Any) -> str:
    """A name that means nothing in Markdown."""
    text = " ".join(str(value).splitlines()).replace("`", "'")
    return "".join(f"\\{character}" if character in "\\<>[]|*_#~&" else character for character in text)
