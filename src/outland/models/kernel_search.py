"""Kernels of molecules, and which of them predicts whole scaffolds that are left out best."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outland.errors import OutlandError

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Groups = npt.NDArray[np.int64]

_SEARCH_ROWS = 800  # that kernels are compared on
_SHARES = (0.03, 0.1, 0.3, 0.6)
_LENGTHS = (0.3, 1.0, 3.0, 10.0)  # in units of the median squared distance
_NOISES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class Kernel(NamedTuple):
    """s T + (1 - s) exp(-d / length), of similarities T and squared distances d."""

    share: float
    length: float

    def __call__(self, similarity: Floats, distance: Floats) -> Array:
        """Its values `[m, n]`."""
        smooth = np.exp(distance * np.float32(-1 / self.length))
        return np.asarray(self.share * similarity + (1 - self.share) * smooth, dtype=np.float64)


class Left(NamedTuple):
    """Coefficients of all rows, and what is predicted of each by those of other groups `[n, columns]`."""

    coefficients: Array
    predictions: Array


def leave_groups_out(kernel: Array, noise: float, y: Array, groups: Groups) -> Left:
    r"""Coefficients :math:`\alpha = C y` of :math:`C = (K + \lambda I)^{-1}`, and predictions without a row's group.

    The residuals of a group g that is left out are :math:`(C_{gg})^{-1} \alpha_g`: no second fit is needed.

    Args:
        kernel: K `[n, n]`.
        noise: λ.
        y: `[n, columns]`, with mean 0.
        groups: of rows `[n]`.
    """
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(kernel + noise * np.eye(len(kernel)), lower=True, overwrite_a=True)
    if failed:
        raise OutlandError("the kernel of its molecules is not positive definite")
    inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    coefficients = inverse @ y
    residuals = coefficients / np.diagonal(inverse)[:, None]
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if len(rows) > 1:
            residuals[rows] = np.linalg.solve(inverse[np.ix_(rows, rows)], coefficients[rows])
    return Left(coefficients, y - residuals)


def find_kernel(similarity: Floats, distance: Floats, y: Array, groups: Groups, seed: int) -> tuple[Kernel, float]:
    """The kernel and noise with the least squared error on groups left out, on up to 800 rows drawn at random.

    Args:
        similarity, distance: of all rows to all `[n, n]`.
        y, groups: as in `leave_groups_out`.
        seed: of the drawing.
    """
    rows = np.random.default_rng(seed).permutation(len(y))[:_SEARCH_ROWS]
    square = np.ix_(rows, rows)
    similarity, distance, y, groups = similarity[square], distance[square], y[rows], groups[rows]
    unit = max(float(np.median(distance)), 1e-6)
    kernels = [Kernel(share, unit * length) for share in _SHARES for length in _LENGTHS]
    errors: dict[tuple[Kernel, float], float] = {}
    for kernel in kernels:
        values = kernel(similarity, distance)
        for noise in _NOISES:
            errors[kernel, noise] = float(np.square(y - leave_groups_out(values, noise, y, groups).predictions).mean())
    return min(errors, key=errors.__getitem__)
