"""Measures on top of a run, of what its record does not hold: one small function each.

A measure takes the spec of a run and its folder. It is called once for every run of its study, and the measurement that
it returns is saved beside the record.
"""

from dataclasses import replace
from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.graphs import Cache, Splits
from outland.methods import Method
from outland.models import load_model
from outland.shift import Moments, ShiftSettings, augmented, fresh_draws, measure_shift, originals
from outland.spec import RunSpec
from outland.studies.base import Measurement
from outland.studies.pictures import PictureCallback
from outland.training import Trainer, prepare

# One ε and one trial a run for all cells: values are only comparable where they are measured alike. At 1e-12 two halves
# of one set are next to 0 apart (see docs/shift.md).
SETTINGS = ShiftSettings(trials=1, epsilon=1e-12)


def papers_classifier(settings: ShiftSettings) -> ShiftSettings:
    """The same with a domain classifier that reads like the paper's: mean pooling, a linear head, no label input."""
    return replace(settings, label_input=False, backbone=replace(settings.backbone, pool="mean", head="linear"))


def measure_augmentation(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measurement:
    """The shift from one augmented copy of the training graphs to the training graphs and to the test graphs."""
    method, splits = prepare(spec, device, cache, data)
    if (folder / "model").exists():
        method = load_model(folder, device).method or method
    method.reseed(spec.seed, device)
    method.prepare(splits.graphs, splits["train"], spec.seed)
    return Measurement(augmentation_shift(method, splits, spec, device))


def augmentation_shift(method: Method, splits: Splits, spec: RunSpec, device: torch.device) -> dict[str, float]:
    """`aug_train` and `aug_test`: GCS from a method's augmented graphs to its training and its test graphs.

    With `_mean` after their names they are by a domain classifier that reads like the paper's. The copies of a method
    that augments nothing are the training graphs: their distance to themselves is the null.
    """
    train, test = (originals(method, splits.graphs, splits[part]) for part in ("train", "test"))
    copies = augmented(method, splits.graphs, splits["train"], spec.seed) if method.augments else train
    schema = splits.schema if train.graphs.x.dtype == splits.graphs.x.dtype else None  # some augment embeddings
    schema = schema if train.graphs.x.shape[1] == splits.graphs.x.shape[1] else None
    values: dict[str, float] = {}
    for suffix, settings in {"": SETTINGS, "_mean": papers_classifier(SETTINGS)}.items():
        to_train, to_test = (
            measure_shift(
                copies, other, schema=schema, settings=settings, seed=spec.seed, device=device, progress=False
            )
            for other in (train, test)
        )
        aug_train = to_train.covariate if method.augments else to_train.null
        values |= {f"aug_train{suffix}": aug_train.mean, f"aug_test{suffix}": to_test.covariate.mean}
    return values


def measure_diversity(
    spec: RunSpec, folder: Path, device: torch.device, cache: Cache | None, data: DataFolder | None
) -> Measurement:
    """The diversity of the masks of a training run, and pictures of them from the first epoch to the last.

    A mask that is drawn and not learned needs no training: it is drawn as often as there are epochs.
    """
    method, splits = prepare(spec, device, cache, data)
    method.reseed(spec.seed, device)
    if not method.learns_augmentation:
        return Measurement(mask_entropies(fresh_draws(method, splits, max(2, spec.train.epochs), seed=spec.seed)))
    pictures = PictureCallback.over_training(method, splits, spec.train.epochs) if method.has_masks else None
    moments = Moments(method, splits, seed=spec.seed, callback=pictures)
    Trainer(method, splits, spec.train, spec.seed, callback=moments).fit()
    taken = pictures.with_truth() if pictures is not None and not spec.seed else []
    return Measurement(mask_entropies(moments), taken)


def mask_entropies(moments: Moments) -> dict[str, float]:
    """`full`, `env`, `stable`: mean entropy of edge masks over 1,000 graphs, by part; with `node_`, of node masks."""
    names = {"full": "full", "env": "environment", "stable": "stable"}
    values: dict[str, float] = {}
    for prefix, parts in {"": moments.diversity("edge").parts, "node_": moments.diversity("node").parts}.items():
        values |= {prefix + short: parts[name]["factorised"][0] for short, name in names.items() if name in parts}
    return values
