"""From graphs with labels to a model that is ready for new ones."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.estimators.calibration import Calibration, calibrate, prior_offset
from outland.estimators.distance import Familiar
from outland.estimators.inputs import BadInput, Kind
from outland.estimators.model import FittedModel, run_batches
from outland.estimators.watching import ScoreWatcher
from outland.graphs import Splits, Task
from outland.methods import MethodSettings, build_method, is_file, method_settings, split_name
from outland.nn import BackboneSettings
from outland.recipes import recipe_for
from outland.settings import change
from outland.training import Trainer, TrainSettings
from outland.training.callbacks import Callback
from outland.training.record import describe_platform

VISITS = 40_000  # graphs that training looks at in all, unless epochs are given: minutes on a laptop
FEWEST, MOST = 4, 40  # epochs
_MOST_REPEATS = 10  # of a graph of a rare class in one epoch
_SAMPLE = 1000  # training graphs kept with the model


@dataclass(frozen=True)
class Plan:
    """How a model is trained.

    Args:
        name: of the method; `settings` are its hyper-parameters.
        backbone: the network.
        train: the frame; `epochs` 0 stands for as many as `VISITS` allow.
        balance: draw rare classes more often.
    """

    name: str
    settings: MethodSettings
    backbone: BackboneSettings
    train: TrainSettings
    auto_epochs: bool
    balance: bool

    @classmethod
    def make(
        cls,
        method: str,
        epochs: int | None = None,
        balance: bool = True,
        changes: Mapping[str, Mapping[str, Any] | None] | None = None,
    ) -> "Plan":
        """Start from the recipe for Molbbbp, the benchmark that a table of molecules most resembles."""
        if is_file(method):
            raise OutlandError("a model folder cannot hold a method in a file of its own: use outland train for it")
        recipe = recipe_for("molbbbp")
        assert recipe is not None
        values = recipe.changes("molbbbp", "scaffold", "covariate", method)
        values["train"].pop("epochs")
        for group, given in (changes or {}).items():
            values[group] |= given or {}
        if epochs is not None:
            values["train"]["epochs"] = epochs
        return cls(
            name=split_name(method)[0],
            settings=method_settings(method, values["method"]),
            backbone=change(BackboneSettings(), values["backbone"], "backbone"),
            train=change(TrainSettings(), values["train"], "train"),
            auto_epochs="epochs" not in values["train"],
            balance=balance,
        )

    def framed(self, drawn: int) -> TrainSettings:
        """The frame for so many graphs an epoch."""
        if not self.auto_epochs:
            return self.train
        return replace(self.train, epochs=min(max(round(VISITS / drawn), FEWEST), MOST))


def train_model(
    splits: Splits,
    plan: Plan,
    *,
    kind: Kind,
    classes: tuple[Any, ...] = (),
    seed: int = 0,
    device: torch.device | str = "cpu",
    callback: Callback | None = None,
) -> FittedModel:
    """Train on `train`, choose the epoch and calibrate on `val`; other parts are not looked at."""
    started, task = time.perf_counter(), splits.schema.task
    y, scale = _scaled(splits.graphs.y, splits["train"], task)
    drawn, counts, times = _drawn(y, splits["train"], task, plan.balance, seed)
    frame = plan.framed(len(drawn))
    graphs = replace(splits.graphs, y=y)
    torch.manual_seed(seed)
    method = build_method(plan.name, splits.schema, plan.backbone, plan.settings).to(device)
    with one_thread():
        training = Splits(graphs, {"train": drawn, "val": splits["val"]}, splits.schema, splits.source).to(device)
        seen_by = None if callback is None else ScoreWatcher(callback, scale[1])
        trainer = Trainer(method, training, frame, seed, callback=seen_by)
        trainer.fit()
    random = torch.Generator().manual_seed(seed)
    chosen = splits["train"][torch.randperm(len(splits["train"]), generator=random)]
    embeddings = run_batches(method, graphs.select(chosen[: 2 * _SAMPLE]))[1]
    held = run_batches(method, graphs.select(splits["val"]))[0]
    calibration = Calibration(1.0, (0.0,))
    if task.kind != "regression":
        calibration = calibrate(held, y[splits["val"]], prior_offset(counts, times, task), task)
    about = {
        "settings": asdict(plan.settings),
        "backbone": asdict(plan.backbone),
        "train": asdict(frame),
        "classes": {"training": counts, "drawn": times},
        "graphs": {name: len(index) for name, index in splits.parts.items()},
        "best_epoch": _best(trainer),
        "seconds": time.perf_counter() - started,
        "seed": seed,
        "environment": describe_platform(torch.device(device)),
    }
    sample = _bare(splits, chosen[:_SAMPLE])
    return FittedModel(method, kind, classes, calibration, Familiar.of(embeddings, seed), scale, sample, about)


def _best(trainer: Trainer) -> int:
    picked = trainer.rule.pick(trainer.curves, trainer.splits.schema.task)
    return len(trainer.curves) - 1 if picked is None else picked


def _bare(splits: Splits, index: Tensor) -> Any:
    """Training graphs without what only training needed."""
    return replace(splits.graphs.select(index), environment=None, node_truth=None, edge_truth=None, extra={})


def _scaled(y: Tensor, train: Tensor, task: Task) -> tuple[Tensor, tuple[float, float]]:
    """Numbers to predict by their mean and spread in training; classes as they are."""
    if task.kind != "regression":
        return y, (0.0, 1.0)
    known = y[train].double()
    mean, spread = float(known.mean()), float(known.std(correction=0))
    if not (math.isfinite(mean) and spread > 0):
        raise BadInput("the numbers to predict are all the same, or not finite: there is nothing to learn")
    return ((y.double() - mean) / spread).float(), (mean, spread)


def _drawn(y: Tensor, train: Tensor, task: Task, balance: bool, seed: int) -> tuple[Tensor, list[int], list[int]]:
    """Training rows with rare classes repeated until all are drawn alike, at most ten times; counts before and after.

    Rows are repeated and not weighed, because every method takes them so.
    """
    if task.kind == "regression":
        return train, [], []
    labels = y[train].flatten().long()
    number = 2 if task.kind == "binary" else task.outputs
    counts = torch.bincount(labels, minlength=number).tolist()
    if min(counts) == 0:
        missing = counts.index(0)
        raise BadInput(
            f"no training row is of class number {missing}: hold out fewer rows, or take shift='random', or more data"
        )
    if not balance:
        return train, counts, counts
    random, found = torch.Generator().manual_seed(seed), []
    for label, count in enumerate(counts):
        wanted = min(max(counts), _MOST_REPEATS * count)
        own = train[labels == label]
        rest = own[torch.randperm(count, generator=random)[: wanted % count]]
        found.append(torch.cat([own.repeat(wanted // count), rest]))
    return torch.cat(found), counts, [len(one) for one in found]
