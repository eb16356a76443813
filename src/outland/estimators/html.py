"""What a fitted estimator shows of itself in a notebook, under scikit-learn's own diagram."""

from html import escape

from outland.models import TrainedModel

_TABLE = "border-collapse: collapse; margin: 0.5em 0; font-family: sans-serif; font-size: 0.9em"
_CELL = "text-align: left; padding: 0.1em 1em 0.1em 0"


def fitted_html(model: TrainedModel) -> str:
    """A table of what was trained, on what, and for how long."""
    cells = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(text)}</td></tr>'
        for name, text in describe(model).items()
    )
    return f'<table style="{_TABLE}">{cells}</table>'


def describe(model: TrainedModel) -> dict[str, str]:
    """Facts of a model, by what they are of."""
    training, spec = model.training, model.spec
    parts = {"train": "trained on", "val": "validated on", "test": "tested on"}
    rows = [f"{parts[name]} {count:,} {model.kind}" for name, count in training.graphs.items() if name in parts]
    network = "" if model.network is None else f", {spec.backbone.layers} layers of width {spec.backbone.width}"
    facts = {
        "model": model.name + (f" ({spec.backbone.kind}{network})" if network else ""),
        "rows": ", ".join(rows),
        "held out by": spec.domain,
        "targets": ", ".join(model.targets) if len(model.targets) > 1 else "",
        "classes": ", ".join(map(str, model.classes)),
        "epochs": f"{training.epochs}, number {training.best_epoch + 1} selected" if training.epochs else "",
        "training": f"{training.seconds:.0f} s",
    }
    if model.classes:
        temperatures = ", ".join(f"{value:.2f}" for value in model.calibration.temperature)
        reason = model.calibration.reason
        facts["probabilities"] = f"not calibrated: {reason}" if reason else f"calibrated, temperature {temperatures}"
    return {name: text for name, text in facts.items() if text}
