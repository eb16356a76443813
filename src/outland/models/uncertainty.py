"""How far predictions of a model are to be trusted: expected errors, flags, conformal sets and intervals."""

import numpy as np
import numpy.typing as npt
import torch

from outland.errors import OutlandError
from outland.models.conformal import COVERAGE, Conformal, Flags, LikelihoodRatio
from outland.models.expected_error import prediction_signals
from outland.models.model import Predictions, TrainedModel

FEWEST_NEW = 50  # rows of a table, below which a shift's weights would be luck
Array = npt.NDArray[np.float64]


def signals(model: TrainedModel, predictions: Predictions) -> dict[str, Array]:
    """What may tell how wrong predictions are, larger for worse."""
    return prediction_signals(
        model.task,
        members=predictions.members,
        probabilities=model.probabilities(predictions) if model.classes else None,
        similarity=predictions.similarity,
        distances=predictions.distances,
    )


def expected_errors(model: TrainedModel, predictions: Predictions) -> Array | None:
    """Expected error of each row: of a number in its own units, or the probability of a wrong call; None if unknown."""
    own = signals(model, predictions)
    if model.expected_error is None or not set(model.expected_error.names) <= set(own):
        return None
    return model.expected_error.expected(own)


def flags(model: TrainedModel, predictions: Predictions) -> list[str] | None:
    """`near`, `edge` or `far` for each row, by its expected error, else by its distance; None where neither is known.

    Rows whose numbers are not finite have none.
    """
    own = signals(model, predictions)
    if model.expected_error is not None and set(model.expected_error.names) <= set(own):
        names = model.expected_error.flags(own)
    elif model.distance is not None and predictions.distances is not None:
        names = model.distance.flags(predictions.distances)
    else:
        return None
    return [name if finite else "" for name, finite in zip(names, predictions.are_finite.tolist(), strict=True)]


def has_flags(model: TrainedModel) -> bool:
    """Whether rows get flags."""
    return model.expected_error is not None or model.distance is not None


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

    None where the model keeps no descriptors of these, or where new rows are few.
    """
    kept = None if model.conformal is None else model.conformal.features
    if kept is None or len(new) < FEWEST_NEW or len(kept) < FEWEST_NEW or new.shape[1] != kept.shape[1]:
        return None
    return LikelihoodRatio.fit(kept.double().numpy(), new.double().nan_to_num(0.0).numpy())


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
