"""A Gaussian process on fingerprints and descriptors of molecules, kept as tensors."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.devices import one_blas_thread
from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Task
from outland.models.calibration import calibrate
from outland.models.kernel_search import Kernel, Left, find_kernel, leave_groups_out
from outland.models.similarity import BitColumns
from outland.models.trees import MISSING, vectors
from outland.tables.folds import row_groups

MOST_ROWS = 5000  # that are learned from: time grows with their cube
_BLOCK = 512
_LARGEST = 5.0  # standard deviations of a descriptor; what is further out is clipped
_SLOPE = 4.0  # of logits by the learned number, before calibration
_DTYPES = {
    "fingerprints": torch.uint8,
    "descriptors": torch.float32,
    "center": torch.float32,
    "scale": torch.float32,
    "coefficients": torch.float32,
    "kernels": torch.float32,
    "link": torch.float32,
}
Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GaussianProcess:
    r"""The mean of a Gaussian process on molecules of Morgan bits b and standardized descriptors z.

    .. math:: k(x, x') = s\,T(b, b') + (1 - s)\,e^{-\|z - z'\|^2 / \ell}, \quad
              f(x) = \sum_i \alpha_i\,k(x, x_i), \quad \alpha = (K + \lambda I)^{-1} (y - \bar y)

    with Tanimoto's similarity T. Share s, length ℓ and noise λ are those with the least squared error on whole
    scaffolds left out, in closed form. Classes are learned as -1 and 1, one column each where there are several, and
    the logits are a f(x) + b, where a and b are fitted on the same left-out rows.

    Args:
        task: what is predicted.
        fingerprints: packed, of training molecules `[n, 256]`.
        descriptors: standardized and clipped `[n, D]`.
        center, scale: of each descriptor `[D]`; what they are multiplied by.
        coefficients: α of each output `[n, outputs]`; 0 where a label is unknown.
        kernels: s and ℓ of each output `[outputs, 2]`.
        link: a and b of each output `[outputs, 2]`; the mean is in b.
    """

    task: Task
    fingerprints: Tensor
    descriptors: Tensor
    center: Tensor
    scale: Tensor
    coefficients: Tensor
    kernels: Tensor
    link: Tensor

    @property
    def name(self) -> str:
        """In tables and on cards."""
        return "gp"

    def to(self, device: torch.device) -> "GaussianProcess":
        """Itself: it computes on the host."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name: what is saved."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "task"}

    def check(self) -> None:
        """A `ValueError` where the parts do not fit each other."""
        rows, columns = self.descriptors.shape if self.descriptors.ndim == 2 else (-1, -1)
        outputs = self.task.outputs
        shapes = {
            "fingerprints": (rows, 256),
            "descriptors": (rows, columns),
            "center": (columns,),
            "scale": (columns,),
            "coefficients": (rows, outputs),
            "kernels": (outputs, 2),
            "link": (outputs, 2),
        }
        tensors = self.tensors()
        if not rows or any(
            (tensors[name].shape, tensors[name].dtype) != (shapes[name], _DTYPES[name]) for name in shapes
        ):
            raise ValueError("the parts of its Gaussian process do not fit each other")
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError("a number of its Gaussian process is not finite")
        if not bool(((self.kernels[:, 0] >= 0) & (self.kernels[:, 0] <= 1) & (self.kernels[:, 1] > 0)).all()):
            raise ValueError("a kernel of its Gaussian process is impossible")

    def outputs(self, graphs: PackedGraphs) -> Tensor:
        """Outputs of molecules `[G, outputs]`, in order."""
        bits, values = vectors(graphs, len(self.center))
        standardized = _standardized(values, self.center.numpy(), self.scale.numpy())
        total = np.zeros((len(graphs), self.task.outputs))
        kernels = [Kernel(*pair) for pair in self.kernels.tolist()]
        alpha = self.coefficients.double().numpy()
        for start in range(0, len(graphs), _BLOCK):
            block = slice(start, start + _BLOCK)
            with one_blas_thread():
                similarity = self._bits.tanimoto(torch.from_numpy(bits[block]))
                distance = _squared_distances(standardized[block], self.descriptors.numpy())
                for kernel in dict.fromkeys(kernels):
                    columns = [column for column, other in enumerate(kernels) if other == kernel]
                    total[block, columns] = kernel(similarity, distance) @ alpha[:, columns]
        link = self.link.double().numpy()
        raw = torch.from_numpy(total * link[:, 0] + link[:, 1])
        return (raw.log_softmax(1) if self.task.kind == "multiclass" else raw).float()

    @cached_property
    def _bits(self) -> BitColumns:
        return BitColumns(self.fingerprints)


