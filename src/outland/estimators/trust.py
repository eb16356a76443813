"""What a fitted model learns of its own errors, from rows that its contenders were not trained on."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from outland.estimators.contenders import VECTOR_MODELS
from outland.estimators.judgement import Judgement
from outland.estimators.out_of_fold import HeldOut, OutOfFold
from outland.graphs import Splits
from outland.models import TrainedModel
from outland.models.evaluation import scaffold_groups
from outland.models.model import Predictions
from outland.models.similarity import Neighbours, out_of_group_similarity
from outland.models.uncertainty import learn_uncertainty
from outland.spec import RunSpec
from outland.tables.folds import row_groups


def held_out_predictions(
    contenders: Sequence[OutOfFold], judgement: Judgement, held_out: HeldOut, rows: Splits, spec: RunSpec
) -> Predictions:
    """What the delivered contenders say of held-out rows, weighted as in the model; distances of the first network."""
    own = [each for each in contenders if each.name in judgement.weights]
    weights = torch.tensor([judgement.weights[each.name] for each in own], dtype=torch.double)
    members = torch.stack([each.outputs for each in own], 1)
    network = next((each for each in own if each.name not in VECTOR_MODELS), None)
    return Predictions(
        outputs=torch.einsum("nco,c->no", members, weights).float(),
        distances=None if network is None or network.distances is None else network.distances.float(),
        members=members.float(),
        similarity=_similarity(held_out, rows, spec),
        features=held_out.graphs(rows).extra.get("descriptors"),
    )


def _similarity(held_out: HeldOut, rows: Splits, spec: RunSpec) -> npt.NDArray[np.float64]:
    """Of each held-out row to the nearest training molecules, as a new row would have it `[n]`.

    These are all but those of its own scaffold (or cluster) that were held out with it. Where one part is held out, the
    latest rows or the smallest molecules, they are the other part.
    """
    fingerprints, train = rows.graphs.extra["fingerprint"], rows["train"]
    if len(held_out.folds) == 1:
        (fold,) = held_out.folds
        return Neighbours.fit(fingerprints[fold.train], spec.seed).similarity(fingerprints[held_out.rows])
    fold_of = torch.full((len(rows.graphs),), -1)
    fold_of[held_out.rows] = held_out.fold_of
    together = torch.stack([fold_of, row_groups(spec.domain, rows.graphs)])[:, train]
    groups = together.unique(dim=1, return_inverse=True)[1]
    similarity = np.zeros(len(rows.graphs))
    similarity[train.numpy()] = out_of_group_similarity(fingerprints[train], groups, spec.seed)
    return np.asarray(similarity[held_out.rows.numpy()])


def with_trust(
    model: TrainedModel, predictions: Predictions, judgement: Judgement, held_out: HeldOut, rows: Splits
) -> TrainedModel:
    """The model with expected errors, conformal scores and training fingerprints, by its held-out predictions."""
    return learn_uncertainty(
        model,
        predictions,
        held_out.y,
        weights=[*judgement.weights.values()],
        groups=scaffold_groups(held_out.graphs(rows)),
        fingerprints=rows.graphs.extra["fingerprint"][rows["train"]],
    )
