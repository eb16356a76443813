"""What a model folder says of its training and of its scores, as validated plain values."""

from typing import Any, Literal

from pydantic import Field

from outland.errors import counted
from outland.graphs.schema import Metric
from outland.models.comparison import Comparison
from outland.models.plain import Interval, Plain

_FEWEST, _FEWEST_OF_A_CLASS = 20, 10  # rows, below which a score is luck


class TrainingSummary(Plain):
    """How a model was trained.

    Attributes:
        epochs, best_epoch: how many there were, and the selected one, counted from 0.
        seconds: of training.
        graphs: in each part.
        class_counts, class_draws: graphs of each class in training, and how often they were drawn an epoch.
        data: where the graphs came from, as in the run's record.
        platform: versions and device.
    """

    epochs: int
    best_epoch: int
    seconds: float
    graphs: dict[str, int]
    class_counts: list[int] = Field(default_factory=list)
    class_draws: list[int] | list[float] = Field(default_factory=list)
    data: dict[str, Any] = Field(default_factory=dict)
    platform: dict[str, str] = Field(default_factory=dict)


class CalibrationCheck(Plain):
    """Predicted probabilities against labels.

    Attributes:
        mean_probability: of the second of two classes; of the predicted class where there are more.
        observed_rate: share of the rows that are of it.
        accuracy: share of the rows whose class is predicted right.
    """

    mean_probability: float
    observed_rate: float
    accuracy: float


class PartScore(Plain):
    """The score of models on one target in one part.

    Attributes:
        part, target: which.
        metric: what is measured.
        rows: with a label and a finite prediction.
        groups: scaffolds, and single molecules without rings.
        score: of the model.
        reference: of ERM trained in the same way, where it was.
        difference: of the model to ERM.
        rare: rows of the rarer of two classes.
        calibration: of a classifier.
        mean_error: RMSE of always predicting the training mean, where numbers are predicted.
        called_right: of each of three or more classes, how many rows are called right, and how many there are.
        not_finite: rows with a label that are left out, for a prediction of theirs is not finite.
    """

    part: str
    target: str
    metric: Metric
    rows: int
    groups: int
    score: Interval
    reference: Interval | None = None
    difference: Interval | None = None
    rare: int | None = None
    calibration: CalibrationCheck | None = None
    mean_error: float | None = None
    called_right: dict[str, list[int]] = Field(default_factory=dict)
    not_finite: int = 0

    @property
    def too_few(self) -> str:
        """Why the rows cannot judge a model; empty where they can."""
        if self.rare is None:
            return f"too few to judge ({counted(self.rows, 'row')})" if self.rows < _FEWEST else ""
        if self.rare >= _FEWEST_OF_A_CLASS:
            return ""
        few = counted(self.rows, "row") if self.rows < _FEWEST else f"{counted(self.rare, 'row')} of one class"
        return f"too few to judge ({few})"

    @property
    def is_measured(self) -> bool:
        """Whether there is a score, of rows enough to judge by."""
        return self.score.value is not None and not self.too_few

    @property
    def common_share(self) -> float | None:
        """Share of the commonest of three or more classes."""
        counts = [rows for _, rows in self.called_right.values()]
        return max(counts) / sum(counts) if counts else None

    @property
    def guess(self) -> float | None:
        """What the same answer for all rows scores; None where that is not known."""
        return {"rocauc": 0.5, "accuracy": self.common_share, "rmse": self.mean_error}.get(self.metric)

    @property
    def may_be_chance(self) -> bool:
        """Whether the same answer for all rows may score as well: it lies within the interval, or beyond it."""
        end = self.score.high if self.metric == "rmse" else self.score.low
        worst = self.score.value if end is None else end
        if not self.is_measured or worst is None or self.guess is None:
            return False
        return worst >= self.guess if self.metric == "rmse" else worst <= self.guess

    @property
    def left_out(self) -> str:
        """A remark on rows that are left out; empty where there are none."""
        rows = counted(self.not_finite, "more row")
        return f"{rows} left out, whose predictions are not finite" if self.not_finite else ""


class ShiftSummary(Plain):
    """How well a classifier tells held-out graphs from training ones (ROC-AUC), and random halves (95 % quantile)."""

    auc: float
    null: float


class Assessment(Plain):
    """How a model does on rows that were held out.

    Attributes:
        scores: by part and target.
        comparison: of the contenders that the model was chosen from, where there were any.
        share_far: of the held-out rows.
        shift: from training to held-out rows, where there are enough of them.
    """

    scores: list[PartScore]
    comparison: Comparison | None = None
    share_far: float | None = None
    shift: ShiftSummary | None = None

    def by_worth(self) -> tuple[list[PartScore], list[PartScore], list[PartScore]]:
        """The held-out scores that are better than a guess, those that may be one, and those that are not measured."""
        scores = self.of("test")
        measured = [score for score in scores if score.is_measured]
        good = [score for score in measured if not score.may_be_chance]
        poor = [score for score in measured if score.may_be_chance]
        return good, poor, [score for score in scores if not score.is_measured]

    def of(self, part: Literal["val", "test"]) -> list[PartScore]:
        """The scores of one part, a target each."""
        return [score for score in self.scores if score.part == part]
