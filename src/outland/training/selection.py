"""Rules that select an epoch's model by the curves of a run.

A rule is a pure function of the curves, so nothing about it needs saving, and every rule can be applied afterwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from outland.errors import unknown
from outland.graphs import PARTS, Task

Curves = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class SelectionRule:
    """Pick the epoch with the best score on one part; of equal ones the later, which has trained longer.

    Args:
        burn_in: epochs at the start that are never picked. Where they are all there is, the last one is picked.
    """

    burn_in: int = 0
    name: ClassVar[str]
    part: ClassVar[str | None]

    def pick(self, curves: Curves, task: Task) -> int | None:
        """Index of the picked epoch; None where the part was never scored."""
        part, eligible = self.part, range(self.burn_in, len(curves))
        if not curves or (part is not None and part not in curves[0]):
            return None
        if part is None or not eligible:
            return len(curves) - 1
        sign = 1 if task.higher_is_better else -1

        def order(epoch: int) -> tuple[float, int]:
            value = curves[epoch][part][task.metric]
            return (-math.inf if value is None else sign * value, epoch)

        return max(eligible, key=order)


class OodVal(SelectionRule):
    """By the validation part beyond the shift: the benchmark's rule."""

    name: ClassVar[str] = "ood_val"
    part: ClassVar[str | None] = "val"


class IdVal(SelectionRule):
    """By the validation part that follows the training law."""

    name: ClassVar[str] = "id_val"
    part: ClassVar[str | None] = "id_val"


class LastEpoch(SelectionRule):
    """The last epoch, whatever the scores."""

    name: ClassVar[str] = "last_epoch"
    part: ClassVar[str | None] = None


class Oracle(SelectionRule):
    """By the test part itself: an upper bound to report, never a way to select a model."""

    name: ClassVar[str] = "oracle"
    part: ClassVar[str | None] = "test"


RULES: dict[str, type[SelectionRule]] = {rule.name: rule for rule in (OodVal, IdVal, LastEpoch, Oracle)}


def choosing_rule(name: str, burn_in: int) -> SelectionRule:
    """The rule of that name, for selecting a model; not the oracle."""
    honest = {key: rule for key, rule in RULES.items() if rule is not Oracle}
    if name not in honest:
        raise unknown("selection rule", name, honest)
    return honest[name](burn_in)


def selections(curves: Curves, task: Task, burn_in: int) -> dict[str, dict[str, Any]]:
    """The picked epoch and its scores under every rule, without burn-in and, if there is one, with it."""
    table: dict[str, dict[str, Any]] = {}
    for skipped in dict.fromkeys((0, burn_in)):
        for name, rule in RULES.items():
            picked = rule(skipped).pick(curves, task)
            if picked is None or (skipped and rule is LastEpoch):
                continue
            row = curves[picked]
            scores = {part: row[part][task.metric] for part in PARTS[1:] if part in row}
            table[f"{name}+burn_in" if skipped else name] = {"epoch": picked, "burn_in": skipped, **scores}
    return table
