"""How a shift is measured."""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from outland.errors import OutlandError
from outland.nn import BackboneSettings
from outland.settings import NonNegative, PositiveInt, settings
from outland.shift.integral import Proposal

Balance = Literal["subsample", "reweight", "none"]


@settings("shift")
class ShiftSettings:
    """How a shift is measured; the same for every pair of sets that are to be compared.

    Args:
        trials: number of trials, each with other graphs, folds, initial weights and points of the integral.
        most: maximum number of graphs a side in a trial, drawn at random.
        folds: a domain classifier is trained for each fold, on all the others; the features of a graph come from the
            one that it was held out of. Three at least: two networks are aligned on graphs that both were trained on.
        features: width of the feature vectors. Beyond 8, kernel densities of two equal sets hardly overlap.
        steps: training steps of a domain classifier, the second half with weight averaging.
        batch_size: graphs a step, half from each side.
        lr: initial learning rate; annealed to half of it over the first half of the steps.
        weight_decay: L2.
        balance: so that a shift of labels alone does not count, `subsample` graphs so that both sides have as many of
            each class; or `reweight` them; or `none`.
        label_input: give the domain classifier the class, where there are any, as in OoD-Bench.
        samples: number of points of the integral.
        proposal: where these are drawn from (see `compare`).
        epsilon: density below which a set counts as absent; None takes the largest, up to 1e-6, at which the GCS of
            two random halves of the pooled graphs is at most 0.01.
        backbone: of the domain classifier. Sum pooling, so that the sizes of graphs are visible; the head normalises.
    """

    trials: PositiveInt = 5
    most: Annotated[int, Field(ge=20)] = 1000
    folds: Annotated[int, Field(ge=3)] = 5
    features: Annotated[int, Field(ge=1, le=8)] = 8
    steps: Annotated[int, Field(ge=2)] = 300
    batch_size: Annotated[int, Field(ge=4)] = 64
    lr: NonNegative = 0.05
    weight_decay: float = 1e-4
    balance: Balance = "subsample"
    label_input: bool = True
    samples: Annotated[int, Field(ge=100)] = 10_000
    proposal: Proposal = "mixture"
    epsilon: Annotated[float, Field(allow_inf_nan=True)] | None = None
    backbone: BackboneSettings = field(
        default_factory=lambda: BackboneSettings(width=32, layers=3, dropout=0.0, pool="sum", head="mlp")
    )

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.epsilon >= 0:
            raise OutlandError(f"shift.epsilon must be at least 0 (inf is allowed), not {self.epsilon:g}")
