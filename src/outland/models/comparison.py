"""How contenders did on rows that were held out, and which of them a model is made of, as validated plain values."""

from pydantic import Field

from outland.graphs.schema import Metric
from outland.models.plain import Interval, Plain

STACK = "stack"


class ContenderScore(Plain):
    """A contender on held-out rows.

    Attributes:
        name: a network's method, `forest`, `boosting`, `gp`, or `stack`, the weighted mean of the others.
        score: by the task's metric, the mean over targets.
        difference: from the delivered one, in the same draws.
        loss: log-loss at the temperature and bias of the other folds, or squared error of standardized numbers.
        weight: in the delivered model; None for the stack.
        epochs: of a network in the delivered model, chosen on all folds.
        seconds: that its folds took to train.
    """

    name: str
    score: Interval
    difference: Interval
    loss: float
    weight: float | None
    epochs: int | None
    seconds: float


class ReliabilityBin(Plain):
    """Rows with similar probabilities, as `calibration.reliability_bins` has them."""

    mean_probability: float
    observed_rate: float
    rows: int


class Comparison(Plain):
    """The contenders of a fit on the same held-out rows.

    Attributes:
        metric: of the scores.
        rows, folds: that were held out, and in how many folds.
        contenders: in the order of their loss.
        delivered: name of the one that is delivered.
        reason: why, in a sentence.
        left_out: for want of time, reasons by contender.
        failed: contenders that could not be trained, with the problem.
        notes: what was given up for want of time.
        reliability: of the delivered probabilities on held-out rows, calibrated on the other folds.
        calibration_error: mean difference of the two by bins; None for numbers.
    """

    metric: Metric
    rows: int
    folds: int
    contenders: list[ContenderScore]
    delivered: str
    reason: str
    left_out: dict[str, str] = Field(default_factory=dict)
    failed: dict[str, str] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    reliability: list[ReliabilityBin] = Field(default_factory=list)
    calibration_error: float | None = None

    def without_scores(self) -> "Comparison":
        """As it is shown where the rows are too few to judge by: what was chosen, and by which loss."""
        none = {"score": Interval(value=None), "difference": Interval(value=None)}
        contenders = [score.model_copy(update=none) for score in self.contenders]
        return self.model_copy(update={"contenders": contenders, "reliability": [], "calibration_error": None})

    def of(self, name: str) -> ContenderScore:
        """The contender of that name."""
        return next(score for score in self.contenders if score.name == name)
