"""Notes at the head of the page of explained molecules."""

from collections.abc import Iterable, Sequence

import numpy as np

from outland.models import TrainedModel
from outland.models.explained_rows import ExplainedRow
from outland.models.explanations import weights_phrase
from outland.models.messages import MASK_MEANING, calibration_sentence, distance_phrase
from outland.report.summaries import training_rows_notes

_MIN_STD = 0.05  # of weights, below which a mask counts as constant


def constant_summary(weights: Iterable[float]) -> str:
    """Mean ± standard deviation of nearly constant weights; empty where they vary."""
    values = np.fromiter(weights, float)
    return f"{values.mean():.3f} ± {values.std():.3f}" if len(values) and values.std() < _MIN_STD else ""


def constant_weights(rows: Sequence[ExplainedRow]) -> tuple[str, str]:
    """`constant_summary` of all atoms and of all bonds."""
    atoms = constant_summary(weight for row in rows for weight in row.node_weights)
    return atoms, constant_summary(weight for row in rows for weight in row.edge_weights)


def constant_weights_note(nodes: str, edges: str, names: tuple[str, str] = ("atoms", "bonds")) -> str:
    """Which of nodes and edges are not shaded, given their `constant_summary`; empty where both are."""
    if nodes and edges:
        return f"The weights tell neither {names[0]} ({nodes}) nor {names[1]} ({edges}) apart: nothing is shaded."
    if nodes or edges:
        constant, shaded = names if nodes else names[::-1]
        return (
            f"The weights hardly tell {constant} apart ({nodes or edges} over all of them): only {shaded} are shaded."
        )
    return ""


def node_and_edge(model: TrainedModel) -> tuple[str, str]:
    """What the nodes and edges of a model's graphs are called."""
    return ("atom", "bond") if model.kind == "molecules" else ("node", "edge")


def shading_note(model: TrainedModel, nodes: str, edges: str) -> str:
    """What shaded and pale parts of the drawings mean."""
    node, edge = node_and_edge(model)
    lines, method = [f"Shading is {weights_phrase(model)}."], model.method
    if method is not None and method.has_masks:
        lines.append(f"Pale parts are environment. {MASK_MEANING}")
    if method is not None and method.has_masks and method.mask_depth:
        lines.append(
            f"Each {node} stands for its neighbourhood: {method.name} weighs {node}s after {method.mask_depth} layers "
            f"of message passing, which reach up to {method.mask_depth} {edge}s away."
        )
    lines += [
        constant_weights_note(nodes, edges, (f"{node}s", f"{edge}s")),
        "Shading says what the model looks at, not what is true.",
    ]
    return " ".join(filter(None, lines))


def columns_note(model: TrainedModel, known: bool, target: int = 0) -> str:
    """What the columns of numbers mean, for one of the model's targets."""
    lines, noun = [], "molecule" if model.kind == "molecules" else "graph"
    if len(model.classes) == 2:
        lines.append(
            f"Probability is of “{model.classes[1]}”, calibrated on rows not trained on; a {noun} is "
            "called so above one half."
        )
    elif model.classes:
        lines.append("Probability is of the class called, calibrated on rows not trained on.")
    elif known:
        tolerance, meaning = error_tolerance(model, target)
        lines.append(f"A prediction counts as right where it is off by at most {tolerance:.3g}, {meaning}.")
    if model.assessment is not None:
        held_out = model.assessment.of("test")[target]
        lines.append(calibration_sentence(held_out, model.spec.domain, model.classes))
    lines.append(f"Distance is {distance_phrase(model, noun)}.")
    return " ".join(filter(None, lines))


def error_tolerance(model: TrainedModel, target: int = 0) -> tuple[float, str]:
    """The largest error of a regression that counts as right, and a clause on what that is."""
    if model.assessment is not None:
        score = model.assessment.of("test")[target]
        if score.score.value is not None and not score.too_few:
            return score.score.value, "the model's usual error (root mean square) on held-out molecules"
    return model.task.std[target], "the spread of the labels in training"


def row_notes(model: TrainedModel, rows: Sequence[ExplainedRow]) -> list[str]:
    """What the command line says of the rows of a page."""
    node, edge = node_and_edge(model)
    note = constant_weights_note(*constant_weights(rows), (f"{node}s", f"{edge}s"))
    return [*filter(None, [note]), *training_rows_notes(sum(row.is_training for row in rows), len(rows))]
