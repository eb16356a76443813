"""What a fitted model learns of its own errors, from rows that its contenders were not trained on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from outland.estimators.contenders import TREES
from outland.estimators.out_of_fold import HeldOut, OutOfFold
from outland.graphs import PackedGraphs, Splits
from outland.models import TrainedModel
from outland.models.conformal import Conformal
from outland.models.evaluation import scaffold_groups
from outland.models.expected_error import ExpectedError, row_errors
from outland.models.model import Predictions
from outland.models.similarity import Neighbours
from outland.models.uncertainty import expected_errors, signals

_MOST_SCORES = 5000  # conformal scores that a model keeps


def held_out_predictions(
    model: TrainedModel, contenders: Sequence[OutOfFold], held_out: HeldOut, rows: Splits
) -> Predictions:
    """What the model's contenders say of held-out rows, as the model says it of new ones.

    A network's seeds are its one out-of-fold output several times over, and its distances those of the first network.
    """
    by_name = {each.name: each for each in contenders}
    own = [by_name[name] for name in _contender_names(model, by_name)]
    members = torch.stack([each.outputs for each in own], 1).float()
    network = next((each for each in own if each.name not in TREES), None)
    graphs = held_out.graphs(rows)
    return Predictions(
        outputs=model.mean(members),
        distances=None if network is None or network.distances is None else network.distances.float(),
        members=members,
        similarity=_similarity(held_out, rows.graphs, model.spec.seed),
        features=graphs.extra.get("descriptors"),
    )


def _contender_names(model: TrainedModel, known: dict[str, OutOfFold]) -> list[str]:
    """The contender that each member is one of; a method in a file of its own is called by its class."""
    others = [name for name in known if name not in TREES]
    return [member.name if member.name in known else others[0] for member in model.members]


def _similarity(held_out: HeldOut, graphs: PackedGraphs, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of each held-out row to the nearest molecules that its fold trains on `[n]`."""
    fingerprints = graphs.extra["fingerprint"]
    parts = [
        torch.from_numpy(Neighbours.fit(fingerprints[fold.train], seed).similarity(fingerprints[fold.held_out]))
        for fold in held_out.folds
    ]
    return held_out.gather(parts).numpy()


def with_trust(model: TrainedModel, predictions: Predictions, held_out: HeldOut, rows: Splits) -> TrainedModel:
    """The model with expected errors, conformal scores and training fingerprints, by its held-out predictions."""
    graphs, seed = held_out.graphs(rows), model.spec.seed
    y = graphs.y.reshape(len(graphs), -1).double().numpy()
    fingerprints = rows.graphs.extra["fingerprint"][rows["train"]]
    called = model.decisions(predictions) if model.classes else model.numbers(predictions)
    errors = row_errors(model.task, called.astype(np.float64), y)
    expected = ExpectedError.fit(signals(model, predictions), errors, scaffold_groups(graphs), seed)
    model = replace(model, neighbours=Neighbours.fit(fingerprints, seed), expected_error=expected)
    return replace(model, conformal=_conformal(model, predictions, torch.from_numpy(y)))


def _conformal(model: TrainedModel, predictions: Predictions, y: Tensor) -> Conformal:
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(model.spec.seed))[:_MOST_SCORES]
    kept, labels = order.sort().values, y.numpy()
    features = None if predictions.features is None else predictions.features[kept].float().nan_to_num(0.0)
    if model.classes:
        probabilities = model.probabilities(predictions)
        return Conformal.of_classes(probabilities[kept], labels[kept], model.task, features)
    scale = expected_errors(model, predictions)
    numbers = model.numbers(predictions).reshape(len(labels), -1)
    return Conformal.of_numbers(numbers[kept], labels[kept], None if scale is None else scale[kept], features)
