"""What is measured on top of a run, where its record does not tell: one small function each.

A measure takes the spec of a run and the folder it lies in. It is called once for every run of its study, and what it
returns is kept beside the record.
"""

from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Cache
from outland.studies.base import Measured
from outland.studies.pictures import augmented_over_training
from outland.training import RunSpec


def measure_augmentation(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """How far one augmented copy of the training graphs is from the training graphs and from the test graphs."""
    return Measured(augmentation_shift(spec, folder, device, cache, data))


def measure_diversity(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """How diverse the masks of a training run are, and what they look like from the first epoch to the last."""
    values = mask_entropies(spec, device, cache, data)
    pictures = augmented_over_training(spec, device, cache, data) if spec.method == "aia" and not spec.seed else []
    return Measured(values, pictures)


def augmentation_shift(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> dict[str, float]:
    """`aug_train` and `aug_test`: GCS from the augmented graphs of a run to its training and its test graphs."""
    raise OutlandError("the graph covariate shift cannot be measured yet")


def mask_entropies(
    spec: RunSpec, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> dict[str, float]:
    """`full`, `env` and `stable`: entropies of the masks that a training run lays on 1,000 graphs, by part."""
    raise OutlandError("the diversity of augmentations cannot be measured yet")
