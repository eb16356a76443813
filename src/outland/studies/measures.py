"""What is measured on top of a run, where its record does not tell: one small function each.

A measure takes the spec of a run and the folder it lies in. It is called once for every run of its study, and what it
returns is kept beside the record.
"""

from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.graphs import Cache, Splits
from outland.methods import Method
from outland.models import load_model
from outland.shift import Moments, ShiftSettings, augmented, fresh_draws, measure_shift, originals
from outland.studies.base import Measured
from outland.studies.pictures import Album
from outland.training import RunSpec, Trainer, prepare

# One ε and one trial a run for all cells: values are only comparable where they are measured alike. At 1e-12 two halves
# of one set are next to 0 apart (see docs/shift.md).
SETTINGS = ShiftSettings(trials=1, epsilon=1e-12)


def measure_augmentation(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """How far one augmented copy of the training graphs is from the training graphs and from the test graphs."""
    method, splits = prepare(spec, device, cache, data)
    if (folder / "model").exists():
        method = load_model(folder).method.to(device)
    method.reseed(spec.seed, device)
    method.prepare(splits.graphs, splits["train"], spec.seed)
    return Measured(augmentation_shift(method, splits, spec, device))


def augmentation_shift(method: Method, splits: Splits, spec: RunSpec, device: torch.device) -> dict[str, float]:
    """`aug_train` and `aug_test`: GCS from a method's augmented graphs to its training and its test graphs.

    The copies of a method that augments nothing are the training graphs: their distance to themselves is the null.
    """
    here, there = (originals(method, splits.graphs, splits[part]) for part in ("train", "test"))
    copies = augmented(method, splits.graphs, splits["train"], spec.seed) if method.augments else here
    schema = splits.schema if here.graphs.x.dtype == splits.graphs.x.dtype else None  # some augment embeddings
    schema = schema if here.graphs.x.shape[1] == splits.graphs.x.shape[1] else None
    found = {
        name: measure_shift(
            copies, other, schema=schema, settings=SETTINGS, seed=spec.seed, device=device, progress=False
        )
        for name, other in (("aug_train", here), ("aug_test", there))
    }
    values = {name: result.covariate.mean for name, result in found.items()}
    return values if method.augments else values | {"aug_train": found["aug_train"].null.mean}


def measure_diversity(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measured:
    """How diverse the masks of a training run are, and what they look like from the first epoch to the last.

    A mask that is drawn and not learned needs no training: it is drawn as often as there are epochs.
    """
    method, splits = prepare(spec, device, cache, data)
    method.reseed(spec.seed, device)
    if not method.learns_augmentation:
        return Measured(mask_entropies(fresh_draws(method, splits, max(2, spec.train.epochs), seed=spec.seed)))
    album = Album.over_training(method, splits, spec.train.epochs) if method.has_masks else None
    moments = Moments(method, splits, seed=spec.seed, callback=album)
    Trainer(method, splits, spec.train, spec.seed, callback=moments).fit()
    return Measured(mask_entropies(moments), album.all_pictures() if album is not None and not spec.seed else [])


def mask_entropies(moments: Moments) -> dict[str, float]:
    """`full`, `env` and `stable`: mean entropy of edge masks over 1,000 graphs, by part."""
    parts = moments.diversity("edge").parts
    names = {"full": "full", "env": "environment", "stable": "stable"}
    return {short: parts[name]["factorised"][0] for short, name in names.items() if name in parts}
