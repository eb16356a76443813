"""A penalty beside the risk, whose weight may be held back at first."""

from dataclasses import dataclass

from outland.methods.base import MethodSettings, Progress
from outland.methods.parts.schedules import warm_up
from outland.settings import check_ranges


@dataclass(frozen=True)
class PenaltySettings(MethodSettings):
    """Hyper-parameters of a penalty.

    Args:
        penalty: its weight.
        warm_up: steps during which the weight is at most 1.
    """

    penalty: float = 1.0
    warm_up: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", penalty=(0, None), warm_up=(0, None))

    def weight(self, progress: Progress) -> float:
        """What the penalty is multiplied by now."""
        return warm_up(self.penalty, progress.step, self.warm_up)
