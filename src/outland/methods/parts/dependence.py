"""Dependence as a function of weights on rows, with its gradient in closed form: what the inner steps descend."""

import math
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from outland.methods.parts.independence import (
    FourierInput,
    Pairs,
    centred_kernels,
    decorrelation,
    fourier_features,
    gaussian_kernels,
    hsic,
    standardised,
)
from outland.ops import TableLayout, dependence_terms

_ENTRIES = 2**22  # of tables that are prepared together: few launches on a GPU, and not far from a CPU's caches
_HSIC_SCALE = 1e3


class Dependence(Protocol):
    """Dependence by weights `[n]` that sum to 1; every inner step may draw its own."""

    def gradient(self, step: int, weights: Tensor) -> Tensor:
        """Its gradient by the weights `[n]`, up to a number that is added to all, which no softmax passes on."""


class Measure(Protocol):
    """A kind of dependence."""

    def __call__(self, z: Tensor, valid: Tensor) -> Dependence:
        """That of the coordinates of rows `[n, d]`, of which some are valid `[n]`."""


class FourierSettings(NamedTuple):
    """How waves are made of coordinates."""

    features: FourierInput = "standardised"
    frequencies: int = 1
    pairs: Pairs = "same"
    power: float = 2.0  # dependence grows with its square


class TableDependence:
    """Dependence whose gradient is two products with a table, and little work between them: see `dependence_terms`."""

    layout: TableLayout

    def table(self, step: int) -> Tensor:
        """The table of an inner step, `[n, columns]`."""
        raise NotImplementedError

    def gradient(self, step: int, weights: Tensor) -> Tensor:
        """That of `value` by the weights, up to a number that is added to all."""
        table, rows = self.table(step), len(weights)
        terms = dependence_terms(torch.mv(table.mT, weights), weights, self.layout)
        return terms[:rows].addmv_(table[:, rows:], terms[rows:])


class FourierDependence(TableDependence):
    """Dependence between the coordinates of `z [n, d]`, by Fourier features that every inner step draws anew.

    They do not depend on the weights, so all are drawn ahead and the tables of many steps prepared together.
    """

    def __init__(
        self, z: Tensor, valid: Tensor, random: torch.Generator, steps: int, settings: FourierSettings
    ) -> None:
        rows, width = z.shape
        count, crossed = settings.frequencies, settings.pairs == "all"
        self.settings = settings
        self.z = standardised(z, valid) if settings.features == "standardised" else z
        # The paper has a frequency for each coordinate, the code one for all; both a phase for each.
        self.shared = settings.features == "normalised"
        self.frequency = z.new_empty(steps, count, 1, 1 if self.shared else width)
        self.phase = z.new_empty(steps, count, 1, width)
        for step in range(steps):  # one by one, so that a seed's draws do not depend on how many steps there are
            self.frequency[step].normal_(generator=random)
            self.phase[step].uniform_(0, 2 * math.pi, generator=random)
        self.uniform = valid / valid.sum().clamp(min=1).to(z.dtype)
        waves = 2 * count if self.shared else count
        self.layout = TableLayout(1 if crossed else waves, waves, width, crossed)
        self.together = max(1, _ENTRIES // max(1, rows * sum(self.layout.sizes(rows))))
        self.prepared: tuple[int, Tensor] | None = None

    def value(self, step: int, weights: Tensor) -> Tensor:
        """The dependence of an inner step."""
        return decorrelation(self.waves(step, 1)[0], weights, self.settings.pairs)

    def waves(self, step: int, count: int) -> Tensor:
        """Features of some inner steps, `[steps, Q, n, d]`."""
        taken = slice(step, step + count)
        return fourier_features(self.z, self.frequency[taken], self.phase[taken], self.shared, self.settings.power)

    def table(self, step: int) -> Tensor:
        """The table of an inner step; steps are best asked for in order."""
        chunk, index = divmod(step, self.together)
        if self.prepared is None or self.prepared[0] != chunk:
            self.prepared = None  # its memory serves the next
            self.prepared = chunk, self._tables(self.waves(chunk * self.together, self.together))
        return self.prepared[1][index]

    def _tables(self, waves: Tensor) -> Tensor:
        # Covariances do not change, and less of them is lost to rounding.
        waves -= (self.uniform @ waves)[..., None, :]
        features = waves.transpose(1, 2)
        if self.layout.crossed:
            joint = features.flatten(2)
            kernels = (joint @ joint.mT)[:, :, None]
            products = features[:, :, :, None] * features[:, :, None]
        else:
            kernels, products = (waves @ waves.mT).transpose(1, 2), features.square()
        parts = (kernels.square().sum(2), kernels, features, products)
        return torch.cat([part.flatten(2) for part in parts], dim=2)


class HSICDependence(TableDependence):
    """10³ times the sum of HSIC over all pairs of blocks of `z [n, blocks · d]`, the same at every inner step."""

    def __init__(self, z: Tensor, valid: Tensor, blocks: int, bandwidth: Literal["median", "one"]) -> None:
        self.kernels = gaussian_kernels(z.unflatten(1, (blocks, -1)).transpose(0, 1), valid, bandwidth)
        self.count = valid.sum().to(z.dtype)
        self.layout = TableLayout(blocks, others=True)
        uniform = valid / self.count.clamp(min=1)
        correction = self.count / (self.count - 1).clamp(min=1)
        centred = centred_kernels(self.kernels, uniform) * (math.sqrt(_HSIC_SCALE) * correction)
        hadamard = (centred.sum(0).square() - centred.square().sum(0)) / 2
        self.whole = torch.cat([hadamard, *centred], dim=1)

    def value(self, step: int, weights: Tensor) -> Tensor:
        """The dependence."""
        return _HSIC_SCALE * hsic(self.kernels, weights, self.count).triu(1).sum()

    def table(self, step: int) -> Tensor:
        """The table, of whatever step."""
        return self.whole
