"""A fast measure of a shift: how well a classifier tells two sets of vectors apart, beside what chance gives."""

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs
from outland.models import TrainedModel
from outland.spec import load_splits

MIN_ROWS = 20  # a side
_MOST, _FOLDS, _PERMUTATIONS, _RIDGE = 500, 5, 200, 1.0
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TwoSample:
    """A classifier two-sample test (Lopez-Paz and Oquab, ICLR 2017).

    Args:
        auc: ROC-AUC of the classifier on held-out rows: share of pairs of rows, one of each set, that it tells apart.
        null: the same with sides drawn at random: their mean and 95 % quantile over permutations.
        p_value: share of the permutations that reach `auc`.
        rows: compared, a side.
        seconds: it took.
    """

    auc: float
    null: tuple[float, float]
    p_value: float
    rows: tuple[int, int]
    seconds: float

    @property
    def is_shifted(self) -> bool:
        """Whether the sets differ by more than chance."""
        return self.p_value < 0.05


def two_sample(first: Tensor, second: Tensor, seed: int = 0) -> TwoSample:
    """Test whether rows `[n, d]` and `[m, d]` come from one distribution, in about a second.

    Kernel ridge regression of the side on standardized columns (Gaussian kernel, as wide as the median distance) is
    cross-validated over five folds, on up to 500 rows a side. Its predictions are linear in the sides, so that all
    permutations of them for the null cost one more matrix product.
    """
    started = time.perf_counter()
    if min(len(first), len(second)) < MIN_ROWS:
        raise OutlandError(f"a shift is measured on at least {MIN_ROWS} rows a side")
    random = np.random.default_rng(seed)
    parts = [part.double().nan_to_num(0.0).numpy()[random.permutation(len(part))[:_MOST]] for part in (first, second)]
    x = np.concatenate(parts)
    side = np.repeat([0.0, 1.0], [len(part) for part in parts])
    sides = np.stack([side, *(random.permutation(side) for _ in range(_PERMUTATIONS))], 1)
    values = _auc(_predicted(_kernel(x), sides, random.permutation(len(x)) % _FOLDS), sides)
    null = values[1:]
    return TwoSample(
        auc=float(values[0]),
        null=(float(null.mean()), float(np.quantile(null, 0.95))),
        p_value=float((1 + (null >= values[0]).sum()) / (1 + len(null))),
        rows=(len(parts[0]), len(parts[1])),
        seconds=time.perf_counter() - started,
    )


def _kernel(x: Array) -> Array:
    std = x.std(0)
    x = np.clip((x - x.mean(0)) / np.where(std > 1e-9, std, np.inf), -5, 5)
    squares = (x * x).sum(1)
    distances = np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0)
    median = float(np.median(distances)) or 1.0
    return np.asarray(np.exp(-distances / median))


def _predicted(kernel: Array, sides: Array, fold: npt.NDArray[np.intp]) -> Array:
    """Held-out predictions of each column of sides."""
    predicted = np.empty_like(sides)
    for number in range(_FOLDS):
        inside = fold == number
        train = kernel[np.ix_(~inside, ~inside)] + _RIDGE * np.eye(int((~inside).sum()))
        centered = sides[~inside] - sides[~inside].mean(0)
        predicted[inside] = kernel[np.ix_(inside, ~inside)] @ np.linalg.solve(train, centered)
    return predicted


def _auc(predicted: Array, sides: Array) -> Array:
    from scipy.stats import rankdata

    ones = sides.sum(0)
    ranks = (rankdata(predicted, axis=0) * sides).sum(0)
    return np.asarray((ranks - ones * (ones + 1) / 2) / (ones * (len(sides) - ones)))


def fast_shift(
    model: TrainedModel,
    graphs: PackedGraphs,
    seed: int = 0,
    cache: Cache | None = None,
    data: DataFolder | None = None,
) -> TwoSample:
    """The test between training graphs of a model and new ones: on descriptors of molecules, else on embeddings."""
    reference = model.reference
    if reference is None:
        reference = load_splits(model.spec, cache=cache, data=data).part("train")
        drawn = torch.randperm(len(reference), generator=torch.Generator().manual_seed(seed))[:_MOST]
        reference = reference.select(drawn)
    both = [reference, graphs]
    if all("descriptors" in part.extra for part in both):
        return two_sample(reference.extra["descriptors"], graphs.extra["descriptors"], seed)
    vectors = [None if model.network is None else model.network.outputs_and_embeddings(part)[1] for part in both]
    if vectors[0] is None or vectors[1] is None:
        raise OutlandError("the graphs have no descriptors and the model no embeddings to compare them by: use --gcs")
    return two_sample(vectors[0], vectors[1], seed)
