"""The weights that are kept on the device are those of the epoch that the rule picks from the curves."""

import math

import pytest
import torch
from torch import nn

from outland.graphs import Task
from outland.training.best import BestWeights
from outland.training.selection import SelectionRule

PARTS = ["id_val", "val", "test"]
TASKS = [Task("multiclass", 3, "accuracy"), Task("binary", 1, "rocauc"), Task("regression", 1, "rmse")]


class Numbered(nn.Module):
    """Weights that tell which epoch they are of, in two dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", torch.tensor(-1))
        self.set(-1)

    def set(self, epoch: int) -> None:
        with torch.no_grad():
            self.linear.weight.fill_(epoch)
            self.linear.bias.fill_(-epoch)
            self.count.fill_(epoch)


def kept(best: BestWeights) -> int:
    """The epoch whose weights are kept, whole."""
    (epoch,) = {int(value) for value in best.weights["linear.weight"].flatten()}
    assert best.weights["linear.bias"].tolist() == [-epoch, -epoch]
    assert best.weights["count"].item() == epoch
    return epoch


def random_curves(seed: int, epochs: int, metric: str) -> tuple[torch.Tensor, list[dict]]:
    """Scores of few values, so that there are ties, some of them undefined; as tensors, and as in a record."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 4, (epochs, len(PARTS)), generator=random).double() / 4
    scores[torch.rand(scores.shape, generator=random) < (1.0 if seed % 10 == 9 else 0.25)] = math.nan
    named = [[None if math.isnan(value) else value for value in row] for row in scores.tolist()]
    return scores, [{part: {metric: value} for part, value in zip(PARTS, row, strict=True)} for row in named]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.metric)
@pytest.mark.parametrize("name", ["ood_val", "id_val", "last_epoch"])
def test_what_is_kept_is_what_the_rule_picks_also_after_a_resume(task, name):
    for seed in range(40):
        epochs, burn_in = 3 + seed % 6, seed % 5  # some are all burn-in
        rule, method = SelectionRule(name, burn_in), Numbered()
        scores, curves = random_curves(seed, epochs, task.metric)
        resumed_at = seed % epochs
        best = BestWeights(method, rule, task, PARTS)
        assert kept(best) == -1
        for epoch in range(epochs):
            if epoch == resumed_at:
                saved = {key: tensor.clone() for key, tensor in best.weights.items()}
                best = BestWeights(method, rule, task, PARTS)
                best.load(saved, curves[:epoch])
            method.set(epoch)
            best.offer(epoch, epoch + 1 == epochs, scores[epoch].clone())
            if name != "last_epoch" and epoch >= burn_in:
                assert kept(best) == rule.pick(curves[: epoch + 1], task), (seed, epoch)
        assert kept(best) == rule.pick(curves, task), seed


def test_weights_are_copies():
    method, task = Numbered(), TASKS[0]
    best = BestWeights(method, SelectionRule("ood_val"), task, PARTS)
    method.set(3)
    best.offer(0, False, torch.tensor([0.0, 0.5, 0.0], dtype=torch.double))
    method.set(8)
    assert kept(best) == 3
    best.offer(1, False, torch.tensor([1.0, 0.4999, 1.0], dtype=torch.double))
    assert kept(best) == 3
    best.offer(2, False, torch.tensor([0.0, 0.5, 0.0], dtype=torch.double))  # as good, and later
    assert kept(best) == 8
