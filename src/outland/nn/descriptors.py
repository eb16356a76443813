"""Descriptors of whole graphs, standardized, as an addition to the readout."""

import torch
from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import GraphBatch, Schema
from outland.nn.settings import BackboneSettings

_LARGEST = 5.0  # standard deviations; what is further out is clipped


class DescriptorInput(nn.Module):
    """A linear map of the graphs' descriptors `[B, D]`, to be added to the readout `[B, width]`.

    Before a linear layer that is the same as joining the two. Mean and standard deviation are those of training graphs.
    An unknown value counts as average.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, descriptors: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(descriptors))
        self.register_buffer("scale", torch.ones(descriptors))
        self.linear = nn.Linear(descriptors, width, bias=False)

    def fit(self, values: Tensor) -> None:
        """Take mean and standard deviation from training rows `[G, D]`; a constant column is left at 0."""
        known = values.double()
        std = known.std(0, correction=0)
        self.mean.copy_(known.mean(0))
        self.scale.copy_(torch.where(std > 1e-6 * (1 + self.mean.abs()), 1 / std, 0))

    def forward(self, batch: GraphBatch) -> Tensor:
        """What the descriptors add to the readout; graphs that have none, or others, are refused."""
        given = 0 if batch.descriptors is None else batch.descriptors.shape[1]
        if batch.descriptors is None or given != len(self.mean):
            raise OutlandError(
                f"the network reads {len(self.mean)} descriptors of each molecule, and these graphs have "
                f"{given or 'none'}: give it a table of SMILES, or train it with backbone.descriptors=false"
            )
        standardized = ((batch.descriptors - self.mean) * self.scale).nan_to_num(0.0).clamp(-_LARGEST, _LARGEST)
        added: Tensor = self.linear(standardized)
        return added


def descriptor_input(settings: BackboneSettings, schema: Schema) -> DescriptorInput | None:
    """What reads the graphs' descriptors, if they are to be read and there are any."""
    if not settings.descriptors or not schema.descriptors:
        return None
    return DescriptorInput(schema.descriptors, settings.width)


def fit_descriptors(module: nn.Module, values: Tensor) -> None:
    """Fit every `DescriptorInput` of a module to the descriptors of training graphs `[G, D]`."""
    for layer in module.modules():
        if isinstance(layer, DescriptorInput):
            layer.fit(values)
