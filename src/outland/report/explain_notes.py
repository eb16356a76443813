"""Notes at the head of the page of explained molecules."""

from collections.abc import Iterable, Sequence

import numpy as np

from outland.errors import counted, listed
from outland.models import TrainedModel
from outland.models.contributions import CALLED, Faithfulness
from outland.models.explained_rows import Explained, ExplainedRow
from outland.models.messages import MASK_MEANING, calibration_sentence, chance_sentence, distance_phrase
from outland.report.summaries import training_rows_notes

MASK_PHRASE = "the stable mask that {name} has learned, where it weighs at least one half"
_MIN_STD = 0.05  # of weights, below which a mask counts as constant


def constant_summary(weights: Iterable[float]) -> str:
    """Mean ± standard deviation of nearly constant weights; empty where they vary."""
    values = np.fromiter(weights, float)
    return f"{values.mean():.3f} ± {values.std():.3f}" if len(values) and values.std() < _MIN_STD else ""


def constant_weights(rows: Sequence[ExplainedRow]) -> tuple[str, str]:
    """`constant_summary` of all atoms and of all bonds."""
    atoms = constant_summary(weight for row in rows for weight in row.nodes)
    return atoms, constant_summary(weight for row in rows for weight in row.edges)


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


def contribution_unit(model: TrainedModel, target: int = 0) -> str:
    """What contributions are in."""
    return "log-odds" if model.classes else f"units of {model.targets[target]}"


def contribution_note(model: TrainedModel, target: int = 0) -> str:
    """What red and blue mean, and what they do not."""
    node, article = node_and_edge(model)[0], "an" if model.kind == "molecules" else "a"
    unit = contribution_unit(model, target)
    if model.kind == "molecules":
        how = "hidden: networks see an average atom in its place; fingerprint and descriptors are those of what is left"
    else:
        how = "removed with its edges"
    return (
        f"The contribution of {article} {node} is how far the prediction falls, in {unit}, when it is {how}. It says "
        "what the model goes by, not what is true. Contributions do not add up to the prediction: where a model goes "
        f"by the absence of something, or by size, every {node} may push away from a class that is called with ease."
    )


def faithfulness_sentence(faithfulness: Faithfulness, noun: str, node: str, unit: str) -> str:
    """Whether hiding the nodes that count most moves predictions more than hiding random ones."""
    shown = f"{faithfulness.score:.2g} ({faithfulness.low:.2g} to {faithfulness.high:.2g}; {unit})"
    verdict = "Faithful" if faithfulness.low > 0 else "Not shown to be faithful"
    return (
        f"{verdict}: hiding the {node}s that count most lowers a prediction by {shown} more than hiding as many random "
        f"ones (mean over {counted(faithfulness.graphs, noun)}, 10 to 50% of the {node}s hidden; 95% interval)."
    )


def shading_note(model: TrainedModel, nodes: str, edges: str) -> str:
    """What shaded and pale parts of the drawings mean, where the stable mask is shown."""
    node, edge = node_and_edge(model)
    method = model.method
    assert method is not None
    lines = [f"Shaded: {MASK_PHRASE.format(name=method.name)}. Pale parts are environment. {MASK_MEANING}"]
    if method.mask_depth:
        lines.append(
            f"Each {node} stands for its neighbourhood: {method.name} weighs {node}s after {method.mask_depth} layers "
            f"of message passing, which reach up to {method.mask_depth} {edge}s away."
        )
    lines.append(constant_weights_note(nodes, edges, (f"{node}s", f"{edge}s")))
    return " ".join(filter(None, lines))


def columns_note(model: TrainedModel, known: bool, target: int = 0) -> str:
    """What the columns of numbers mean, for one of the model's targets."""
    lines, noun = [], "molecule" if model.kind == "molecules" else "graph"
    plain = model.calibration.reason and model.calibration.offset[target] == 0
    calibrated = "not calibrated" if plain else "calibrated on rows not trained on"
    if len(model.classes) == 2:
        lines.append(f"Probability is of “{model.classes[1]}”, {calibrated}; a {noun} is called so above one half.")
    elif model.classes:
        lines.append(f"Probability is of the class called, {calibrated}.")
    elif known:
        tolerance, meaning = error_tolerance(model, target)
        lines.append(f"A prediction counts as right where it is off by at most {tolerance:.3g}, {meaning}.")
    if model.assessment is not None:
        held_out = model.assessment.of("test")[target]
        lines.append(calibration_sentence(held_out, model.spec.domain, model.classes))
        lines.append(chance_sentence([held_out]))
    if model.expected_error is not None:
        what = "the probability that the class called is wrong" if model.classes else "in the unit of the prediction"
        what += ", the mean over all targets" if len(model.targets) > 1 else ""
        lines.append(f"Expected error is {what}, as learned on rows not trained on; near, edge and far go by it.")
    else:
        lines.append(f"Distance is {distance_phrase(model, noun)}.")
    return " ".join(filter(None, lines))


def error_tolerance(model: TrainedModel, target: int = 0) -> tuple[float, str]:
    """The largest error of a regression that counts as right, and a clause on what that is."""
    if model.assessment is not None:
        score = model.assessment.of("test")[target]
        if score.score.value is not None and not score.too_few:
            return score.score.value, "the model's usual error (root mean square) on held-out molecules"
    return model.task.std[target], "the spread of the labels in training"


def row_notes(model: TrainedModel, explained: Explained, target: int = 0) -> list[str]:
    """What the command line says of a page: what its colours are, how faithful, and rows known from training."""
    node, edge = node_and_edge(model)
    others = [name for number, name in enumerate(model.targets) if number != target]
    which = [f"of {model.targets[target]}; --target draws {listed(others, 'or')}"] if others else []
    if explained.show == "mask":
        assert model.method is not None
        note = constant_weights_note(*constant_weights(explained.rows), (f"{node}s", f"{edge}s"))
        lines = [f"shaded: {MASK_PHRASE.format(name=model.method.name)}", *filter(None, [note])]
    else:
        lines = [f"red: {node}s that push towards {explained.towards}; blue: away from it"]
        if explained.faithfulness is not None:
            unit = contribution_unit(model, target)
            lines.append(faithfulness_sentence(explained.faithfulness, model.kind[:-1], node, unit))
        if explained.towards == CALLED and node == "atom":
            lines.append("substructures count for the class that each molecule is called; --towards CLASS is for one")
    seen = sum(row.is_training for row in explained.rows)
    return [*which, *lines, *training_rows_notes(seen, len(explained.rows))]
