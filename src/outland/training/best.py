"""The weights of the best epoch so far, kept on the device without asking it for a score."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from outland.graphs import Task
from outland.methods import Method
from outland.training.capture import CapturedProgram, GraphCapture
from outland.training.selection import SelectionRule


class BestWeights:
    """The weights of the epoch that `rule` picks, of those that were offered.

    A comparison on the device decides whether the weights are copied: the host need not know the score, and may be
    some epochs ahead.

    Args:
        method: whose weights are kept; `weights` are its own at first.
        rule, task: what is best.
        parts: names of the parts, in the order of their scores.
        capture: of the run; None where nothing is captured.
    """

    def __init__(
        self,
        method: Method,
        rule: SelectionRule,
        task: Task,
        parts: Sequence[str],
        capture: GraphCapture | None = None,
    ) -> None:
        self.rule, self.task = rule, task
        self._current: dict[str, Tensor] = {name: tensor.detach() for name, tensor in method.state_dict().items()}
        self.weights = {name: tensor.clone() for name, tensor in self._current.items()}
        self._part = None if rule.part is None else list(parts).index(rule.part)
        self._value = torch.full((), -math.inf, dtype=torch.double, device=next(method.parameters()).device)
        self._scores: Tensor | None = None
        self._program = CapturedProgram(self._keep_if_better, capture)

    def load(self, weights: dict[str, Tensor], curves: Sequence[dict[str, Any]]) -> None:
        """Go on from the weights that were best over the epochs of `curves`."""
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)
        part, metric = self.rule.part, self.task.metric
        values = [] if part is None else [row[part][metric] for row in curves[self.rule.burn_in :]]
        known = [self._sign * value for value in values if value is not None]
        self._value.fill_(max(known, default=-math.inf))

    def offer(self, epoch: int, is_last: bool, scores: Tensor) -> None:
        """Keep the method's present weights if their `scores`, one a part, are the best; of equal ones the later.

        Where programs are captured `scores` is the same tensor each time.
        """
        if self._part is None or epoch < self.rule.burn_in:
            if is_last:  # by the rule of the last epoch, or where there is no other
                torch._foreach_copy_(list(self.weights.values()), list(self._current.values()))
            return
        self._scores = scores
        self._program()

    @property
    def _sign(self) -> int:
        return 1 if self.task.higher_is_better else -1

    @torch.no_grad()
    def _keep_if_better(self) -> None:
        assert self._scores is not None
        value = self._sign * self._scores[self._part]
        value = torch.where(value.isnan(), -math.inf, value)
        is_better = value >= self._value
        self._value.copy_(torch.maximum(value, self._value))
        for name, kept in self.weights.items():
            torch.where(is_better, self._current[name], kept, out=kept)
