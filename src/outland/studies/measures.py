"""What is measured on top of a run, where its record does not tell: one small function each.

A measure takes the spec of a run and the folder it lies in and returns numbers by quantity. It runs once for every run
of its study; what it returns is kept beside the record.
"""

from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Cache
from outland.studies.base import Measured
from outland.training import RunSpec


def measure_augmentation(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """GCS of one augmented copy of the training graphs against the training graphs and against the test graphs."""
    raise OutlandError("the graph covariate shift cannot be measured yet")


def measure_diversity(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """Entropies of the masks that a training run lays on 1,000 graphs: whole, environment, stable part."""
    raise OutlandError("the diversity of augmentations cannot be measured yet")
