"""How far graphs are from those a model was trained on."""

import torch

from outland.datasets import DataFolder
from outland.graphs import Cache, PackedGraphs
from outland.models import TrainedModel
from outland.shift.measure import measure_shift
from outland.shift.result import ShiftResult
from outland.shift.settings import ShiftSettings
from outland.spec import load_splits

QUICK = ShiftSettings(trials=2, most=500, folds=3, steps=100)  # half a minute
FEWEST = 20  # graphs


def shift_from_training(
    model: TrainedModel,
    graphs: PackedGraphs,
    settings: ShiftSettings = QUICK,
    seed: int = 0,
    device: torch.device | str = "cpu",
    cache: Cache | None = None,
    data: DataFolder | None = None,
) -> ShiftResult:
    """The shift from a model's training graphs to others, without labels.

    Args:
        model: keeps training graphs, or was trained on a dataset that can be loaded.
        graphs: at least twenty.
        settings: how it is measured.
        seed: of everything random.
        device: where.
        cache, data: where a dataset is loaded from.
    """
    reference = model.reference
    if reference is None:
        reference = load_splits(model.spec, cache=cache, data=data).part("train")
    return measure_shift(
        reference, graphs, schema=model.schema, labels=False, settings=settings, seed=seed, device=device
    )
