"""Scores by distance flag: whether rows that are called far are predicted worse than near ones."""

import torch

from outland.graphs import PackedGraphs
from outland.models.evaluation import evaluate_models
from outland.models.expected_error import FLAGS
from outland.models.model import TrainedModel
from outland.models.summary import PartScore
from outland.models.uncertainty import flags


def scores_by_flag(model: TrainedModel, graphs: PackedGraphs) -> list[PartScore]:
    """The scores of the rows of each flag, by target; a score's part is the flag. None where rows have no flags."""
    found_flags = flags(model, model.predict(graphs)) or []
    scores: list[PartScore] = []
    for flag in FLAGS:
        index = torch.tensor([place for place, found in enumerate(found_flags) if found == flag], dtype=torch.long)
        if len(index):
            scores += evaluate_models([model], graphs.select(index), flag)
    return scores