def fit_gp(graphs: PackedGraphs, task: Task, seed: int) -> GaussianProcess:
    """A Gaussian process, one a target on the rows where it is known.

    Args:
        graphs: molecules with `extra["fingerprint"]` and `extra["descriptors"]`; `y` as the task has it, numbers
            standardized. Of more than 5,000 rows so many are drawn.
        task: what is predicted.
        seed: of the drawing.
    """
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))
    with one_blas_thread():
        return _fit(graphs.select(order[:MOST_ROWS].sort().values), task, seed)


def _fit(graphs: PackedGraphs, task: Task, seed: int) -> GaussianProcess:
    bits, values = vectors(graphs)
    center, scale = _moments(values)
    z = _standardized(values, center, scale)
    similarity = BitColumns(torch.from_numpy(bits)).tanimoto(torch.from_numpy(bits))
    distance, groups = _squared_distances(z, z), row_groups("scaffold", graphs).numpy()
    labels = graphs.y.reshape(len(graphs), -1).double().cpu().numpy()
    coefficients = np.zeros((len(graphs), task.outputs))
    kernels, link = [], []
    for number, y in enumerate(labels.T):
        known = np.flatnonzero(~np.isnan(y))
        if not len(known):
            raise OutlandError("a target has no labels to learn from")
        square = np.ix_(known, known)
        target = _targets(y[known], task)
        mean = target.mean(0)
        kernel, noise = find_kernel(similarity[square], distance[square], target - mean, groups[known], seed)
        left = leave_groups_out(kernel(similarity[square], distance[square]), noise, target - mean, groups[known])
        first = 0 if task.kind == "multiclass" else number
        coefficients[known, first : first + target.shape[1]] = left.coefficients
        kernels += [[kernel.share, kernel.length]] * target.shape[1]
        link += _link(left, mean, y[known], task)
    tensors = (
        bits,
        z,
        center,
        scale,
        coefficients.astype(np.float32),
        np.array(kernels, np.float32),
        np.array(link, np.float32),
    )
    return GaussianProcess(task, *(torch.from_numpy(np.ascontiguousarray(each)) for each in tensors))


def _targets(y: Array, task: Task) -> Array:
    """What is learned `[n, columns]`: numbers as they are, classes as -1 and 1."""
    if task.kind == "regression":
        return y[:, None]
    if task.kind == "binary":
        return 2 * y[:, None] - 1
    return np.asarray(2 * (y[:, None] == np.arange(task.outputs)) - 1.0)


def _link(left: Left, mean: Array, y: Array, task: Task) -> list[list[float]]:
    """A and b of each column, so that the output is a f + b."""
    if task.kind == "regression":
        return [[1.0, float(mean[0])]]
    scores = torch.from_numpy(_SLOPE * (left.predictions + mean))
    fitted = calibrate(scores, torch.from_numpy(y), replace(task, outputs=len(mean)))
    factors = np.broadcast_to(_SLOPE / np.array(fitted.temperature), mean.shape)
    return [[float(a), float(a * m + b)] for a, m, b in zip(factors, mean, fitted.offset, strict=True)]


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Mean of each descriptor where it is known, and one over its standard deviation, 0 of a constant one."""
    known = np.ma.masked_less_equal(values.astype(np.float64), MISSING)
    center, std = known.mean(0).filled(0), known.std(0).filled(0)
    varies = std > 1e-6 * (1 + np.abs(center))
    return center.astype(np.float32), np.where(varies, 1 / np.where(varies, std, 1), 0).astype(np.float32)


def _standardized(values: Floats, center: Floats, scale: Floats) -> Floats:
    """Descriptors with mean 0 and standard deviation 1; an unknown value counts as average."""
    standardized = np.where(values <= MISSING, 0, (values - center) * scale)
    return np.clip(standardized, -_LARGEST, _LARGEST).astype(np.float32)


def _squared_distances(a: Floats, b: Floats) -> Floats:
    """Of all rows of one to all of the other `[m, n]`."""
    squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
    return np.asarray(np.maximum(squares, 0))
