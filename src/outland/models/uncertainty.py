"""How far predictions of a model are to be trusted: expected errors, flags, conformal sets and intervals."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from outland.errors import OutlandError
from outland.models.conformal import COVERAGE, Conformal, Flags, LikelihoodRatio
from outland.models.expected_error import ExpectedError, prediction_signals, row_errors
from outland.models.model import Predictions, TrainedModel
from outland.models.similarity import Neighbours

FEWEST_NEW = 50  # rows of a table, below which a shift's weights would be luck
APART = 0.85  # ROC-AUC of telling new rows from training ones, from which on scores are weighted
Array = npt.NDArray[np.float64]


def signals(model: TrainedModel, predictions: Predictions) -> dict[str, Array]:
    """What may tell how wrong predictions are, larger for worse."""
    return prediction_signals(
        model.task,
        members=predictions.members,
        weights=model.weights,
        probabilities=model.probabilities(predictions) if model.classes else None,
        similarity=predictions.similarity,
        distances=predictions.distances,
    )


def expected_errors(model: TrainedModel, predictions: Predictions) -> Array | None:
    """Expected error of each row: of a number in its own units, or the probability of a wrong call; None if unknown.

    With an element that no training molecule has it is at least that of `far` rows.
    """
    own = signals(model, predictions)
    if model.expected_error is None or not set(model.expected_error.names) <= set(own):
        return None
    expected = model.expected_error.expected(own)
    return np.where(_has_unseen(predictions), np.maximum(expected, model.expected_error.of_far), expected)


def flags(model: TrainedModel, predictions: Predictions) -> list[str] | None:
    """`near`, `edge` or `far` for each row, by its expected error, else by its distance; None where neither is known.

    Molecules with an element that no training molecule has are `far`. Rows whose numbers are not finite have none.
    """
    own = signals(model, predictions)
    if model.expected_error is not None and set(model.expected_error.names) <= set(own):
        names = model.expected_error.flags(own)
    elif model.distance is not None and predictions.distances is not None:
        names = model.distance.flags(predictions.distances)
    else:
        return None
    names = ["far" if unseen else name for name, unseen in zip(names, _has_unseen(predictions), strict=True)]
    return [name if finite else "" for name, finite in zip(names, predictions.are_finite.tolist(), strict=True)]


def _has_unseen(predictions: Predictions) -> npt.NDArray[np.bool_]:
    """Which molecules have an element that no training molecule has `[G]`."""
    return np.array(predictions.unseen or [""] * len(predictions.outputs), dtype=bool)


def has_flags(model: TrainedModel) -> bool:
    """Whether rows get flags."""
    return model.expected_error is not None or model.distance is not None


def learn_uncertainty(
    model: TrainedModel,
    predictions: Predictions,
    y: torch.Tensor,
    *,
    weights: Sequence[float] = (),
    groups: Array | None = None,
    fingerprints: torch.Tensor | None = None,
) -> TrainedModel:
    """The model with expected errors and conformal scores, learned on predictions for rows not trained on.

    Args:
        model: calibrated.
        predictions: out of fold, for `n` rows: `outputs` of what is delivered, and where they are known `members`,
            `distances`, `similarity` to rows of other groups (see `out_of_group_similarity`), and `features`, the
            descriptors.
        y: labels as the task has them, numbers standardized, NaN where unknown `[n]` or `[n, targets]`.
        weights: of the out-of-fold `members`, which need not be as many as the model's; empty for equal ones.
        groups: scaffold of each row `[n]`.
        fingerprints: packed, of all training molecules; needed where `similarity` is given.
    """
    task, labels = model.task, y.reshape(len(y), -1).double().cpu()
    if fingerprints is not None and predictions.similarity is not None:
        model = replace(model, neighbours=Neighbours.fit(fingerprints, model.spec.seed))
    learned = signals(replace(model, weights=tuple(weights)), predictions)
    if len(model.members) < 2:
        learned.pop("spread", None)
    called = model.numbers(predictions) if task.kind == "regression" else model.decisions(predictions)
    known = task.in_label_units(labels).numpy()
    errors = row_errors(task, called.astype(np.float64), known)
    expected, scale = ExpectedError.fit_out_of_fold(learned, errors, groups) or (None, None)
    return learn_conformal(replace(model, expected_error=expected), predictions, y, scale)


def learn_conformal(
    model: TrainedModel, predictions: Predictions, y: torch.Tensor, scale: Array | None = None
) -> TrainedModel:
    """The model with conformal scores of rows not trained on.

    `scale` is the expected error of each by what was learned on others, where errors were learned `[n]`.
    """
    task, labels = model.task, y.reshape(len(y), -1).double().cpu()
    features = None if predictions.features is None else predictions.features.cpu().float().nan_to_num(0.0, 0.0, 0.0)
    if task.kind == "regression":
        numbers = model.numbers(predictions).reshape(len(y), -1)
        conformal = Conformal.of_numbers(numbers, task.in_label_units(labels).numpy(), scale, features)
    else:
        conformal = Conformal.of_classes(model.probabilities(predictions), labels.numpy(), task, features)
    return replace(model, conformal=conformal)


def prediction_sets(
    model: TrainedModel, predictions: Predictions, coverage: float = COVERAGE, ratio: LikelihoodRatio | None = None
) -> Flags:
    """Which classes are in the conformal set of each row `[G, targets, classes]`."""
    conformal = _require_conformal(model)
    weights = _weights(model, predictions, ratio)
    return conformal.sets(model.probabilities(predictions), model.task, coverage, weights)


def prediction_intervals(
    model: TrainedModel, predictions: Predictions, coverage: float = COVERAGE, ratio: LikelihoodRatio | None = None
) -> tuple[Array, Array]:
    """Ends of the conformal interval of each number `[G, targets]`, in the labels' own units."""
    conformal, numbers = _require_conformal(model), model.numbers(predictions).reshape(len(predictions.outputs), -1)
    scale, weights = expected_errors(model, predictions), _weights(model, predictions, ratio)
    half = conformal.half_widths(len(numbers), scale, coverage, weights)
    return numbers - half, numbers + half


def shift_ratio(model: TrainedModel, new: torch.Tensor) -> LikelihoodRatio | None:
    """Likelihood ratio of new rows, by their descriptors `[m, d]`, to those that conformal scores are of.

    None where the model keeps no descriptors of these, where new rows are few, or where the two are so much alike that
    estimated weights would add more noise than they take away: out-of-fold scores imitate new scaffolds already.
    """
    kept = None if model.conformal is None else model.conformal.features
    if kept is None or len(new) < FEWEST_NEW or len(kept) < FEWEST_NEW or new.shape[1] != kept.shape[1]:
        return None
    ratio = LikelihoodRatio.fit(kept.double().numpy(), new.double().nan_to_num(0.0, 0.0, 0.0).numpy())
    return ratio if ratio.auc > APART else None


def _weights(
    model: TrainedModel, predictions: Predictions, ratio: LikelihoodRatio | None
) -> tuple[Array, Array] | None:
    kept = None if model.conformal is None else model.conformal.features
    if ratio is None or kept is None or predictions.features is None:
        return None
    new = predictions.features.double().nan_to_num(0.0).numpy()
    return ratio(kept.double().numpy()), ratio(new)


def _require_conformal(model: TrainedModel) -> Conformal:
    if model.conformal is None:
        raise OutlandError("the model keeps no scores of rows it was not trained on: fit it again to have --coverage")
    return model.conformal
