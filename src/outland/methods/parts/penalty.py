"""A penalty beside the risk, whose weight may be limited in the first steps."""

from outland.methods.base import MethodSettings, Progress
from outland.methods.parts.schedules import warm_up
from outland.settings import Count, NonNegative, settings


@settings("method")
class PenaltySettings(MethodSettings):
    """Hyper-parameters of a penalty.

    Args:
        penalty: its weight.
        warm_up: steps during which the weight is at most 1.
    """

    penalty: NonNegative = 1.0
    warm_up: Count = 0

    def weight(self, progress: Progress) -> float:
        """The penalty's weight in this step."""
        return warm_up(self.penalty, progress.step, self.warm_up)
