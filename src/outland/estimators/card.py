"""The model card: what a person should know before they use a model, in Markdown."""

from typing import Any

from outland.estimators.model import FittedModel
from outland.estimators.words import MEANING, METRICS, distance_words, kept_word, limit_words


def card(model: FittedModel) -> str:
    """The card of a model."""
    sections = [
        _what(model),
        _training(model),
        _scores(model),
        _use(model),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _what(model: FittedModel) -> str:
    source = model.about.get("source", {})
    name = f" of {_plain(source['target'])}" if "target" in source else ""
    answer = f"one of the classes {', '.join(_plain(one) for one in model.classes)}" if model.classes else "a number"
    return (
        f"# Model{name}\n\n"
        f"Reads {model.kind} and answers with {answer}. Trained by {model.method.name} ({model.method.citation}) with "
        f"outland; held-out rows imitate the shift by {model.about.get('shift', 'given parts')}."
    )


def _training(model: FittedModel) -> str:
    about, source = model.about, model.about.get("source", {})
    lines = [f"- {name} rows: {count:,}" for name, count in about["graphs"].items()]
    if "file" in source:
        lines.insert(0, f"- table: {_plain(source['file'])}, SHA-256 `{source.get('sha256', '')}`")
    counts, drawn = about["classes"]["training"], about["classes"]["drawn"]
    if counts:
        named = ", ".join(f"{_plain(name)} {count:,}" for name, count in zip(model.classes, counts, strict=True))
        lines.append(f"- classes in training: {named}")
    if counts != drawn:
        lines.append("- rare classes were drawn more often; probabilities are corrected for it")
    frame = about["train"]
    lines.append(f"- {frame['epochs']} epochs, the best one (number {about['best_epoch'] + 1}) by validation rows")
    lines.append(f"- {about['seconds']:.0f} s on {about['environment'].get('device', 'cpu')}; seed {about['seed']}")
    return "## Training\n\n" + "\n".join(lines)


def _scores(model: FittedModel) -> str:
    rows = model.about.get("scores")
    if not rows:
        return ""
    lines = ["| rows | metric | this model | 95% interval | ERM |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['part']} | {METRICS[row['metric']]} | {row['shown']} | {row['interval']} | {row['erm']} |"
        )
    word = kept_word(model.about, [_plain(one) for one in model.classes])
    return "## How good it is\n\n" + "\n".join(lines) + (f"\n\n{word}" if word else "")


def _use(model: FittedModel) -> str:
    lines = [
        f"- `distance` is {distance_words(model, 'row')}. It is taken in the model's own embedding. Trust rows called "
        "`far` least.",
        "- The folder keeps up to 1,000 training graphs (not their names), to measure shifts against, and hashes of "
        "the SMILES it was trained with, to know them again.",
    ]
    if model.classes:
        lines.insert(0, f"- Probabilities are scaled on validation rows (T = {model.calibration.temperature:.2f}).")
    if model.task.kind == "binary":
        yes = _plain(model.classes[1])
        lines.insert(1, f"- A row's probability is that of {yes}; it is {limit_words(model)}.")
    if model.method.has_masks:
        lines.append(f"- Explanations part a molecule in two. {MEANING}")
    return "## How to read it\n\n" + "\n".join(lines)


def _plain(value: Any) -> str:
    """A name that means nothing in Markdown."""
    text = str(value).replace("\n", " ").replace("`", "'")
    return "".join(f"\\{one}" if one in "\\<>[]|*_#" else one for one in text)
